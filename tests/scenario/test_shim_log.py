#!/usr/bin/env python3
"""The log of an agent: time stamps, rotation, long lines, full disks, and the tail of the last word."""
import os
import re
import resource
import subprocess

from reeve_test import Skip, check, eq, folder, main, wait_for
from spawn import MISBEHAVE, Spawn, misbehave

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (out|err|run) ")


def test_every_line_has_its_time_and_stream():
    s = Spawn("sh", "-c", "echo one; echo two >&2; printf three; exit 1")
    eq(s.last_word()["tail"].splitlines()[-1], "three", "the last line, which was not ended")
    for line in s.log().splitlines():
        check(LINE.match(line), f"form of {line!r}")
    eq((s.lines("out"), s.lines("err")), (["one", "three"], ["two"]), "lines")
    begun, ended = s.lines("run")
    check(begun.startswith(f"spawn {s.id} started as process "), begun)
    eq(ended, f"spawn {s.id} ended: exited with status 1", "the end")


def test_spawns_of_an_agent_share_its_log():
    for i in range(3):
        s = Spawn("echo", f"number {i}")
        s.last_word()
    eq(s.lines("out"), ["number 0", "number 1", "number 2"], "lines")


def test_rotation_keeps_one_old_file_and_loses_nothing_in_it():
    s = misbehave("many-lines", 10000, logBytesMax=100000)
    s.last_word()
    eq(sorted(n for n in os.listdir(s.home) if n.startswith("agent.log")), ["agent.log", "agent.log.1"], "files")
    with open(s.log_path + ".1") as f:
        old = f.read()
    check(len(s.log()) <= 100000 and len(old) <= 100000, f"sizes {len(s.log())}, {len(old)}")
    numbers = [int(line.split()[-1]) for line in (old + s.log()).splitlines() if " out " in line]
    eq(numbers, list(range(numbers[0], 10000)), "lines in order, without a gap")


def test_W8_a_line_without_end_needs_no_memory():
    megabytes = int(os.environ.get("REEVE_LINE_MEGABYTES", "256"))
    s = misbehave("long-line", megabytes, logBytesMax=1 << 20)
    last = s.last_word()
    eq((last["code"], set(last["tail"])), (0, {"x", "\n"}), "end")
    check(max(map(len, s.log().splitlines())) <= 4096 + 29, "pieces")


def test_a_long_line_is_cut_between_characters():
    s = Spawn("sh", "-c", "printf '%4095s\\303\\274%4094s\\342\\202\\254end\\n'")
    s.last_word()
    text = "".join(s.lines("out"))
    eq(text, " " * 4095 + "\u00fc" + " " * 4094 + "\u20acend", "all of it")
    for line in s.log().splitlines():
        line.encode()  # would fail on half a character


def test_output_that_nobody_ends_does_not_keep_the_shim():
    """A process beyond the tree holds the pipe: here, ours."""
    s = Spawn(MISBEHAVE, "waits")
    s.spawned()
    held = os.open(f"/proc/{s.pid}/fd/1", os.O_WRONLY)
    os.write(held, b"from elsewhere\n")
    s.stop(20000)
    os.close(held)
    check("from elsewhere" in s.lines("out"), "what was there is in the log")


def test_the_tail_is_valid_whatever_was_said():
    said = "caf\\303\\251 \\377\\376 \\033[31mred\\001\\342\\202\\n\\360\\237\\230\\200 end\\000"
    s = Spawn("sh", "-c", f"printf '{said}'")
    eq(s.last_word()["tail"], "caf\u00e9 ?? ?[31mred???\n\U0001f600 end?\n", "tail")


def test_the_tail_is_short_and_of_whole_lines():
    s = misbehave("many-lines", 5000)
    tail = s.last_word()["tail"]
    check(1900 < len(tail) <= 2048, f"{len(tail)} bytes")
    last = [f"line {i}" for i in range(5000)]
    eq(tail.splitlines(), last[-len(tail.splitlines()):], "lines")


def test_a_full_disk_costs_output_and_nothing_else():
    """The limit of file sizes is what fails here: write() takes a part, and then says EFBIG."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50000, limit[1]))
    s = misbehave("many-lines", 5000)
    resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    last = s.last_word()
    eq((last["code"], last["tail"].splitlines()[-1]), (0, "line 4999"), "the agent does not notice")
    eq(os.path.getsize(s.log_path), 50000, "size of the log")


def test_what_was_lost_is_told_when_there_is_room_again():
    home, done = os.path.join(folder(), "small"), os.path.join(folder(), "done")
    os.mkdir(home)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", home], capture_output=True)
    if mounted.returncode != 0:
        raise Skip("no file system can be mounted here")
    try:
        with open(f"{home}/filler", "wb") as f:
            f.write(bytes(128 * 1024))
        script = f"{MISBEHAVE} long-line 1; echo; touch {done}; until [ -e {home}/go ]; do sleep 0.01; done; echo after"
        s = Spawn("sh", "-c", script, log=os.path.join(home, "agent.log"))
        s.log_path = os.path.join(home, "agent.log")
        wait_for(lambda: os.path.exists(done), "the disk to be full")
        os.unlink(f"{home}/filler")
        os.close(os.open(f"{home}/go", os.O_CREAT))
        eq(s.last_word()["code"], 0, "the agent")
        told = r"(?m)^\d{4}-\S+Z run \d+ bytes of this log were lost: No space left on device$"
        check(re.search(told, s.log()), s.log()[-500:])
        eq(s.lines("out")[-1], "after", "what came then")
        eq([line for line in s.log().splitlines() if not LINE.match(line)], [], "broken lines")
    finally:
        subprocess.run(["umount", "-l", home])


def test_a_log_that_cannot_be_opened_costs_nothing_else():
    s = Spawn("sh", "-c", "echo said; exit 3", log="/no/such/agent.log")
    last = s.last_word()
    eq((last["code"], last["tail"]), (3, "said\n"), "end")


if __name__ == "__main__":
    main()
