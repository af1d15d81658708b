#!/usr/bin/env python3
"""tests/proof/planted.py [--weapon NAME]... [--check] [BUG...]: plants each bug of src/base/planted.h
and prints which weapon sees it, and as what, as a matrix. A bug that nothing sees is a failure, and so
is a weapon that fails while no bug is awake: that is tried first.

A weapon is a list of commands, short enough for the whole matrix to take less than half an hour on
one core; the first that fails ends it. All of them run the build with -Dplanted=true, in
build-planted, which this makes.

--check runs nothing: every bug in the list has its place in src, and every place its bug.
"""
import argparse, ctypes, os, pathlib, re, signal, subprocess, sys, time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "build-planted"
SECONDS_MAX = 90  # of a command; who is not done by then hangs
CELL_MAX = 34
NOT_TRIED = "–"
LIMITS = {"REEVE_CUTS": "400", "REEVE_LIVES": "40", "REEVE_FAULTS": "300", "REEVE_KILLS": "15",
          "REEVE_HISTORIES": "200", "TAP_SECONDS": "60"}  # unless the environment says otherwise


def built(name, *words):
    return [FOLDER / "tests" / name, *words]


def script(path, *words):
    return [sys.executable, f"tests/{path}.py", *words]


WEAPONS = {
    "sim": [built("reeve-sim", "--first", "--seeds", os.environ.get("REEVE_SIM_SEEDS", "1000"))],
    "power-cuts": [built("test_power_cuts", "W2_P12"), built("test_power_loss", "survive")],
    "io-faults": [built("test_io_faults", "appends", "tasks", "backups")],
    "kill9": [script("crash/test_kill9")],
    "fleet": [script("crash/test_fleet", "L17", "L43", "L56")],
    "clocks": [built("test_clocks")],
    "fuzz-calls": [built("replay_calls", "tests/fuzz/corpus/calls")],
    "unit": [*(built("test_" + name) for name in ("clock", "tree", "lifecycle", "time")),
             built("test_task", "held", "restart_grants"),
             built("test_core", "refused", "undone", "numbers", "commit_fails"),
             built("test_store", "lost", "L80", "checkpoint", "backup")],
    "scenario": [script("scenario/test_idempotency", "L07", "create", "end_takes"),
                 script("scenario/test_subscriptions", "afterId", "goes_on"),
                 script("scenario/test_participants", "supersede", "a_restart_grants", "P8"),
                 script("scenario/test_machines", "token", "instance", "twice", "register_ends"),
                 script("scenario/test_why", "what_fired", "held_for_machine"),
                 script("scenario/test_lost_hosts", "P3", "P9"),
                 script("scenario/test_deadlines", "P16_a_gap"),
                 script("scenario/test_tasks", "P19_a_repeat"),
                 script("scenario/test_tool_rules", "does_not_resume"),
                 script("scenario/test_shim", "L51_an", "L54_a_stop", "signals_and"),
                 script("scenario/test_machine_facts", "overtaken"),
                 script("scenario/test_machine_link", "same_spawn", "P21", "facts_are")],
}

RUNS_MACHINES = ("fleet", "unit", "scenario")  # the others have none, and cannot see what is in there


# ---- the list ----

def bugs():
    text = (ROOT / "src/base/planted.h").read_text()
    return re.findall(r'X\(([A-Z_]+),\s+"([a-z-]+)",\s+\\?\s*"([^"]+)"\)', text)


def places():
    """Name of a bug → the layers in which it is planted."""
    found = {}
    for path in (ROOT / "src").rglob("*.c"):
        for name in re.findall(r"\bplanted\(([A-Z_]+)\)", path.read_text()):
            found.setdefault(name, set()).add(path.parent.name)
    return found


def check_places():
    """Complaints about bugs without a place in src, and places without a bug."""
    names, used = [name for name, _, _ in bugs()], places()
    return [f"{n} is planted nowhere" for n in names if n not in used] \
        + [f"{n} is not in the list" for n in sorted(used) if n not in names] \
        + [f"{n} is there twice" for n in names if names.count(n) > 1]


def can_see(weapon, name):
    return weapon in RUNS_MACHINES or places()[name] != {"machine"}


# ---- running ----

def build():
    if not (FOLDER / "build.ninja").exists():
        subprocess.run(["meson", "setup", FOLDER, "-Dplanted=true"], cwd=ROOT, check=True,
                       stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", FOLDER, "all", "meson-test-prereq"], check=True,
                   stdout=subprocess.DEVNULL)


def adopt_orphans():
    ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER


def end_orphans():
    """What a failed test left behind is a child of ours by now, and nobody else's."""
    while children := pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        for pid in map(int, children):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def short(name):
    """As many words of a test's name as fit a cell."""
    words = name.removesuffix(":").split("_")
    while len(" ".join(words)) > CELL_MAX:
        words.pop()
    return " ".join(words)


def complaint(command, bug):
    """What the command says is wrong; empty: nothing."""
    env = {**LIMITS, **os.environ, "REEVE_PLANTED": bug, "REEVE_BIN": str(FOLDER / "reeve"),
           "TAP_FIRST": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        run = subprocess.run(command, env=env, cwd=ROOT, text=True, errors="replace",
                             timeout=SECONDS_MAX, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return "hangs"
    finally:
        end_orphans()
    if run.returncode == 0:
        return ""
    found = re.search(r"^not ok (?:- seed \d+: |\d+ - )(\S+)", run.stdout, re.M)
    return short(found.group(1)) if found else "crash"


def sees(weapon, bug):
    return next(filter(None, (complaint(command, bug) for command in WEAPONS[weapon])), "")


def check_weapons(weapons):
    """Each without a bug, and how long it takes."""
    for weapon in weapons:
        begun = time.monotonic()
        if seen := sees(weapon, "none"):
            sys.exit(f"{weapon} fails without any bug: {seen}")
        print(f"{weapon}: {time.monotonic() - begun:.0f} s", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--weapon", action="append", choices=list(WEAPONS))
    parser.add_argument("--check", action="store_true")
    parser.add_argument("bug", nargs="*")
    chosen = parser.parse_args()
    if unknown := set(chosen.bug) - {text for _, text, _ in bugs()}:
        parser.error(f"there is no bug {', '.join(unknown)}")
    if chosen.check:
        sys.exit("\n".join(check_places()) or 0)
    weapons, missed = chosen.weapon or list(WEAPONS), []
    build()
    adopt_orphans()
    check_weapons(weapons)
    print("| planted | breaks | " + " | ".join(weapons) + " |\n|---|---|" + "---|" * len(weapons))
    for name, bug, breaks in bugs():
        if chosen.bug and bug not in chosen.bug:
            continue
        row = [sees(weapon, bug) if can_see(weapon, name) else NOT_TRIED for weapon in weapons]
        missed += [] if any(cell not in ("", NOT_TRIED) for cell in row) else [bug]
        print(f"| {bug} | {breaks} | " + " | ".join(row) + " |", flush=True)
    sys.exit(f"nothing sees {', '.join(missed)}" if missed else 0)


if __name__ == "__main__":
    main()
