"""The adapter of Megatron Core against its real schedules: unmodified functions with stand-ins for what they import,
for tensors and for transfers."""

import sys
import tempfile
import types
import unittest
import unittest.mock
from pathlib import Path

from lowgear.adapters import megatron
from lowgear.adapters.core import install
from lowgear.adapters.wrapping import Unsupported
from stand_ins import PEERS, Observed, load, needs, stand_ins

SCHEDULES = PEERS / "megatron/megatron/core/pipeline_parallel/schedules.py"
NAME = "megatron.core.pipeline_parallel.schedules"


class Module:
    """torch.nn.Module."""

    def parameters(self):
        return []


class Output:
    requires_grad = False

    def retain_grad(self):
        pass

    grad = None


class Group:
    def __init__(self, rank, size):
        self._rank, self._size = rank, size

    def rank(self):
        return self._rank

    def size(self):
        return self._size


class Transfers:
    """In place of P2PCommunicator: what is received is nothing."""

    def __init__(self, rank, stages, chunks):
        self.pp_group = Group(rank, stages)
        self.config = None
        self.virtual_pipeline_model_parallel_size = chunks
        self.total_stages, self.current_stage = stages, rank
        self.is_pp_first_stage, self.is_pp_last_stage = rank == 0, rank == stages - 1

    def _received(self, *_, **__):
        return Output()

    recv_forward = recv_backward = send_forward_recv_backward = send_backward_recv_forward = _received
    send_forward = send_backward = send_forward_recv_forward = send_backward_recv_backward = _received

    def send_forward_backward_recv_forward_backward(self, *_, **__):
        return Output(), Output()


def load_schedules(path=SCHEDULES):
    torch = stand_ins("torch", "torch.autograd", "torch.autograd.variable")
    torch["torch"].nn = types.SimpleNamespace(Module=Module)
    torch["torch"].cuda.is_initialized = torch["torch"].distributed.is_available = lambda: False
    core = "megatron.core"
    others = stand_ins(
        "megatron", core, f"{core}.parallel_state", f"{core}.utils", f"{core}.process_groups_config",
        f"{core}.transformer", f"{core}.transformer.cuda_graphs", f"{core}.transformer.moe", f"{core}.telemetry",
        f"{core}.transformer.moe.paged_stash", f"{core}.transformer.moe.router", f"{core}.telemetry.fallbacks",
        f"{core}.transformer.multi_token_prediction", f"{core}.pipeline_parallel",
        *(f"{core}.pipeline_parallel.{name}" for name in (
            "fine_grained_activation_offload", "multimodule_communicator", "p2p_communication", "utils",
            "combined_1f1b", "hybrid_cp_schedule")))
    others["nemo"] = None  # not installed
    others[f"{core}.telemetry.fallbacks"].trace_fn = lambda *_, **__: lambda function: function
    others[f"{core}.utils"].get_model_config = lambda model: model.config
    others[f"{core}.utils"].get_attr_wrapped_model = lambda model, name: lambda *_: None
    others[core].__version__ = "0.20.0"
    group = types.SimpleNamespace
    others[f"{core}.process_groups_config"].ProcessGroupCollection = group
    others[f"{core}.process_groups_config"].MultiModuleProcessGroupCollection = type("Several", (), {})
    others[f"{core}.pipeline_parallel.multimodule_communicator"].MultiModulePipelineCommunicator = type("Many", (), {})
    utils = others[f"{core}.pipeline_parallel.utils"]
    utils.is_pp_first_stage = lambda group: group.rank() == 0
    utils.is_pp_last_stage = lambda group: group.rank() == group.size() - 1
    utils.is_vp_first_stage = lambda vp_stage, vp_size: vp_stage == 0
    utils.is_vp_last_stage = lambda vp_stage, vp_size: vp_stage == (vp_size or 1) - 1
    module = load(path, NAME, {**torch, **others})
    module.forward_step_calc_loss = lambda model, output_tensor, *_, **__: (output_tensor, 0)
    return module, {**torch, **others}


class Config(types.SimpleNamespace):
    """Of a model; what is not set is off."""

    def __getattr__(self, name):
        return None


def configuration(chunks=None, group=None, **changed):
    return Config(virtual_pipeline_model_parallel_size=chunks, microbatch_group_size_per_vp_stage=group,
                  hidden_size=8, overlap_p2p_comm=False, batch_p2p_comm=True, deallocate_pipeline_outputs=False,
                  **changed)


@needs(SCHEDULES)
class OfMegatron(Observed):
    def setUp(self):
        super().setUp()
        self.module, modules = load_schedules()
        patch = unittest.mock.patch.dict(sys.modules, modules)
        patch.start()
        self.addCleanup(patch.stop)
        self.addCleanup(sys.modules.pop, NAME, None)
        self.rank = (0, 1)
        parallel = modules["megatron.core.parallel_state"]
        parallel.get_pipeline_model_parallel_rank = lambda: self.rank[0]
        parallel.get_pipeline_model_parallel_world_size = lambda: self.rank[1]
        for name, value in (("data", 1), ("tensor_model", 0)):
            setattr(parallel, f"get_{name}_parallel_rank", lambda value=value, **_: value)
            setattr(parallel, f"get_{name}_parallel_world_size", lambda value=value, **_: value + 1)
        self.calls = 0

    def install(self):
        install(NAME, self.module, self.marks)

    def models(self, count, config):
        models = []
        for _ in range(count):
            models.append(Module())
            models[-1].config = config
        return models

    def forward(self, data, model, *_):
        self.calls += 1
        return Output(), None

    def run_iteration(self, function, models, microbatches, rank=0, pp=1, chunks=None, **more):
        self.rank = (rank, pp)
        groups = types.SimpleNamespace(tp=Group(0, 1), cp=Group(0, 1), embd=None, pos_embd=None, pp=Group(rank, pp),
                                       dp_cp=None)
        transfers = {} if function.__name__.endswith("no_pipelining") else {
            "p2p_communicator": Transfers(rank, pp, chunks)}
        return function(forward_step_func=self.forward, data_iterator=[None] * len(models) if chunks else None,
                        model=models, num_microbatches=microbatches, seq_length=8, micro_batch_size=2,
                        pg_collection=groups, **transfers, **more)

    def test_without_a_pipeline(self):
        self.install()
        models = self.models(1, configuration())
        for _ in range(100):
            self.run_iteration(self.module.forward_backward_no_pipelining, models, 3)
        self.assert_all_as_listed(100)
        self.assertEqual(self.session.job.expected[:3], [("forward", 0, 0), ("backward", 0, 0), ("forward", 0, 1)])
        self.assertEqual(self.session.job.place, (0, 1, 1, 2, 0, 1))

    def without_interleaving(self, rank, pp, microbatches):
        self.install()
        models = self.models(1, configuration())
        for _ in range(100):
            self.run_iteration(self.module.forward_backward_pipelining_without_interleaving, models, microbatches,
                               rank, pp)
        self.assert_all_as_listed(100)
        self.assertEqual({stage for _, stage, _ in self.session.job.expected}, {rank})

    def test_the_first_rank(self):
        self.without_interleaving(0, 4, 8)

    def test_a_middle_rank(self):
        self.without_interleaving(2, 4, 8)

    def test_the_last_rank(self):
        self.without_interleaving(3, 4, 8)

    def test_fewer_microbatches_than_ranks(self):
        self.without_interleaving(0, 4, 2)

    def interleaved(self, rank, pp, chunks, microbatches, group):
        self.install()
        models = self.models(chunks, configuration(chunks, group))
        for _ in range(100):
            self.run_iteration(self.module.forward_backward_pipelining_with_interleaving, models, microbatches, rank,
                               pp, chunks)
        self.assert_all_as_listed(100)
        self.assertEqual({stage for _, stage, _ in self.session.job.expected},
                         {chunk * pp + rank for chunk in range(chunks)})
        self.assertEqual(self.session.job.chunks(), chunks)

    def test_interleaved_first_rank(self):
        self.interleaved(0, 4, 2, 8, 4)

    def test_interleaved_middle_rank(self):
        self.interleaved(1, 4, 3, 8, 4)

    def test_interleaved_last_rank(self):
        self.interleaved(3, 4, 2, 8, 4)

    def test_interleaved_with_all_forwards_first(self):
        self.interleaved(0, 4, 2, 4, 4)

    def test_interleaved_in_groups_of_another_size(self):
        self.interleaved(1, 2, 2, 8, 3)

    def test_an_evaluation_is_not_marked(self):
        self.install()
        models = self.models(1, configuration())
        run = self.module.forward_backward_no_pipelining
        self.run_iteration(run, models, 4)
        self.run_iteration(run, models, 4, forward_only=True)
        self.assertFalse(self.session.in_iteration)
        self.run_iteration(run, models, 4)
        self.assert_all_as_listed(2)
        self.assertEqual(self.calls, 12)

    def test_another_number_of_microbatches_is_another_job_to_a_server(self):
        self.is_served = True
        self.install()
        models = self.models(1, configuration())
        for microbatches in (2, 2, 4, 4):
            self.run_iteration(self.module.forward_backward_no_pipelining, models, microbatches)
        self.marks.pause()
        self.assertIsNone(self.marks.refused)
        self.assertEqual([session.job.microbatches for session in self.sessions], [2, 4])
        self.assertEqual([[len(units) for units in session.iterations] for session in self.sessions], [[4, 4], [8]])

    def refused(self, **changed):
        self.install()
        models = self.models(1, configuration(**changed))
        with unittest.mock.patch.object(self.module, "combined_1f1b_schedule_for_no_pipelining",
                                        lambda *_, **__: ([], 0)), \
             unittest.mock.patch.object(self.module, "hybrid_context_parallel_forward_backward",
                                        lambda *_, **__: ([], 0)):
            self.run_iteration(self.module.forward_backward_no_pipelining, models, 2)
        self.marks.pause()
        self.assertEqual(len(self.session.iterations), 1)
        return self.marks.refused

    def test_full_iteration_graphs_are_refused(self):
        self.assertIn("full-iteration CUDA graphs", self.refused(cuda_graph_impl="full_iteration"))

    def test_fused_steps_are_refused(self):
        self.assertIn("overlap_moe_expert_parallel_comm", self.refused(overlap_moe_expert_parallel_comm=True))

    def test_hybrid_context_parallelism_is_refused(self):
        self.assertIn("hybrid_context_parallel", self.refused(hybrid_context_parallel=True))

    def test_graphs_of_layers_are_none_of_our_business(self):
        self.assertIsNone(self.refused(cuda_graph_impl="transformer_engine"))

    def test_functions_that_have_changed_are_refused_by_name_and_the_job_continues(self):
        changes = [
            ("    current_microbatch=None,", "    microbatch_number=None, **others,", "forward_step", "current_microbatch"),
            ("def backward_step(input_tensor, output_tensor, output_tensor_grad, config):",
             "def backward_step(input_tensor, outputs, output_tensor_grad, config, **_):\n    output_tensor = outputs",
             "backward_step", "output_tensor"),
            ("num_microbatches: int,", "microbatches: int,", "forward_backward_no_pipelining", "num_microbatches"),
        ]
        for old, new, function, parameter in changes:
            with self.subTest(function), tempfile.TemporaryDirectory() as folder:
                self.marks.__init__(self.open)
                copy = Path(folder) / "schedules.py"
                text = SCHEDULES.read_text()
                self.assertIn(old, text)
                text = text.replace(old, new)
                if function == "forward_step":  # the last but two of its parameters: keep what follows legal
                    text = text.replace("microbatch_number=None, **others,\n    vp_stage=None,\n    is_last_stage=True,",
                                        "microbatch_number=None,\n    vp_stage=None,\n    is_last_stage=True,\n    **others,")
                    text = text.replace("if current_microbatch is not None:", "if False:")
                copy.write_text(text)
                self.module, _ = load_schedules(copy)
                self.install()
                self.assertRegex(self.marks.refused, f"{copy} \\(megatron version 0.20.0\\): {function}\\(.*"
                                                     f"has no parameter {parameter}")
                self.calls = 0
                if parameter != "num_microbatches":  # callers would have changed with it
                    self.run_iteration(self.module.forward_backward_no_pipelining, self.models(1, configuration()), 2)
                    self.assertEqual(self.calls, 2)

    def test_a_function_that_is_gone_is_refused_by_name(self):
        with unittest.mock.patch.object(self.module, "backward_step"):
            del self.module.backward_step
            self.install()
            self.module.backward_step = None
        self.assertIn("has no backward_step", self.marks.refused)


class Orders(unittest.TestCase):
    def test_by_hand(self):
        f, b = "forward", "backward"
        self.assertEqual(megatron.order_of(0, 2, 3), [(f, 0, 0), (f, 0, 1), (b, 0, 0), (f, 0, 2), (b, 0, 1), (b, 0, 2)])
        table = [(0, 0), (1, 0), (0, 1), (1, 1)]
        self.assertEqual(megatron.interleaved_order_of(1, 2, 2, table, 2), [
            (f, 1, 0), (f, 1, 1), (f, 3, 0), (b, 3, 0), (f, 3, 1), (b, 3, 1), (b, 1, 0), (b, 1, 1)])

    def test_what_hides_units(self):
        megatron.check(configuration())
        with self.assertRaises(Unsupported):
            megatron.check(types.SimpleNamespace(cuda_graph_scope=["full_iteration"]))


if __name__ == "__main__":
    unittest.main()
