"""A full disk: UNAVAILABLE while it lasts, nothing acknowledged lost, service again afterwards.

The data folder is a small tmpfs in a mount namespace of this test's own process, so nothing outside
can see it and it is gone with the process.
"""
import ctypes
import errno
import os

from reeve_test import RpcError, Server, Skip, check, eq, folder, main, wait_for

CLONE_NEWNS, CLONE_NEWUSER, MS_REC, MS_PRIVATE = 0x20000, 0x10000000, 16384, 1 << 18


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


def private_mounts():
    """A mount namespace for this process, as root or in a user namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        uid, gid = os.getuid(), os.getgid()
        if libc.unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0:
            raise Skip(f"no mount namespace here: {os.strerror(ctypes.get_errno())}")
        write("/proc/self/setgroups", "deny")
        write("/proc/self/uid_map", f"0 {uid} 1")
        write("/proc/self/gid_map", f"0 {gid} 1")
    if libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) != 0:
        raise Skip("mounts cannot be made private here")
    return libc


def small_disk(size):
    libc = private_mounts()
    path = os.path.join(folder(), "disk")
    os.mkdir(path)
    if libc.mount(b"tmpfs", path.encode(), b"tmpfs", 0, f"size={size}".encode()) != 0:
        raise Skip(f"no tmpfs here: {os.strerror(ctypes.get_errno())}")
    return path


def fill(path):
    """Takes every free byte."""
    with open(path, "wb", buffering=0) as f:
        for size in (65536, 4096, 1):
            try:
                while True:
                    f.write(b"x" * size)
            except OSError as e:
                eq(e.errno, errno.ENOSPC, "errno")


def write_until_refused(s, c, acknowledged, text="x" * 5000):
    """Sends until the server says UNAVAILABLE; returns the key that was refused."""
    for i in range(2000):
        key = f"k{len(acknowledged)}"
        try:
            acknowledged[key] = s.say(c, "a", text, clientRequestId=key)
        except RpcError as e:
            eq((e.name, e.code), ("UNAVAILABLE", -32026), "error")
            return key
    raise AssertionError("the disk never became full")


def test_a_full_disk_refuses_writes_loses_nothing_and_recovers():
    disk = small_disk("12m")
    ballast = os.path.join(disk, "ballast")
    s = Server(data=os.path.join(disk, "data")).start()
    c = s.talk()
    acknowledged = {}
    for round_ in range(3):
        fill(ballast)
        refused = write_until_refused(s, c, acknowledged)
        eq(s.get("/healthz").status, 200, "it lives")
        wait_for(lambda: s.get("/readyz").status == 503, "readyz to say so")
        s.refused("UNAVAILABLE", "conversation.create", agents=[{"role": "a"}])
        eq(len(s.events(c)), len(acknowledged) + 1, "reads go on, and show what was acknowledged")
        os.unlink(ballast)
        acknowledged[refused] = wait_for(lambda: retry(s, c, refused), "writes to be taken again")
        wait_for(lambda: s.get("/readyz").status == 200, "readyz to recover")
        if round_ == 1:
            s.restart()
    events = s.events(c)
    eq([e["seq"] for e in events], list(range(1, len(acknowledged) + 2)), "seq")
    for receipt in acknowledged.values():
        eq(events[receipt["seq"] - 1]["id"], receipt["id"], "id")
    s.stop()


def retry(s, c, key):
    try:
        return s.say(c, "a", "x" * 5000, clientRequestId=key)
    except RpcError as e:
        eq(e.name, "UNAVAILABLE", "error")
        return None


def test_a_server_killed_on_a_full_disk_starts_again_with_everything():
    disk = small_disk("12m")
    ballast = os.path.join(disk, "ballast")
    s = Server(data=os.path.join(disk, "data")).start()
    c = s.talk()
    acknowledged = {}
    fill(ballast)
    write_until_refused(s, c, acknowledged)
    s.kill()
    os.unlink(ballast)
    s.start()
    events = s.events(c)
    eq(len(events), len(acknowledged) + 1, "events")
    s.say(c, "a", "on we go")
    s.stop()


def test_followers_do_not_notice_a_full_disk():
    disk = small_disk("12m")
    ballast = os.path.join(disk, "ballast")
    s = Server(data=os.path.join(disk, "data")).start()
    c = s.talk()
    with s.socket() as ws, s.stream(f"?conversation={c}&after=0") as sse:
        ws.subscribe(conversation=c, afterSeq=0)
        acknowledged = {}
        fill(ballast)
        refused = write_until_refused(s, c, acknowledged)
        os.unlink(ballast)
        wait_for(lambda: retry(s, c, refused), "writes to be taken again")
        total = len(acknowledged) + 2
        eq([ws.event()["seq"] for _ in range(total)], list(range(1, total + 1)), "WebSocket")
        eq([sse.next()[1]["seq"] for _ in range(total)], list(range(1, total + 1)), "stream")
    check(s.get("/readyz").status == 200, "readyz")
    s.stop()


if __name__ == "__main__":
    main()
