"""The reconfiguration of EnvPipe itself (casys-kaist/EnvPipe), unmodified, with stand-ins of what it imports. A checkout
of it is looked for in LOWGEAR_ENVPIPE and in ../shared/peers/EnvPipe."""

import importlib.util
import os
import sys
import types
import unittest.mock
from pathlib import Path

RUNTIME = Path("DeepSpeed/deepspeed/runtime")


def checkout(source):
    """The folder, or None."""
    places = [Path(os.environ["LOWGEAR_ENVPIPE"])] if os.environ.get("LOWGEAR_ENVPIPE") else []
    places.append(Path(source).parent / "shared" / "peers" / "EnvPipe")
    return next((place for place in places if (place / RUNTIME / "pipe/reconfiguration.py").exists()), None)


def load(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Peer:
    """The same calls as Formulas has, for its own code."""

    def __init__(self, folder, orders, clocks_mhz, top_mhz, scale, method):
        mocks = {name: unittest.mock.MagicMock(__path__=[], __spec__=None)
                 for name in ("torch", "torch.distributed", "deepspeed", "deepspeed.runtime", "pynvml")}
        with unittest.mock.patch.dict(sys.modules, mocks):
            sys.modules["deepspeed.runtime.constants"] = load(folder / RUNTIME / "constants.py",
                                                              "deepspeed.runtime.constants")
            self.module = load(folder / RUNTIME / "pipe/reconfiguration.py", "envpipe_reconfiguration")
        stages = len(orders)
        microbatches = len(orders[0]) // 2
        profiler = types.SimpleNamespace(get_max_clock=lambda: top_mhz, get_min_clock=lambda: top_mhz)
        config = {"type": "baseline", "reconfig": method, "reconfigure_threshold_scale": str(scale), "gpu": "v100"}
        self.grid = self.module.PipelineExecutionGrid(0, stages, microbatches, None, profiler, config)
        for stage, order in enumerate(orders):
            self.grid.stage_id = stage
            for (kind, microbatch), clock in zip(order, clocks_mhz[stage]):
                self.grid.add_execution_component(microbatch, kind == "F")
                self.grid.grid[stage][-1].gpu_clock = clock
        self.grid.stage_id = 0

    @property
    def finished(self):
        return self.grid.finish_reconfigure()

    def clocks(self):
        return [[unit.gpu_clock for unit in stage] for stage in self.grid.grid]

    def step(self, receives):
        for stage, times in zip(self.grid.grid, receives):
            for unit, time in zip(stage, times):
                unit.recv_time = time * 1e3
        with unittest.mock.patch("builtins.print"):
            self.grid.reconfigure()
        place = {id(unit): (number, i) for number, stage in enumerate(self.grid.grid) for i, unit in enumerate(stage)}
        return [place[id(unit)] for unit in self.grid.critical_path]

    def text(self, _path):
        return str(self.grid)
