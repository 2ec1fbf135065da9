"""A rank of a served job for tests: moving_server_rank.py RANK WORLD SERVERS JOB_SPEC GPU. Runs an iteration every 50 ms
until "stop" comes on its standard input; says then, as JSON, what it did, and closes its client when the input ends."""

import json
import signal
import sys
import threading
import time

import lowgear

ITERATION_S = 0.05
signal.alarm(900)  # never outlives its test by long
rank, world, server, job_spec, gpu = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4]), int(sys.argv[5])
stop = threading.Event()


def listen():
    sys.stdin.readline()
    stop.set()


client = lowgear.Client(rank=rank, local_rank=gpu, world_size=world, pp_rank=0, dp_rank=rank, tp_rank=0, server=server,
                        job_spec=job_spec)
threading.Thread(target=listen, daemon=True).start()
print("ready", flush=True)
iterations, longest_gap_s, last_s = 0, 0.0, time.monotonic()
while not stop.is_set():
    with client.iteration():
        for microbatch in range(job_spec["microbatches"]):
            for kind in ("forward", "backward"):
                with client.unit(kind, 0, microbatch):
                    time.sleep(ITERATION_S / 4 / job_spec["microbatches"])
        time.sleep(ITERATION_S / 2)
    iterations += 1
    now_s = time.monotonic()
    longest_gap_s, last_s = max(longest_gap_s, now_s - last_s), now_s
print(json.dumps({"iterations": iterations, "longest_gap_s": longest_gap_s}), flush=True)
sys.stdin.read()
status = client.status()
client.close()
print(json.dumps({"reports_lost": status.reports_lost, "problem": status.server_problem,
                  "connected": status.server_connected}), flush=True)
