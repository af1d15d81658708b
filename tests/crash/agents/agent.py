"""An agent of the fleet without any library of ours: JSON-RPC over HTTP, one task after another.

Each attempt locks the task's file and writes to it, as work.sh does. At a second attempt it also
plays the one before it, which may well have come back to life: it hands in that one's work with its
epoch. If that is taken, it says so in the file.
"""
import contextlib
import fcntl
import http.client
import json
import os
import select
import signal
import threading
import time
import uuid

URL, TOKEN = os.environ["REEVE_URL"], os.environ["REEVE_TOKEN"]
SPAWN, JOURNAL = os.environ["REEVE_SPAWN"], os.environ["FLEET_JOURNAL"]
ME = {"conversation": int(os.environ["REEVE_CONVERSATION"]), "role": os.environ["REEVE_ROLE"],
      "connectionId": str(uuid.uuid4())}


class Refused(Exception):
    def __init__(self, error):
        super().__init__(json.dumps(error))
        self.name = error["data"]["name"]


def call(method, **params):
    """Again until it is answered: the same call twice has one effect."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    while True:
        try:
            server = http.client.HTTPConnection(URL.removeprefix("http://"), timeout=30)
            with contextlib.closing(server):
                server.request("POST", "/rpc", body, {"Authorization": f"Bearer {TOKEN}"})
                answer = json.load(server.getresponse())
            if "result" in answer:
                return answer["result"]
            if answer["error"]["data"]["name"] != "UNAVAILABLE":
                raise Refused(answer["error"])
        except (OSError, http.client.HTTPException, ValueError):
            pass
        time.sleep(0.02)


def play_the_one_before(journal, task):
    epochs = [int(line.split()[1]) for line in journal if line.startswith("begin")]
    for epoch in epochs[-1:]:
        try:
            call("task.complete", task=task, epoch=epoch, deliverable="from the dead")
            print(f"ghost {epoch} {SPAWN} {os.getpid()}", file=journal, flush=True)
        except Refused as e:
            if e.name != "STALE_EPOCH":
                raise


def attempt(task, epoch):
    me = f"{epoch} {SPAWN} {os.getpid()}"
    with open(os.path.join(JOURNAL, str(task)), "a+") as journal:
        try:
            fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"overlap {me}", file=journal, flush=True)
        journal.seek(0)
        play_the_one_before(journal, task)
        print(f"begin {me}", file=journal, flush=True)
        time.sleep(task % 10 / 100)
        call("task.progress", task=task, epoch=epoch, progress=50)
        print(f"end {me}", file=journal, flush=True)


def work(task, epoch):
    call("task.start", task=task, epoch=epoch)
    attempt(task, epoch)
    call("task.complete", task=task, epoch=epoch, deliverable=str(epoch))


def die_with_test():
    select.select([os.pidfd_open(int(os.environ["FLEET_TEST"]))], [], [])
    os.kill(os.getpid(), signal.SIGKILL)


threading.Thread(target=die_with_test, daemon=True).start()
call("participant.join", **ME)
while (status := call("task.wait", **ME, timeoutMs=5000)["status"]) not in ("stop", "superseded",
                                                                            "ended"):
    if status == "rejoin_required":
        call("participant.join", **ME)
    if status != "task":
        continue
    try:
        claimed = call("task.claim", **ME)
        work(claimed["task"]["task"], claimed["epoch"])
    except Refused as e:  # taken back, or held: the next wait tells
        print(e, flush=True)
