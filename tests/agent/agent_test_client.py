"""A training process for tests: agent_test_client.py PLAN GPU UNIT_SECONDS. Says "ok" or what is wrong, then runs the
plan's units again and again until it is killed or its standard input ends."""

import json
import os
import select
import signal
import sys
import time

import lowgear

signal.alarm(120)  # never outlives its test by long
plan_path, local_rank, unit_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
with open(plan_path, encoding="utf-8") as file:
    microbatches = len(json.load(file)["stages"][0]["ops"])

client = lowgear.Client(local_rank=local_rank)
try:
    client.load_plan(plan_path, nearest_below=bool(os.environ.get("NEAREST_BELOW")))
    print("ok", flush=True)
except lowgear.LowgearError as error:
    print(error, flush=True)

paused = False
while True:
    with client.iteration():
        for microbatch in range(microbatches):
            with client.unit("forward", 0, microbatch):
                time.sleep(unit_s)
    # A line on standard input: "pause" stops the units until the next line.
    while select.select([sys.stdin], [], [], 0)[0] or paused:
        line = sys.stdin.readline()
        if not line:
            sys.exit(0)
        paused = line.strip() == "pause"
