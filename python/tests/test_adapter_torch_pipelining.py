"""The adapter of torch.distributed.pipelining against stages and schedules shaped like PyTorch's: Debian's PyTorch has
none. bench/gpu/attach runs PyTorch's own."""

import sys
import types
import unittest
import unittest.mock
from pathlib import Path

from lowgear.adapters import torch_pipelining
from lowgear.adapters.core import install
from stand_ins import PEERS, Observed, Tensor, load, needs, stand_ins

DIMENSIONS = PEERS / "torchtitan/torchtitan/distributed/parallel_dims.py"
STAGE = "torch.distributed.pipelining.stage"
SCHEDULES = "torch.distributed.pipelining.schedules"

SHAPED_LIKE_PYTORCH = Path(__file__).resolve().parent / "job_torch/torch/distributed/pipelining"
STAGE_SOURCE = (SHAPED_LIKE_PYTORCH / "stage.py").read_text()
SCHEDULES_SOURCE = (SHAPED_LIKE_PYTORCH / "schedules.py").read_text()


def module(name, source):
    made = types.ModuleType(name)
    made.__file__ = f"/torch/{name.rpartition('.')[2]}.py"
    sys.modules[name] = made
    exec(compile(source, made.__file__, "exec"), vars(made))
    return made


class OfPyTorch(Observed):
    def setUp(self):
        super().setUp()
        self.world = None
        distributed = types.SimpleNamespace(
            is_available=lambda: True, is_initialized=lambda: self.world is not None,
            get_rank=lambda: 0, get_world_size=lambda: self.world, get_process_group_ranks=lambda group: self.ranks)
        torch = types.ModuleType("torch")
        torch.__version__ = "2.11.0"
        torch.distributed = distributed
        patch = unittest.mock.patch.dict(sys.modules, {"torch": torch})
        patch.start()
        self.addCleanup(patch.stop)

    def load(self, stage=STAGE_SOURCE, schedules=SCHEDULES_SOURCE):
        self.stage, self.schedules = module(STAGE, stage), module(SCHEDULES, schedules)
        install(STAGE, self.stage, self.marks)
        install(SCHEDULES, self.schedules, self.marks)

    def single(self, kind, rank, pp, microbatches):
        self.load()
        schedule = getattr(self.schedules, kind)(self.stage.PipelineStage(rank, pp, rank, pp), microbatches)
        for _ in range(100):
            schedule.step()
        self.assert_all_as_listed(100)
        self.assertEqual(len(self.session.job.expected), 2 * microbatches)
        return self.session.job

    def multi(self, cells, rank, chunks, microbatches):
        """Runs a schedule in PyTorch's notation: a list of rows, where `+` joins an overlapped pair."""
        order = {at: [self.action(cell) for cell in row.split(",")] for at, row in enumerate(cells)}
        stages = [self.stage.PipelineStage(index, len(cells) * chunks, rank, len(cells))
                  for index in sorted({part.stage_index for action in order[rank] if action
                                       for part in action.sub_actions or (action,)})]
        return self.schedules._PipelineScheduleRuntime(stages, microbatches, order)

    def action(self, cell):
        if not cell:
            return None
        if "+" in cell:
            parts = tuple(self.action(part) for part in cell.split("+"))
            return self.schedules.Action(-1, "OVERLAP_F_B", None, parts)
        letter = next(name for name in ("SEND_F", "RECV_F", "REDUCE_GRAD", "F", "B", "I", "W") if name in cell)
        stage, _, microbatch = cell.partition(letter)
        return self.schedules.Action(int(stage), letter, int(microbatch) if microbatch else None)

    def test_gpipe(self):
        job = self.single("ScheduleGPipe", 1, 4, 6)
        self.assertEqual([unit[0] for unit in job.expected], ["forward"] * 6 + ["backward"] * 6)

    def test_1f1b_on_the_first_stage(self):
        self.single("Schedule1F1B", 0, 4, 8)

    def test_1f1b_on_the_last_stage(self):
        job = self.single("Schedule1F1B", 3, 4, 8)
        self.assertEqual(job.expected[:4], [("forward", 3, 0), ("backward", 3, 0), ("forward", 3, 1), ("backward", 3, 1)])

    def test_1f1b_of_all_ranks_for_the_planner(self):
        job = self.single("Schedule1F1B", 0, 2, 3)
        self.assertEqual([len(order) for order in job.orders], [6, 6])
        self.assertEqual(job.orders[0][:3], [("forward", 0, 0), ("forward", 0, 1), ("backward", 0, 0)])

    def test_zero_bubble_with_chunks_and_overlap(self):
        self.load()
        rows = ["0F0,,0SEND_F0,3F0,3I0,0F1+3W0,3F1,3B1,0I0,0W0,0B1,0REDUCE_GRAD", "1F0,2F0,1F1,2F1,2B0,1B0,2B1,1B1"]
        schedule = self.multi(rows, 0, 2, 2)
        for _ in range(100):
            schedule.step()
        self.assert_all_as_listed(100)
        self.assertEqual([(kind, stage) for kind, stage, _ in self.session.job.expected[:5]],
                         [("forward", 0), ("forward", 3), ("input_gradient", 3), ("forward", 0), ("weight_gradient", 3)])
        self.assertEqual(self.session.job.chunks(), 2)
        self.assertEqual(schedule.losses, 200)

    def test_the_loss_belongs_to_the_forward(self):
        seen = []
        self.load(schedules=SCHEDULES_SOURCE.replace("self.losses += 1", "self.on_loss()"))
        schedule = self.schedules.ScheduleGPipe(self.stage.PipelineStage(1, 2, 1, 2), 2)
        schedule.on_loss = lambda: seen.append(list(self.session.open_units))
        schedule.step()
        self.assertEqual(seen, [[("forward", 1, 0)], [("forward", 1, 1)]])

    def test_lengths_are_read_from_the_inputs_of_the_first_stage(self):
        mask = Tensor([[1, 1, 1], [1, 0, 0], [1, 1, 0], [1, 1, 1]])
        for rank, told in ((0, [(at, [(4, 10), (5, 13)]) for at in range(2)]), (1, [])):
            with self.subTest(rank=rank):
                self.setUp()
                self.load()
                schedule = self.schedules.Schedule1F1B(self.stage.PipelineStage(rank, 2, rank, 2), 2)
                for _ in range(2):
                    schedule.step(attention_mask=mask)
                schedule.step()
                self.assertEqual(self.session.told, told)

    def test_an_evaluation_is_not_marked(self):
        self.load()
        schedule = self.schedules.Schedule1F1B(self.stage.PipelineStage(1, 2, 1, 2), 4)
        schedule.step()
        schedule.eval()
        self.assertFalse(self.session.in_iteration)
        schedule.step()
        self.assert_all_as_listed(2)
        self.assertEqual(schedule.losses, 12)

    def test_an_exception_passes_and_the_job_may_continue(self):
        self.load(STAGE_SOURCE.replace("return args", "return args[0]"))
        schedule = self.schedules.ScheduleGPipe(self.stage.PipelineStage(0, 1, 0, 1), 2)
        with self.assertRaisesRegex(IndexError, "tuple index out of range"):
            schedule.step()
        with self.assertRaises(IndexError):
            schedule.step()
        self.marks.pause()
        self.assertIsNone(self.marks.refused)

    def test_another_order_is_named(self):
        self.load(schedules=SCHEDULES_SOURCE.replace("for i in range(self._n_microbatches):\n            self.backward(i)",
                                                     "for i in (1, 0):\n            self.backward(i)", 1))
        schedule = self.schedules.ScheduleGPipe(self.stage.PipelineStage(0, 1, 0, 1), 2)
        for _ in range(3):
            schedule.step()
        self.assertEqual(self.marks.refused, "unit 2: the schedule lists backward of microbatch 0 on stage 0, the job ran "
                                             "backward of microbatch 1 on stage 0")
        self.marks.pause()
        self.assertEqual(len(self.session.iterations), 3)

    def test_custom_functions_are_refused_by_name(self):
        self.load()
        schedule = self.multi(["0F0,0B0"], 0, 1, 1)
        schedule._comp_type_to_function_map["B"] = lambda action, context: None
        schedule.step()
        self.assertIn("_PipelineScheduleRuntime computes B by register_custom_function", self.marks.refused)

    def test_a_stage_with_methods_of_its_own_is_refused_by_name(self):
        self.load()

        class MyStage(self.stage.PipelineStage):
            def backward_one_chunk(self, bwd_chunk_id, **_):
                pass

        self.schedules.ScheduleGPipe(MyStage(0, 1, 0, 1), 2).step()
        self.assertIn("MyStage has a backward_one_chunk of its own", self.marks.refused)
        self.assertEqual(len(self.session.iterations), 1)

    def test_functions_that_have_changed_are_refused_by_name_and_the_job_continues(self):
        changes = [  # every word of the left becomes that of the right
            ("fwd_chunk_id", "chunk", "_PipelineStageBase.forward_one_chunk.*has no parameter fwd_chunk_id"),
            ("full_backward", "whole", "_PipelineStageBase.backward_one_chunk.*has no parameter full_backward"),
            ("bwd_chunk_id", "chunk", "_PipelineStageBase.backward_one_chunk.*has no parameter bwd_chunk_id"),
            ("backward_weight_one_chunk", "backward_weights", "has no backward_weight_one_chunk"),
            ("_PipelineStageBase", "_StageBase", "has no _PipelineStageBase"),
            ("(self, stage, output", "(self, where, output", "_PipelineSchedule._maybe_compute_loss.*has no parameter stage"),
            ("PipelineScheduleMulti", "PipelineScheduleMany", "has no PipelineScheduleMulti"),
        ]
        for old, new, message in changes:
            with self.subTest(old):
                self.marks.__init__(self.open)
                schedules = SCHEDULES_SOURCE.replace(old, new)
                self.load(STAGE_SOURCE.replace(old, new),
                          schedules.replace("if stage.is_last", "if where.is_last") if "where" in new else schedules)
                self.assertRegex(self.marks.refused, message)
                self.assertRegex(self.marks.refused, r"/torch/(stage|schedules)\.py \(torch version 2\.11\.0\)")
                stage = self.stage.PipelineStage(0, 1, 0, 1)
                self.schedules.ScheduleGPipe(stage, 2).step()
                self.assertEqual([letter for letter, _ in stage.done], ["F", "F", "B", "B"])

    def test_the_place_of_replicas(self):
        self.load()
        cases = [
            (8, [2, 6], 0, None, (0, 2, 2, 4, 0, 1)),  # pipelines of ranks 4 apart: the third of four
            (8, [4, 5, 6, 7], 3, None, (3, 4, 1, 2, 0, 1)),  # of neighbours: the second of two
            (8, [3, 7], 1, 2, (1, 2, 1, 2, 1, 2)),  # TorchTitan says tp 2
        ]
        for world, ranks, rank, tp, place in cases:
            with self.subTest(world=world, ranks=ranks):
                self.world, self.ranks = world, ranks
                replicas = torch_pipelining._Replicas()
                if tp:
                    replicas.dimensions = types.SimpleNamespace(tp=tp)
                self.assertEqual(replicas.place(self.stage.PipelineStage(rank, len(ranks), rank, len(ranks))), place)

    @needs(DIMENSIONS)
    def test_torchtitan_says_how_large_its_dimensions_are(self):
        names = ["spmd_types", "torch.distributed.device_mesh", "torchtitan", "torchtitan.config", "torchtitan.config.configs",
                 "torchtitan.distributed", "torchtitan.tools", "torchtitan.tools.logging", "torchtitan.tools.utils"]
        modules = stand_ins(*names, *imported_by(DIMENSIONS))
        name = "torchtitan.distributed.parallel_dims"
        dimensions = load(DIMENSIONS, name, {**modules, "torch": unittest.mock.MagicMock(__path__=[])})
        self.addCleanup(sys.modules.pop, name, None)
        install(name, dimensions, self.marks)
        self.assertIsNone(self.marks.refused)
        made = dimensions.ParallelDims(dp_replicate=1, dp_shard=2, cp=1, tp=2, pp=2, ep=1, world_size=8)
        self.assertIs(self.marks.adapter("torch_pipelining", None).replicas.dimensions, made)


def imported_by(path):
    """Names of the modules that a file imports from elsewhere."""
    import ast

    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in ("torch", "torchtitan"):
            found.add(node.module)
    return found - {"torch"}


if __name__ == "__main__":
    unittest.main()
