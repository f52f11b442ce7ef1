#!/usr/bin/env python3
"""A function that does as the event says: a string, or the first body among the records of a queue."""

import json
import os
import signal
import time
import urllib.request

RUNTIME = f"http://{os.environ['AWS_LAMBDA_RUNTIME_API']}/2018-06-01/runtime/invocation/"


def act(word, deadline):
    if word == "sleep":
        time.sleep(60)
    if word == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    return {"process": os.getpid(), "environment": dict(os.environ), "seconds": deadline / 1000 - time.time()}


def batch(records, deadline):
    """Each message does its worst when it is new, and is well when it comes again."""
    failed = []
    for record in records:
        receives, word = int(record["attributes"]["ApproximateReceiveCount"]), record["body"]
        with open(os.environ["SEEN"], "a") as seen:
            print(word, receives, file=seen)
        if receives == 1 and word == "fail":
            failed.append({"itemIdentifier": record["messageId"]})
        elif receives == 1:
            act(word, deadline)
    return {"batchItemFailures": failed}


while True:
    with urllib.request.urlopen(RUNTIME + "next") as invocation:
        request = invocation.headers["Lambda-Runtime-Aws-Request-Id"]
        deadline = int(invocation.headers["Lambda-Runtime-Deadline-Ms"])
        event = json.load(invocation)
    answer = batch(event["Records"], deadline) if "Records" in event else act(event, deadline)
    urllib.request.urlopen(f"{RUNTIME}{request}/response", json.dumps(answer).encode()).close()
