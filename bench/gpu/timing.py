"""How long work of a GPU takes, by the GPU's own clock."""

import torch

WARM_UP = 10


def seconds(run, repeats=20):
    """Mean time of `run`, in s, after some runs that are not timed."""
    for _ in range(WARM_UP):
        run()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(repeats):
        run()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / repeats / 1e3


def random(*shape, grad=False):
    """A tensor of bf16 on the GPU."""
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16, requires_grad=grad)
