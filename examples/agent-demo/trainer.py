"""One stage of the demo's pipeline: trainer.py PLAN RANK SOCKET_FD LOG.

Runs the units of its rank in the plan's order, iteration after iteration, as kernels on its simulated GPU. Forwards go
down to the next stage and backwards come up over a socket; one byte each
is enough, as the plan fixes the order of both stages. Writes a line for every unit that begins: time, clock.
"""

import ctypes
import json
import os
import socket
import sys
import time

import lowgear

plan_path, rank, other_stage, log_path = sys.argv[1], int(sys.argv[2]), socket.socket(fileno=int(sys.argv[3])), sys.argv[4]
with open(plan_path, encoding="utf-8") as file:
    ops = json.load(file)["stages"][rank]["ops"]

simulation = ctypes.CDLL(os.environ["LOWGEAR_NVML"])
simulation.lowgear_simgpu_run_kernel.argtypes = [ctypes.c_int] + [ctypes.c_double] * 4 + [ctypes.c_void_p]
simulation.lowgear_simgpu_attach(rank)
work = (1.0, 1.35)[rank]
seconds_at_full_clock = {"forward": 0.05, "backward": 0.1}

with lowgear.Client(local_rank=rank, rank=rank, world_size=2, job="demo") as client, open(log_path, "w", 1) as log:
    client.load_plan(plan_path)
    while True:
        with client.iteration():
            for op in ops:
                kind, microbatch = op["op"], op["microbatch"]
                waits = (rank == 1 and kind == "forward") or (rank == 0 and kind == "backward")
                if waits and not other_stage.recv(1):
                    sys.exit(0)
                log.write(f"{time.monotonic()} {op['mhz']}\n")
                time_s = seconds_at_full_clock[kind]
                with client.unit(kind, rank, microbatch):
                    simulation.lowgear_simgpu_run_kernel(rank, 0.75 * time_s * work, 0.25 * time_s, 0.4, 0.3, None)
                sends = (rank == 0 and kind == "forward") or (rank == 1 and kind == "backward")
                if sends:
                    other_stage.send(b".")
