"""Which pipeline rank the client takes a process for, against the code by which Megatron, DeepSpeed and Merak number
their ranks: unmodified, from ../shared/peers, where it is there."""

import importlib.util
import json
import os
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import lowgear

PEERS = Path(os.environ["LOWGEAR_SOURCE"]).parent / "shared" / "peers"
MEGATRON = PEERS / "megatron/megatron/core/parallel_state.py"
DEEPSPEED = PEERS / "deepspeed/deepspeed/runtime/pipe/topology.py"
MERAK = PEERS / "merak/Merak/mpu/topology.py"

# tp, cp, dp, pp
SIZES = [(2, 1, 1, 4), (1, 1, 2, 4), (2, 1, 2, 2), (2, 2, 3, 2), (4, 1, 1, 1), (1, 1, 1, 4), (1, 1, 4, 1)]


def load(path, package, stand_ins):
    """The module at `path`, with stand-ins of the modules that it imports."""
    with unittest.mock.patch.dict(sys.modules, stand_ins):
        spec = importlib.util.spec_from_file_location(f"{package}.{path.stem}", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module


def stand_ins(*names):
    return {name: unittest.mock.MagicMock(__path__=[], __spec__=None) for name in names}


def needs(path):
    return unittest.skipUnless(path.exists(), f"SKIPPED: {path} is not there, so nothing is compared with the real one")


class Ranks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        patch = unittest.mock.patch.dict(os.environ, {"LOWGEAR_NVML": "/no/such/library"})
        patch.start()
        self.addCleanup(patch.stop)

    def plan(self, ranks):
        path = self.folder / f"plan-{ranks}.json"
        op = {"op": "forward", "microbatch": 0, "mhz": 1200, "start_s": 0.0, "duration_s": 0.1}
        path.write_text(json.dumps({
            "format": "lowgear.plan/1", "policy": "test", "schedule": "gpipe", "microbatches": 1, "deadline_s": 0.1,
            "time_s": 0.1, "energy_j": 1.0, "switches": 0,
            "stages": [{"stage": stage, "ops": [op]} for stage in range(ranks)]}))
        return path

    def by_plan(self, rank, world, pp, **how):
        """The pipeline rank and stage that a process takes itself for when it loads a plan."""
        with lowgear.Client(agent_socket="", rank=rank, world_size=world, **how) as client:
            with self.assertRaises(lowgear.AgentUnavailable):
                client.load_plan(self.plan(pp))
            self.assertEqual(client.status().stage, client.status().pp_rank)
            return client.status().pp_rank

    def by_job(self, rank, world, pp, dp, tp, **how):
        job = {"parallel": {"pp": pp, "dp": dp, "tp": tp, "chunks": 1}}
        with lowgear.Client(agent_socket="", rank=rank, world_size=world, job_spec=job, **how) as client:
            return client.status().pp_rank

    def check(self, real, world, pp, dp, tp, **how):
        """`real`: the pipeline rank of each rank, as the peer has it."""
        self.assertEqual(len(real), world)
        for rank in range(world):
            with self.subTest(rank=rank, world=world, pp=pp, dp=dp, tp=tp, **how):
                self.assertEqual(self.by_job(rank, world, pp, dp, tp, **how), real[rank])
                self.assertEqual(self.by_plan(rank, world, pp, **how), real[rank])


@needs(MEGATRON)
class MegatronRanks(Ranks):
    @classmethod
    def setUpClass(cls):
        cls.real = load(MEGATRON, "megatron.core", stand_ins(
            "numpy", "torch", "einops", "megatron", "megatron.core", "megatron.core.utils", "megatron.core.inference",
            "megatron.core.inference.symmetric_memory"))

    def pipeline_ranks(self, tp, cp, dp, pp, order):
        generator = self.real.RankGenerator(tp=tp, ep=1, dp=dp, pp=pp, cp=cp, order=order)
        return {rank: position for group in generator.get_ranks("pp") for position, rank in enumerate(group)}

    def test_of_its_default_order(self):
        for tp, cp, dp, pp in SIZES:
            real = self.pipeline_ranks(tp, cp, dp, pp, "tp-cp-ep-dp-pp")
            for order in ("megatron", "tp-cp-ep-dp-pp"):
                self.check(real, tp * cp * dp * pp, pp, dp * cp, tp, rank_order=order)

    def test_of_orders_with_the_pipeline_further_in(self):
        for order in ("tp-cp-ep-pp-dp", "pp-tp-cp-ep-dp", "tp-pp-dp"):
            for tp, cp, dp, pp in SIZES:
                if "cp" not in order and cp > 1:
                    continue
                real = self.pipeline_ranks(tp, cp, dp, pp, order)
                sized = order.replace("tp", f"tp{tp}").replace("cp", f"cp{cp}").replace("dp", f"dp{dp}")
                self.check(real, tp * cp * dp * pp, pp, dp * cp, tp, rank_order=sized)

    def test_are_not_those_of_the_rank_modulo_the_plan(self):
        """What an earlier release took: six of eight ranks of pp 4 x tp 2 at another stage's clocks."""
        real = self.pipeline_ranks(2, 1, 1, 4, "tp-cp-ep-dp-pp")
        self.assertEqual(sum(rank % 4 != position for rank, position in real.items()), 6)
        for rank in range(8):
            with lowgear.Client(agent_socket="", rank=rank, world_size=8) as client:
                with self.assertRaisesRegex(lowgear.InvalidUse, "pass pp_rank"):
                    client.load_plan(self.plan(4))


class Topologies:
    """DeepSpeed's classes, which Merak has, too."""

    def test_of_pipeline_and_replicas(self):
        for dp, pp in ((1, 4), (2, 4), (3, 2)):
            topology = self.real.PipeDataParallelTopology(num_pp=pp, num_dp=dp)
            real = {rank: topology.get_coord(rank).pipe for rank in range(pp * dp)}
            self.check(real, pp * dp, pp, dp, 1, rank_order="deepspeed")

    def test_of_pipeline_replicas_and_tensor_parallel_ranks(self):
        for tp, cp, dp, pp in SIZES:
            dp *= cp
            topology = self.real.PipeModelDataParallelTopology(num_pp=pp, num_mp=tp, num_dp=dp)
            real = {rank: topology.get_coord(rank).pipe for rank in range(pp * dp * tp)}
            self.check(real, pp * dp * tp, pp, dp, tp, rank_order="deepspeed")


@needs(DEEPSPEED)
class DeepSpeedRanks(Topologies, Ranks):
    @classmethod
    def setUpClass(cls):
        cls.real = load(DEEPSPEED, "deepspeed.runtime.pipe", stand_ins("deepspeed"))


@needs(MERAK)
class MerakRanks(Topologies, Ranks):
    @classmethod
    def setUpClass(cls):
        cls.real = load(MERAK, "Merak.mpu", stand_ins("torch", "torch.distributed", "Merak", "Merak.mpu", "Merak.utils"))


if __name__ == "__main__":
    unittest.main()
