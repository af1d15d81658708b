#!/usr/bin/env python3
"""tests/proof/planted.py [BUG...]: plants each bug of src/base/planted.h and prints which weapon
finds it, as a matrix. A bug that nothing finds is a failure.

A weapon is a command and the number of tries it is given; add a row to WEAPONS for another. All of
them run the build with -Dplanted=true, in build-planted, which this makes.
"""
import os, pathlib, re, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "build-planted"
WEAPONS = {
    "sim": [FOLDER / "tests/reeve-sim", "--first", "--seeds", os.environ.get("REEVE_SIM_SEEDS", "1000")],
}


def bugs():
    text = (ROOT / "src/base/planted.h").read_text()
    return re.findall(r'X\([A-Z_]+,\s+"([a-z-]+)",\s+\\?\s*"([^"]+)"\)', text)


def build():
    if not (FOLDER / "build.ninja").exists():
        subprocess.run(["meson", "setup", FOLDER, "-Dplanted=true"], cwd=ROOT, check=True,
                       stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", FOLDER, "tests/reeve-sim"], check=True, stdout=subprocess.DEVNULL)


def finds(weapon, bug):
    """How the weapon calls it; empty: it saw nothing."""
    run = subprocess.run(WEAPONS[weapon], env={**os.environ, "REEVE_PLANTED": bug}, cwd=ROOT,
                         capture_output=True, text=True)
    found = re.search(r"^not ok .*?: (\w+) ", run.stdout, re.M)
    return found.group(1) if found else "" if run.returncode == 0 else "failed"


def main(chosen):
    build()
    missed = 0
    print("| planted | breaks | " + " | ".join(WEAPONS) + " |")
    print("|---|---|" + "---|" * len(WEAPONS))
    for bug, breaks in bugs():
        if chosen and bug not in chosen:
            continue
        row = [finds(weapon, bug) for weapon in WEAPONS]
        missed += not any(row)
        print(f"| {bug} | {breaks} | " + " | ".join(row) + " |", flush=True)
    if not chosen and any(finds(weapon, "none") for weapon in WEAPONS):
        sys.exit("a weapon fails without any bug")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
