"""Energy of a block of code: `with lowgear.measure() as energy`."""

import os
from typing import ContextManager, Dict, Optional, Tuple

from . import _library
from ._client import Client, warn_once
from ._keywords import with_suggestions
from ._torch import current_cuda, current_gpu
from ._windows import Window, unmeasured_window


class _Meter(Client):
    """A client that only measures. It is opened with the first block and serves all later ones of the process."""

    opened: Dict[Tuple[int, Optional[str]], "_Meter"] = {}  # by process, as a child's cannot be its parent's, and GPU

    @classmethod
    def of(cls, gpu: Optional[str]) -> "_Meter":
        key = os.getpid(), gpu
        if key not in cls.opened:
            asked = os.environ.pop("LOWGEAR_SEARCH", None)  # this client is not the one that searches
            try:
                cls.opened[key] = cls(agent_socket="", gpu=gpu, job="", recording="", rank=0, world_size=1, server="",
                                      job_spec="", rank_order="")
            finally:
                if asked is not None:
                    os.environ["LOWGEAR_SEARCH"] = asked
        return cls.opened[key]


def _wait_for_gpu() -> None:
    """Kernels run after the call that launches them has returned: without waiting they would count in a later block."""
    cuda = current_cuda()
    if cuda is not None:
        cuda.synchronize()


def _require_uuid(gpu: Optional[str]) -> None:
    if gpu is None or (isinstance(gpu, str) and gpu):
        return
    raise _library.InvalidUse(
        f"gpu: expected the UUID of a GPU such as 'GPU-5d27...', as nvidia-smi -L prints it, not {gpu!r}; leave it out for "
        "this process' own GPU")


def _window_of(name: str, gpu: Optional[str]):
    """A window that measures a GPU, or time alone. Raises InvalidUse where a named GPU cannot be measured."""
    try:
        return _Meter.of(gpu or current_gpu()).window(name)
    except _library.LowgearError as error:
        if gpu or isinstance(error, _library.LibraryNotFound):
            raise
        return unmeasured_window(Window(name), str(error))


class _Block:
    """One block of code, which `with` measures."""

    def __init__(self, name: str, gpu: Optional[str], synchronize: bool):
        self._asked: Optional[Tuple[str, Optional[str]]] = (name, gpu)
        self._synchronize = synchronize

    def __enter__(self) -> Window:
        if self._asked is None:
            raise _library.InvalidUse("this measure() has measured a block already; call lowgear.measure() for each block")
        name, gpu = self._asked
        if self._synchronize:
            _wait_for_gpu()
        self._asked = None
        self._measuring = _window_of(name, gpu)
        self._window = self._measuring.__enter__()
        return self._window

    def __exit__(self, *failure) -> None:
        try:
            if self._synchronize:
                _wait_for_gpu()
        finally:
            self._measuring.__exit__(*failure)
        if failure[0] is None and self._window.energy_j is None:
            warn_once(f"energy is not measured: {self._window.problem}", 2)


@with_suggestions()
def measure(name: str = "", *, gpu: Optional[str] = None, synchronize: bool = True) -> ContextManager[Window]:
    """Measures time and energy of a block of code on this process' GPU:

        with lowgear.measure() as energy:
            train()
        print(energy.energy_j, energy.energy_uncertainty_j)

    After the block `energy` has the fields of Measurement: `simulated`, `energy_source` (the GPU's counter, or its power
    readings) and more. Where energy cannot be measured, `energy_j` is None, `problem` says why, and a LowgearWarning
    once. Blocks may overlap and need no agent. The error of a counted energy is a bound: some 10 % of a block of 1 s, and
    below 1 % from 30 s on, as GPUs count energy in steps of some 100 ms.

    Args:
        gpu: UUID of another GPU. By default that of PyTorch, or else that of CUDA_VISIBLE_DEVICES and the local rank.
        synchronize: wait for PyTorch's kernels before the block and at its end, if the program has loaded PyTorch.

    Raises InvalidUse where there is no such `gpu`.
    """
    if not isinstance(name, str):
        raise TypeError(f"name: expected a text that names the block, not {name!r}; leave it out, or give gpu= for a GPU")
    _require_uuid(gpu)
    if not isinstance(synchronize, bool):
        raise _library.InvalidUse(f"synchronize: expected True or False, not {synchronize!r}")
    return _Block(name, gpu, synchronize)
