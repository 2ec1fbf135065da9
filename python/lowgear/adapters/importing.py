"""Calls back right after a module was imported. Imports nothing itself: every Python process of a job pays for it."""

import sys

#: Module of a framework, and the adapter whose `install(module, marks)` is called after it was executed.
ADAPTERS = {
    "torch.distributed.pipelining.stage": "torch_pipelining",
    "torch.distributed.pipelining.schedules": "torch_pipelining",
    "torchtitan.distributed.parallel_dims": "torch_pipelining",
    "megatron.core.pipeline_parallel.schedules": "megatron",
    "deepspeed.runtime.pipe.engine": "deepspeed",
    "Merak.runtime.pipe_engine": "deepspeed",
    "deepspeed.runtime.engine": "step",
    "transformers.trainer": "step",
    "lightning.pytorch.trainer.trainer": "step",
    "pytorch_lightning.trainer.trainer": "step",
    "torch.optim.optimizer": "step",
}


def is_asked_for(environment):
    """Whether a LOWGEAR_* variable asks to attach, and none forbids it."""
    asking = ("LOWGEAR_SERVER", "LOWGEAR_PLAN", "LOWGEAR_STEPS", "LOWGEAR_RECORDING", "LOWGEAR_SEARCH")
    return environment.get("LOWGEAR_ATTACH") != "0" and any(environment.get(name) for name in asking)


class AfterImport:
    """Stands first in sys.meta_path, finds nothing of its own, and has `run(name, module)` called after the modules of
    `names` were executed, so that `from ... import` elsewhere gets what `run` has put there. `run` must not raise."""

    def __init__(self, names, run):
        self._names = frozenset(names)
        self._run = run

    def install(self):
        sys.meta_path.insert(0, self)
        for name in sorted(self._names):
            module = sys.modules.get(name)
            if module is not None:
                self._run(name, module)

    def find_spec(self, name, path=None, target=None):
        if name not in self._names:
            return None
        spec = self._found_by_others(name, path, target)
        loader = getattr(spec, "loader", None)
        execute = getattr(loader, "exec_module", None)
        if execute is None:
            return spec

        def exec_module(module):
            execute(module)
            self._run(name, module)

        try:
            loader.exec_module = exec_module  # of this one loader: type and all else of it stay as they are
        except AttributeError:
            return spec
        return spec

    def _found_by_others(self, name, path, target):
        for finder in sys.meta_path:
            find_spec = getattr(finder, "find_spec", None)
            if finder is self or find_spec is None:
                continue
            spec = find_spec(name, path, target)
            if spec is not None:
                return spec
        return None
