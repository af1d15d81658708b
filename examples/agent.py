#!/usr/bin/env python3
"""agent.py: an agent in Python, without packages. It speaks JSON-RPC over HTTP: docs/protocol.md.

A task's content is a number. The work is to count to it, one step a second.
"""
import json
import os
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid

ME = {"conversation": int(os.environ["REEVE_CONVERSATION"]), "role": os.environ["REEVE_ROLE"],
      "connectionId": str(uuid.uuid4())}


class Refused(Exception):
    pass


def call(method, **params):
    """While the server is away the call is repeated: none of these methods does its work twice."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    request = urllib.request.Request(os.environ["REEVE_URL"] + "/rpc", body, {
        "Authorization": "Bearer " + os.environ["REEVE_TOKEN"], "Content-Type": "application/json"})
    while True:
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                answer = json.load(response)
            if "result" in answer:
                return answer["result"]
            if answer["error"]["data"]["name"] != "UNAVAILABLE":
                raise Refused(f"{method}: {answer['error']['message']}")
        except (OSError, ValueError) as e:
            if isinstance(e, urllib.error.HTTPError) and e.code < 500:
                raise  # the token is not valid: to go on trying would not help
            print(f"{method}: {e}; trying again", file=sys.stderr, flush=True)
        time.sleep(1)


def take(news):
    """Takes what task.wait has announced: a new task, or one whose tools have answered."""
    if news["status"] == "task":
        claimed = call("task.claim", **ME)
        return call("task.start", task=claimed["task"]["task"], epoch=claimed["epoch"])["task"]
    held = {"task": news["task"]["task"], "epoch": news["task"]["epoch"]}
    results = call("task.resume", **held)["results"]
    calls = [r["toolCallId"] for r in results]
    return call("task.applied", **held, toolCallIds=calls, unattended=False)["task"]


def beat(held, over, lost):
    while not over.wait(10):
        news = call("participant.heartbeat", **ME, **held)
        if news.get("staleEpoch") or news.get("directive") == "stop":
            lost.set()


def work(task):
    held = {"task": task["task"], "epoch": task["epoch"]}
    over, lost = threading.Event(), threading.Event()
    threading.Thread(target=beat, args=(held, over, lost), daemon=True).start()
    try:
        for step in range(1, task["content"] + 1):
            if lost.wait(1):
                raise Refused(f"task {task['task']} was taken away")
            call("task.progress", **held, note=f"step {step} of {task['content']}")
        call("task.complete", **held, deliverable={"steps": task["content"]})
        print(f"task {task['task']} done", flush=True)
    finally:
        over.set()


call("participant.join", **ME)
while True:
    news = call("task.wait", **ME, settled=True)
    if news["status"] in ("stop", "superseded", "ended"):
        break
    if news["status"] == "rejoin_required":
        call("participant.join", **ME)
    if news["status"] == "blocked":
        time.sleep(1)
    if news["status"] in ("task", "resume"):
        try:
            work(take(news))
        except Refused as e:
            print(e, file=sys.stderr, flush=True)
            time.sleep(1)
