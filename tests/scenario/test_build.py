"""The build itself, asked through ninja's own tools; nothing is built here."""
import glob
import os
import subprocess

from reeve_test import BIN, Skip, check, eq, main

BUILD = os.path.dirname(BIN)
SOURCE = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))


def ninja(*args):
    if not os.path.exists(os.path.join(BUILD, "build.ninja")):
        raise Skip("the program was not built by ninja here")
    return subprocess.run(["ninja", "-C", BUILD, *args], capture_output=True, text=True,
                          check=True).stdout


def test_a_build_with_nothing_to_do_does_nothing():
    """PHONY is meson's word for: stale in each build. Only what is asked for by name may be."""
    with open(os.path.join(BUILD, "build.ninja")) as f:
        stale = [line.split()[1].rstrip(":") for line in f
                 if line.startswith("build ") and " PHONY" in line.partition(":")[2]]
    by_name = ("meson-internal__", "reconfigure")
    eq([t for t in stale if not t.startswith(by_name)], [], "targets that run in each build")


def test_layers_are_checked_again_after_a_change_of_any_source():
    deps = ninja("-t", "deps", "layers.stamp").split()
    sources = glob.glob(os.path.join(SOURCE, "src", "*", "*.[ch]"))
    folders = [os.path.join(SOURCE, "src"), *filter(os.path.isdir, glob.glob(f"{SOURCE}/src/*"))]
    check(len(sources) > 100, f"sources in {SOURCE}")
    missing = {*sources, *folders} - {os.path.normpath(os.path.join(BUILD, d)) for d in deps}
    eq(sorted(missing), [], "sources whose change would not be seen")


main()
