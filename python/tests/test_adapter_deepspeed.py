"""The adapter of DeepSpeed's pipeline engine and of Merak's, against their real engines and schedules: unmodified, with
stand-ins for what they import, and with instructions that compute nothing."""

import itertools
import sys
import tempfile
import types
import unittest
import unittest.mock
from pathlib import Path

from lowgear.adapters import deepspeed
from lowgear.adapters.core import install
from stand_ins import PEERS, Observed, load, needs, stand_ins

DEEPSPEED = PEERS / "deepspeed/deepspeed/runtime/pipe"
MERAK = PEERS / "merak/Merak/runtime"


def package_of(*names):
    return [".".join(names[:end]) for end in range(1, len(names) + 1)]


class Base:
    """In place of DeepSpeedEngine, from which pipeline engines are derived."""


def load_deepspeed(folder=DEEPSPEED):
    torch = ["torch", "torch.nn", "torch.optim", "torch.distributed"]
    others = ["deepspeed", "deepspeed.comm", "deepspeed.utils", "deepspeed.utils.timer", "deepspeed.runtime",
              "deepspeed.runtime.bf16_optimizer", "deepspeed.runtime.utils", "deepspeed.runtime.dataloader",
              "deepspeed.runtime.zero", "deepspeed.runtime.zero.config", "deepspeed.runtime.activation_checkpointing",
              "deepspeed.runtime.pipe", "deepspeed.runtime.pipe.module", "deepspeed.runtime.pipe.p2p"]
    modules = stand_ins(*torch, *others, **{"deepspeed.runtime.engine": types.ModuleType("engine")})
    modules["deepspeed.runtime.engine"].DeepSpeedEngine = Base
    modules["deepspeed.runtime.engine"].MEMORY_OPT_ALLREDUCE_SIZE = 1
    modules["deepspeed"].__version__ = (PEERS / "deepspeed/version.txt").read_text().strip()
    return load_both("deepspeed.runtime.pipe", folder, "engine", modules)


def load_merak(folder=MERAK):
    torch = ["torch", "torch.nn", "torch.optim", "torch.distributed"]
    others = ["zeus", "zeus.callback", "zeus.optimizer", "zeus.optimizer.pipeline_frequency", "Merak", "Merak.utils",
              "Merak.utils.logging", "Merak.utils.timer", "Merak.utils.merak_args", "Merak.modules",
              "Merak.modules.module", "Merak.mpu", "Merak.mpu.p2p_communication", "Merak.mpu.topology",
              "Merak.runtime", "Merak.runtime.checkpointing", "Merak.runtime.utils"]
    modules = stand_ins(*torch, *others, **{"Merak.runtime.engine": types.ModuleType("engine")})
    modules["Merak.runtime.engine"].DeepSpeedEngine = Base
    modules["Merak.runtime.engine"].MEMORY_OPT_ALLREDUCE_SIZE = 1
    return load_both("Merak.runtime", folder, "pipe_engine", modules)


def load_both(package, folder, engine, modules):
    schedule = load(folder / "schedule.py", f"{package}.schedule", modules)
    modules[f"{package}.schedule"] = schedule
    modules[package].schedule = schedule
    return load(folder / f"{engine}.py", f"{package}.{engine}", modules)


class Grid:
    def __init__(self, stage, stages):
        self.stage, self.stages = stage, stages

    def get_stage_id(self):
        return self.stage

    def get_pipe_parallel_world_size(self):
        return self.stages

    def get_data_parallel_rank(self):
        return 0

    def get_data_parallel_world_size(self):
        return 2

    get_slice_parallel_rank = get_data_parallel_rank

    def get_slice_parallel_world_size(self):
        return 1


class Engines:
    """What holds for both."""

    def setUp(self):
        super().setUp()
        self.module = self.load()
        self.addCleanup(lambda: [sys.modules.pop(name) for name in list(sys.modules)
                                 if name.split(".")[0] in ("deepspeed", "Merak")])
        self.executed = []
        self.real = dict(self.module.PipelineEngine._INSTRUCTION_MAP)
        table = self.module.PipelineEngine._INSTRUCTION_MAP
        for kind in list(table):
            table[kind] = self.instruction(kind.__name__)

    def instruction(self, name):
        executed = self.executed

        def with_buffer(self, buffer_id):
            executed.append(name)

        def without(self, **_):
            executed.append(name)

        return with_buffer if name in ("ForwardPass", "BackwardPass") else without

    def engine(self, stage, stages, kind=None):
        engine = object.__new__(kind or self.module.PipelineEngine)
        vars(engine).update(stage_id=stage, grid=Grid(stage, stages), global_steps=0, is_profiling=False,
                            micro_batch_size=4, pipeline_frequency_optimizer=unittest.mock.MagicMock(),
                            _reserve_pipe_buffers=lambda *_: None)
        return engine

    def train(self, engine, schedule):
        engine._exec_schedule(schedule)
        engine.global_steps += 1

    def schedule(self, kind, stage, stages, microbatches):
        return getattr(self.module.schedule, kind)(micro_batches=microbatches, stages=stages, stage_id=stage)

    def train_a_stage(self, stage, stages, microbatches):
        install(self.module.__name__, self.module, self.marks)
        engine = self.engine(stage, stages)
        for _ in range(100):
            self.train(engine, self.schedule("TrainSchedule", stage, stages, microbatches))
        self.assert_all_as_listed(100)
        self.assertEqual(len(self.session.job.expected), 2 * microbatches)
        self.assertEqual({unit[1] for unit in self.session.job.expected}, {stage})
        self.assertEqual(self.session.numbers, list(range(100)))
        self.assertEqual(self.session.job.place[:4], (stage, stages, 0, 2))
        self.assertEqual(len(self.session.job.orders), stages)

    def test_every_unit_once_in_order_on_the_only_stage(self):
        self.train_a_stage(0, 1, 3)

    def test_every_unit_once_in_order_on_the_first_stage(self):
        self.train_a_stage(0, 4, 8)

    def test_every_unit_once_in_order_on_a_middle_stage(self):
        self.train_a_stage(1, 4, 8)

    def test_every_unit_once_in_order_on_the_last_stage(self):
        self.train_a_stage(3, 4, 8)

    def test_every_unit_once_in_order_with_fewer_microbatches_than_stages(self):
        self.train_a_stage(1, 4, 2)

    def test_the_real_functions_are_known(self):
        self.module.PipelineEngine._INSTRUCTION_MAP.update(self.real)
        install(self.module.__name__, self.module, self.marks)
        self.assertIsNone(self.marks.refused)

    def test_an_evaluation_is_not_marked(self):
        install(self.module.__name__, self.module, self.marks)
        engine = self.engine(1, 2)
        self.train(engine, self.schedule("TrainSchedule", 1, 2, 4))
        engine._exec_schedule(self.schedule("InferenceSchedule", 1, 2, 4))
        self.assertFalse(self.session.in_iteration)
        self.train(engine, self.schedule("TrainSchedule", 1, 2, 4))
        self.assert_all_as_listed(2)
        self.assertEqual(self.executed.count("ForwardPass"), 12)

    def test_an_engine_with_instructions_of_its_own_is_refused_by_name(self):
        install(self.module.__name__, self.module, self.marks)

        class DualEngine(self.module.PipelineEngine):
            _INSTRUCTION_MAP = dict(self.module.PipelineEngine._INSTRUCTION_MAP)

        self.train(self.engine(0, 2, DualEngine), self.schedule("TrainSchedule", 0, 2, 4))
        self.assertIn("DualEngine has an _INSTRUCTION_MAP of its own", self.marks.refused)
        self.assertEqual(self.executed.count("ForwardPass"), 4)

    def test_a_table_that_is_not_known_is_refused_by_name(self):
        table = self.module.PipelineEngine._INSTRUCTION_MAP
        table[type("OverlappedPass", (), {})] = lambda self: None
        install(self.module.__name__, self.module, self.marks)
        self.assertIn("_INSTRUCTION_MAP differs from what is known in OverlappedPass", self.marks.refused)
        self.assertIn(self.module.__file__, self.marks.refused)
        self.train(self.engine(0, 2), self.schedule("TrainSchedule", 0, 2, 4))
        self.assertEqual(self.executed.count("ForwardPass"), 4)

    def test_functions_that_have_changed_are_refused_by_name(self):
        original = Path(self.module.__file__)
        changes = [
            ("def _exec_forward_pass(self, buffer_id", "def _exec_forward_pass(self, buffers", "buffer_id"),
            ("def _exec_backward_pass(self, buffer_id", "def _exec_backward_pass(self, buffers", "buffer_id"),
            ("def _exec_schedule(self, pipe_schedule", "def _exec_schedule(self, steps", "pipe_schedule"),
        ]
        for old, new, parameter in changes:
            with self.subTest(new), tempfile.TemporaryDirectory() as folder:
                self.marks.__init__(self.open)
                for file in (original, original.with_name("schedule.py")):
                    text = file.read_text()
                    if file == original:
                        self.assertIn(old, text)
                    (Path(folder) / file.name).write_text(text.replace(old, new))
                module = type(self).load(Path(folder))
                install(module.__name__, module, self.marks)
                function = new.partition("def ")[2].partition("(")[0]
                self.assertRegex(self.marks.refused, f"{folder}/{original.name} .*: PipelineEngine.{function}\\(self, .*"
                                                     f"has no parameter {parameter}")

    def test_an_exception_passes_and_the_job_may_continue(self):
        table = self.module.PipelineEngine._INSTRUCTION_MAP
        calls = itertools.count()

        def fails_once(self, buffer_id):
            if next(calls) == 5:
                raise RuntimeError("out of memory")

        table[self.module.schedule.ForwardPass] = fails_once
        install(self.module.__name__, self.module, self.marks)
        engine = self.engine(1, 2)
        for at in range(3):
            if at == 1:
                with self.assertRaisesRegex(RuntimeError, "out of memory"):
                    self.train(engine, self.schedule("TrainSchedule", 1, 2, 4))
            else:
                self.train(engine, self.schedule("TrainSchedule", 1, 2, 4))
        self.marks.pause()
        self.assertIsNone(self.marks.refused)
        self.assertEqual([len(units) for units in self.session.iterations][::2], [8, 8])


@needs(DEEPSPEED)
class OfDeepSpeed(Engines, Observed):
    load = staticmethod(load_deepspeed)

    def test_the_engine_below_marks_no_iterations_of_its_own(self):
        below = types.ModuleType("deepspeed.runtime.engine")
        below.DeepSpeedEngine = type("DeepSpeedEngine", (), {
            "global_steps": 0, "is_gradient_accumulation_boundary": lambda self: True,
            "forward": lambda self, *inputs: inputs, "step": lambda self: None})
        install(below.__name__, below, self.marks)
        install(self.module.__name__, self.module, self.marks)
        engine = self.engine(1, 2)
        for _ in range(2):
            self.train(engine, self.schedule("TrainSchedule", 1, 2, 4))
            engine._exec_schedule(self.schedule("InferenceSchedule", 1, 2, 4))
            below.DeepSpeedEngine().forward(1)  # as an evaluation does
        self.assert_all_as_listed(2)

    def test_the_version_is_that_of_the_whole_package(self):
        package = types.ModuleType("deepspeed")
        with unittest.mock.patch.dict(sys.modules, {"deepspeed": package}):
            install(self.module.__name__, self.module, self.marks)
            package.__version__ = "0.19.6"  # after its engine was imported
            self.train(self.engine(0, 2), self.schedule("TrainSchedule", 0, 2, 4))
        self.assertEqual(self.session.job.framework, "deepspeed version 0.19.6")


@needs(MERAK)
class OfMerak(Engines, Observed):
    load = staticmethod(load_merak)

    def test_its_merged_transfers_are_known(self):
        install(self.module.__name__, self.module, self.marks)
        engine = self.engine(1, 4)
        for _ in range(3):
            self.train(engine, self.schedule("MergeP2PTrainSchedule", 1, 4, 8))
        self.assert_all_as_listed(3)

    def test_schedules_that_recompute_apart_are_refused(self):
        install(self.module.__name__, self.module, self.marks)
        self.train(self.engine(1, 4), self.schedule("PreRecomputeTrainSchedule", 1, 4, 8))
        self.assertIn("PreRecomputeTrainSchedule has the instruction", self.marks.refused)


class OfInstructions(unittest.TestCase):
    def test_the_nth_of_a_kind_is_of_microbatch_n(self):
        forward, backward, send = (type(name, (), {})() for name in ("ForwardPass", "BackwardPass", "SendGrad"))
        self.assertEqual(deepspeed.order_of([[forward], [forward, backward], [send, backward]], 2),
                         [("forward", 2, 0), ("forward", 2, 1), ("backward", 2, 0), ("backward", 2, 1)])


if __name__ == "__main__":
    unittest.main()
