"""A rank of a served job for tests: served_test_rank.py RANK WORLD SERVER JOB_SPEC. Says "ready", then runs an iteration
for each number on its standard input, its units as many times slower, and says "done" after each."""

import json
import signal
import sys
import time

import lowgear

signal.alarm(200)  # never outlives its test by long
rank, world, server, job_spec = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])
# Iterations of 0.3 s: a plan reaches the ranks of a busy machine before the iteration in which it begins.
UNIT_S = {"forward": 0.05, "backward": 0.1}

with lowgear.Client(rank=rank, local_rank=rank, world_size=world, pp_rank=0, dp_rank=rank, tp_rank=0, server=server,
                    job_spec=job_spec) as client:
    print("ready", flush=True)
    for line in sys.stdin:
        with client.iteration():
            for microbatch in range(job_spec["microbatches"]):
                for kind, unit_s in UNIT_S.items():
                    with client.unit(kind, 0, microbatch):
                        time.sleep(unit_s * float(line))
        print("done", flush=True)
