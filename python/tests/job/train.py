"""A training job that knows nothing of Lowgear: train.py RANKS ITERATIONS [WHAT...].

Starts its ranks as torchrun does. JOB_BEGINS names a file for the times at which rank 0 begins its iterations
(CLOCK_MONOTONIC), JOB_FIRST_GPU the number of rank 0's GPU. With JOB_SIMULATION, a library of simulated GPUs, units are
kernels there, and the last stage has a third more to do. WHAT goes wrong: `raises`, `exits`, `leaves`, `reorders`; or what else
happens: `evaluates` after every iteration, `pauses` for evaluations and checkpoints after every tenth, `ramps=N` doubles
the microbatches after N of them, `returns=N` halves them again."""

import ctypes
import os
import socket
import subprocess
import sys
import time

RANKS, ITERATIONS = int(sys.argv[1]), int(sys.argv[2])
WHAT = dict((word.split("=") + ["0"])[:2] for word in sys.argv[3:])
MICROBATCHES = 4
PAUSED_EVALUATIONS, CHECKPOINT_S = 10, 2


def launch():
    """Neighbours in the pipeline share a pair of sockets."""
    pairs = [socket.socketpair() for _ in range(RANKS - 1)]
    ranks = []
    for rank in range(RANKS):
        ends = {"JOB_PREVIOUS": pairs[rank - 1][1] if rank else None,
                "JOB_FOLLOWING": pairs[rank][0] if rank < RANKS - 1 else None}
        handles = {name: str(end.fileno()) for name, end in ends.items() if end}
        variables = {**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(RANKS), **handles}
        ranks.append(subprocess.Popen([sys.executable, *sys.argv], env=variables,
                                      pass_fds=[*map(int, handles.values())]))
    for pair in pairs:
        for end in pair:
            end.close()
    codes = [rank.wait() for rank in ranks]
    sys.exit(next((code for code in codes if code), 0))


def neighbour(name):
    return socket.socket(fileno=int(os.environ[name])) if os.environ.get(name) else None


def kernels(rank):
    library = os.environ.get("JOB_SIMULATION")
    if not library:
        return lambda kind: None
    simulation = ctypes.CDLL(library)
    simulation.lowgear_simgpu_run_kernel.argtypes = [ctypes.c_int] + [ctypes.c_double] * 4 + [ctypes.c_void_p]
    gpu = int(os.environ.get("JOB_FIRST_GPU", "0")) + rank
    simulation.lowgear_simgpu_attach(gpu)
    work = 1.35 if rank == RANKS - 1 else 1
    seconds = {"forward": 0.05 * work, "backward": 0.1 * work}
    return lambda kind: simulation.lowgear_simgpu_run_kernel(gpu, 0.75 * seconds[kind], 0.25 * seconds[kind], 0.4, 0.3,
                                                             None)


def train(rank):
    from deepspeed.runtime.pipe import engine, schedule

    class Engine(engine.PipelineEngine):
        def _exec_schedule(self, pipe_schedule):
            super()._exec_schedule(pipe_schedule)
            if "reorders" in WHAT and rank == 1 and self.global_steps == 2:
                self._INSTRUCTION_MAP[schedule.ForwardPass](self, buffer_id=0)  # which no schedule lists

    begins = None
    if rank == 0 and os.environ.get("JOB_BEGINS"):
        begins = open(os.environ["JOB_BEGINS"], "w", buffering=1, encoding="utf-8")
    job = Engine(rank, RANKS, MICROBATCHES, kernels(rank), neighbour("JOB_PREVIOUS"), neighbour("JOB_FOLLOWING"))
    for iteration in range(ITERATIONS):
        if "ramps" in WHAT and iteration == int(WHAT["ramps"]):
            job.micro_batches *= 2
        if "returns" in WHAT and iteration == int(WHAT["returns"]):
            job.micro_batches //= 2
        loss = job.train_batch()
        if begins:
            begins.write(f"{time.monotonic():.6f}\n")
        if "evaluates" in WHAT:
            job.eval_batch()
        if "pauses" in WHAT and iteration % 10 == 9:
            for _ in range(PAUSED_EVALUATIONS):
                job.eval_batch()
            time.sleep(CHECKPOINT_S)
        if iteration == 2 and "raises" in WHAT:
            raise RuntimeError("the job's own error")
        if iteration == 2 and "exits" in WHAT:
            sys.exit(7)
        if iteration == 2 and "leaves" in WHAT:
            raise SystemExit(3)
    sys.stdout.write(f"rank {rank}: loss {loss!r}\n")  # in one piece, as ranks share it


if "RANK" in os.environ:
    train(int(os.environ["RANK"]))
else:
    launch()
