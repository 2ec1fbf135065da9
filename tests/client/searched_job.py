"""A training loop on simulated GPUs: searched_job.py KIND RANKS STOP [WHAT...]. It trains until the file STOP is there.

KIND: `optimizer` knows nothing of Lowgear and steps an optimizer, `marks` marks its iterations, `calls` also asks for the
search (WHAT has its arguments as JSON) and trains until that is over. Loops with marks print how it stands at the end. With `pauses`, every tenth iteration is
followed by an evaluation, which a loop with marks does not count to it."""

import ctypes
import json
import os
import socket
import subprocess
import sys

KIND, RANKS, STOP, WHAT = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:]
COMPUTE_S, MEMORY_S, LOAD, EVALUATION_S = 0.03, 0.01, 0.46, 0.15


def launch():
    """Starts the ranks as torchrun does; the first one has a socket to each other."""
    pairs = [socket.socketpair() for _ in range(RANKS - 1)]
    ranks = []
    for rank in range(RANKS):
        ends = [pair[0] for pair in pairs] if rank == 0 else [pairs[rank - 1][1]]
        numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": RANKS, "LOCAL_WORLD_SIZE": RANKS}
        variables = {**os.environ, **{name: str(number) for name, number in numbers.items()},
                     "JOB_SOCKETS": ",".join(str(end.fileno()) for end in ends)}
        ranks.append(subprocess.Popen([sys.executable, *sys.argv], env=variables, pass_fds=[end.fileno() for end in ends]))
    for pair in pairs:
        for end in pair:
            end.close()
    sys.exit(max(rank.wait() for rank in ranks))


class Device:
    def __init__(self, gpu):
        self.gpu, self.simulation = gpu, ctypes.CDLL(os.environ["LOWGEAR_NVML"])
        self.simulation.lowgear_simgpu_run_kernel.argtypes = [ctypes.c_int] + [ctypes.c_double] * 4 + [ctypes.c_void_p]
        self.simulation.lowgear_simgpu_attach(gpu)

    def compute(self, times=1.0):
        self.simulation.lowgear_simgpu_run_kernel(self.gpu, times * COMPUTE_S, times * MEMORY_S, LOAD, LOAD, None)


def train(rank):
    device = Device(rank)
    others = [socket.socket(fileno=int(number)) for number in os.environ.get("JOB_SOCKETS", "").split(",") if number]
    step, client = lambda: None, None
    if KIND == "optimizer":
        from torch.optim import Optimizer

        step = Optimizer().step
    else:
        import lowgear

        client = lowgear.Client()
        if KIND == "calls":
            client.search_operating_point(**json.loads(WHAT[0]))
    iteration, stops = 0, False
    while not stops:
        if client:
            client.iteration_begin()
        device.compute()
        # Gradients are summed up; the first rank says whether to end, so that no other waits for it.
        stops = reduce(rank, others, os.path.exists(STOP) or (KIND == "calls" and is_over(client)))
        if client:
            client.iteration_end()
        iteration += 1
        if "pauses" in WHAT and iteration % 10 == 0:
            device.compute(EVALUATION_S / (COMPUTE_S + MEMORY_S))
        step()
    if client:
        if rank == 0:
            print(json.dumps(client.operating_point()._asdict()), flush=True)
        client.close()


def is_over(client):
    return client.operating_point().state in ("found", "none", "cut_off")


def reduce(rank, others, stops):
    if rank > 0:
        others[0].sendall(b"x")
        return others[0].recv(1) != b"o"
    for other in others:
        other.recv(1)
    for other in others:
        other.sendall(b"s" if stops else b"o")
    return stops


if RANKS > 1 and "RANK" not in os.environ:
    launch()
train(int(os.environ.get("RANK", 0)))
