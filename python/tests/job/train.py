"""A training job that knows nothing of Lowgear: train.py RANKS ITERATIONS [WHAT...].

Starts its ranks as torchrun does. With JOB_SIMULATION, a library of simulated GPUs, units are kernels there. WHAT goes
wrong: `raises`, `exits`, `reorders`, or `evaluates`."""

import ctypes
import os
import subprocess
import sys

RANKS, ITERATIONS, WHAT = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]


def launch():
    ranks = []
    for rank in range(RANKS):
        variables = {**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(RANKS)}
        ranks.append(subprocess.Popen([sys.executable, *sys.argv], env=variables))
    codes = [rank.wait() for rank in ranks]
    sys.exit(next((code for code in codes if code), 0))


def kernels(rank):
    library = os.environ.get("JOB_SIMULATION")
    if not library:
        return lambda kind: None
    simulation = ctypes.CDLL(library)
    simulation.lowgear_simgpu_run_kernel.argtypes = [ctypes.c_int] + [ctypes.c_double] * 4 + [ctypes.c_void_p]
    simulation.lowgear_simgpu_attach(rank)
    seconds = {"forward": 0.05, "backward": 0.1}
    return lambda kind: simulation.lowgear_simgpu_run_kernel(rank, 0.75 * seconds[kind], 0.25 * seconds[kind], 0.55,
                                                             0.5, None)


def train(rank):
    from deepspeed.runtime.pipe import engine, schedule

    class Engine(engine.PipelineEngine):
        def _exec_schedule(self, pipe_schedule):
            super()._exec_schedule(pipe_schedule)
            if "reorders" in WHAT and rank == 1 and self.global_steps == 2:
                self._INSTRUCTION_MAP[schedule.ForwardPass](self, buffer_id=0)  # which no schedule lists

    job = Engine(rank, RANKS, 4, kernels(rank))
    for iteration in range(ITERATIONS):
        loss = job.train_batch()
        if "evaluates" in WHAT:
            job.eval_batch()
        if iteration == 2 and "raises" in WHAT:
            raise RuntimeError("the job's own error")
        if iteration == 2 and "exits" in WHAT:
            sys.exit(7)
    sys.stdout.write(f"rank {rank}: loss {loss!r}\n")  # in one piece, as ranks share it


if "RANK" in os.environ:
    train(int(os.environ["RANK"]))
else:
    launch()
