"""Jobs without a pipeline: transformers' Trainer, Lightning, DeepSpeed ZeRO, and whatever else calls the optimizers of
PyTorch (Accelerate, loops of one's own). Iterations only: from one step of the optimizer to the next."""

import os
import sys
import weakref
from typing import Any, Dict, Optional

from .job import Job, Place
from .marks import FRAMEWORK, OPTIMIZER, Marks
from .wrapping import is_wrapped, require, wrap

MARKS_UNITS = False


def _place() -> Place:
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return Place(0, 1, distributed.get_rank(), distributed.get_world_size())
    return Place(0, 1, int(os.environ.get("RANK") or 0), int(os.environ.get("WORLD_SIZE") or 1))


class _Iterations:
    """Iterations of one framework. Each ends where the framework ends it, or where the next one begins."""

    def __init__(self, marks: Marks, source: str, level: int):
        self.marks = marks
        self.source = source
        self._level = level
        self._job: Optional[Job] = None

    def job(self) -> Job:
        if self._job is None:
            self._job = Job(self.source, _place(), None)
        return self._job

    def begin(self, number: Optional[int] = None) -> None:
        if not self.marks.running(self.source):
            self.marks.begin(self.source, self._level, self.job, number)

    def end(self) -> None:
        if self.marks.running(self.source):
            self.marks.pause()


class _Optimizers:
    """Steps of torch.optim. Of several optimizers of a loop, the one that steps first is the one that counts."""

    def __init__(self, marks: Marks):
        self._iterations = _Iterations(marks, "torch.optim", OPTIMIZER)
        self._marks = marks
        self._leader: Any = lambda: None

    def stepped(self, optimizer: Any, *_: Any) -> None:
        """PyTorch's global hook after a step. It must not raise."""
        try:
            if self._leader() is None:
                self._leader = weakref.ref(optimizer)
            if self._leader() is optimizer:
                self._iterations.end()
                self._iterations.begin()
        except Exception as error:
            self._marks.fail(error)

    def step(self, arguments: Dict[str, Any]):
        yield
        self.stepped(arguments["self"])

    def made(self, arguments: Dict[str, Any]):
        """PyTorch before 2.0 has no global hook, but prepares every optimizer class as its first object is made."""
        yield
        kind = type(arguments["self"])
        if not is_wrapped(kind.step):
            wrap(kind, "step", {"self"}, self.step, self._marks.fail)
            kind.step.hooked = True


def _install_optimizers(module: Any, marks: Marks) -> None:
    optimizers = marks.adapter("torch.optim", lambda: _Optimizers(marks))
    if hasattr(module, "register_optimizer_step_post_hook"):
        module.register_optimizer_step_post_hook(optimizers.stepped)
    else:
        require(module, ["Optimizer"])
        wrap(module.Optimizer, "_hook_for_profile", {"self"}, optimizers.made, marks.fail)


def _install_trainer(module: Any, marks: Marks) -> None:
    require(module, ["DEFAULT_CALLBACKS", "TrainerCallback"])
    iterations = _Iterations(marks, "transformers", FRAMEWORK)

    class LowgearCallback(module.TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            _guard(marks, iterations.begin, getattr(state, "global_step", None))

        def on_step_end(self, args, state, control, **kwargs):
            _guard(marks, iterations.end)

    module.DEFAULT_CALLBACKS.append(LowgearCallback)


def _install_lightning(module: Any, marks: Marks) -> None:
    require(module, ["Trainer"])
    adapter = _Lightning(marks, module.__name__.rpartition(".trainer.trainer")[0])
    wrap(module.Trainer, "__init__", {"self"}, adapter.made, marks.fail)


class _Lightning:
    """Batches are accumulated until `global_step` has risen."""

    def __init__(self, marks: Marks, package: str):
        self._marks = marks
        self._package = package
        self._iterations = _Iterations(marks, "lightning", FRAMEWORK)

    def made(self, arguments: Dict[str, Any]):
        yield
        arguments["self"].callbacks.append(self._callback(sys.modules[self._package].Callback))

    def _callback(self, base: type) -> Any:
        marks, iterations = self._marks, self._iterations

        class LowgearCallback(base):
            steps = 0

            def on_train_batch_start(self, trainer, *args, **kwargs):
                self.steps = trainer.global_step
                _guard(marks, iterations.begin)

            def on_train_batch_end(self, trainer, *args, **kwargs):
                if trainer.global_step != self.steps:
                    _guard(marks, iterations.end)

        return LowgearCallback()


def _install_deepspeed(module: Any, marks: Marks) -> None:
    require(module, ["DeepSpeedEngine"])
    engine = module.DeepSpeedEngine
    require(engine, ["is_gradient_accumulation_boundary"])
    adapter = _DeepSpeed(marks)
    wrap(engine, "forward", {"self"}, adapter.forward, marks.fail)
    wrap(engine, "step", {"self"}, adapter.step, marks.fail)


class _DeepSpeed:
    def __init__(self, marks: Marks):
        self._iterations = _Iterations(marks, "deepspeed", FRAMEWORK)

    def forward(self, arguments: Dict[str, Any]):
        engine = arguments["self"]
        if getattr(engine, "training", True):
            self._iterations.begin(getattr(engine, "global_steps", None))
        yield

    def step(self, arguments: Dict[str, Any]):
        ends = arguments["self"].is_gradient_accumulation_boundary()
        yield
        if ends:
            self._iterations.end()


def _guard(marks: Marks, function: Any, *args: Any) -> None:
    """For callbacks of frameworks, which must not raise."""
    try:
        function(*args)
    except Exception as error:
        marks.fail(error)


_INSTALL = {
    "torch.optim.optimizer": _install_optimizers,
    "transformers.trainer": _install_trainer,
    "lightning.pytorch.trainer.trainer": _install_lightning,
    "pytorch_lightning.trainer.trainer": _install_lightning,
    "deepspeed.runtime.engine": _install_deepspeed,
}


def install(module: Any, marks: Marks) -> None:
    _INSTALL[module.__name__](module, marks)
