"""./dev, with stand-ins for what it calls: nothing is installed and nothing is built."""
import os
import shutil
import subprocess

from reeve_test import check, eq, folder, main

SOURCE = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
STANDINS = {"bin/make": 'echo "make $*"', "build/reeve": 'echo "reeve $*"',
            "bin/dpkg-query": "echo ok installed", "bin/node": "true"}


def dev(*args):
    tree = os.path.join(folder(), "tree")
    for name, line in STANDINS.items():
        path = os.path.join(tree, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(f"#!/bin/sh\n{line}\n")
        os.chmod(path, 0o755)
    for name in ("dev", "Makefile"):
        shutil.copy(os.path.join(SOURCE, name), tree)
    path = os.path.join(tree, "bin") + ":" + os.environ["PATH"]
    return subprocess.run([os.path.join(tree, "dev"), *args], capture_output=True, text=True,
                          env=os.environ | {"PATH": path})


def test_options_of_up_are_passed_on():
    for args in ((), ("up",), ("up", "--listen", "7500", "--data", "with blank")):
        done = dev(*args)
        eq((done.returncode, done.stderr), (0, ""), f"dev {args}")
        eq(done.stdout.splitlines(),
           ["make --no-print-directory", " ".join(["reeve up", *args[1:]])], f"dev {args}")


def test_help_is_its_own():
    for word in ("--help", "-h", "help"):
        done = dev(word)
        eq(done.returncode, 0, f"status of dev {word}")
        for part in ("usage: ./dev", "./dev up [OPTIONS]", "check-quick"):
            check(part in done.stdout, f"no {part!r} in {done.stdout}")
    check("GNU" not in done.stdout and "make --" not in done.stdout, done.stdout)


def test_an_option_without_a_target_is_refused():
    done = dev("--listen", "7500")
    eq(done.returncode, 2, "status")
    check("./dev --help" in done.stderr, done.stderr)


def test_other_targets_are_the_makefiles():
    eq(dev("check", "X=1").stdout, "make --no-print-directory check X=1\n", "dev check")


main()
