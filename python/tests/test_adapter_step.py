"""The adapter of jobs without a pipeline, against modules shaped like those of PyTorch, transformers, Lightning and
DeepSpeed, and Debian's PyTorch where there is one. bench/gpu/attach runs the real ones."""

import functools
import importlib.util
import os
import sys
import types
import unittest
import unittest.mock

from lowgear.adapters.core import install
from stand_ins import PEERS, Observed, load, needs, stand_ins

NVTX = PEERS / "deepspeed/deepspeed/utils/nvtx.py"


class Optimizer:
    """Of PyTorch 2: a global hook after every step."""

    hooks = []

    def step(self):
        for hook in Optimizer.hooks:
            hook(self, (), {})


def optimizers():
    module = types.ModuleType("torch.optim.optimizer")
    module.Optimizer = Optimizer
    Optimizer.hooks = []
    module.register_optimizer_step_post_hook = Optimizer.hooks.append
    return module


class OfOptimizers(Observed):
    def test_iterations_are_from_step_to_step(self):
        install("torch.optim.optimizer", optimizers(), self.marks)
        optimizer = Optimizer()
        for _ in range(5):
            optimizer.step()
        self.assertEqual(len(self.session.iterations), 5)
        session = self.session
        self.marks.close()
        self.assertTrue(session.in_iteration, "what follows the last step is no iteration")
        self.assertIsNone(session.job.orders)
        self.assertIn("iterations only", self.said[0])

    def test_of_several_optimizers_the_first_counts(self):
        install("torch.optim.optimizer", optimizers(), self.marks)
        one, other = Optimizer(), Optimizer()
        for _ in range(5):
            one.step()
            other.step()
        self.assertEqual(len(self.session.iterations), 5)

    def test_a_pipeline_counts_more(self):
        from lowgear.adapters.job import Job, Place
        from lowgear.adapters.marks import PIPELINE

        install("torch.optim.optimizer", optimizers(), self.marks)
        optimizer = Optimizer()
        job = Job("pipeline", Place(0, 1), [[("forward", 0, 0)]])
        for _ in range(3):
            self.marks.begin("pipeline", PIPELINE, lambda: job)
            self.marks.begin_unit("pipeline", "forward", 0, 0)
            optimizer.step()
        self.assert_all_as_listed(3)

    def test_ranks_of_the_launcher_are_replicas(self):
        install("torch.optim.optimizer", optimizers(), self.marks)
        with unittest.mock.patch.dict(os.environ, {"RANK": "3", "WORLD_SIZE": "8"}):
            Optimizer().step()
        self.assertEqual(self.session.job.place, (0, 1, 3, 8, 0, 1))

    def test_nothing_of_ours_leaves_the_hook(self):
        marks = self.marks
        install("torch.optim.optimizer", optimizers(), marks)
        with unittest.mock.patch.object(marks, "begin", side_effect=ValueError("ours")):
            Optimizer().step()
        self.assertEqual(marks.refused, "ValueError: ours")

    @unittest.skipUnless(importlib.util.find_spec("torch"), "SKIPPED: there is no PyTorch (Debian: python3-torch)")
    def test_with_pytorch_itself(self):
        import torch

        install("torch.optim.optimizer", sys.modules["torch.optim.optimizer"], self.marks)
        layer = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(layer.parameters(), 0.1)
        for _ in range(4):
            layer(torch.ones(1, 2)).sum().backward()
            optimizer.step()
        self.assertEqual(len(self.session.iterations), 4)


class OfTransformers(Observed):
    def test_iterations_are_the_steps_of_the_trainer(self):
        module = types.ModuleType("transformers.trainer")
        module.TrainerCallback = type("TrainerCallback", (), {})
        module.DEFAULT_CALLBACKS = []
        install("transformers.trainer", module, self.marks)
        install("torch.optim.optimizer", optimizers(), self.marks)
        (callback,) = (kind() for kind in module.DEFAULT_CALLBACKS)
        optimizer = Optimizer()
        for step in range(10, 13):
            callback.on_step_begin(None, types.SimpleNamespace(global_step=step), None)
            optimizer.step()
            callback.on_step_end(None, types.SimpleNamespace(global_step=step + 1), None)
            self.assertFalse(self.session.in_iteration, "an evaluation or a checkpoint may follow")
        self.assertEqual(self.session.numbers, [10, 11, 12])

    def test_another_trainer_is_refused_by_name(self):
        module = types.ModuleType("transformers.trainer")
        module.__file__ = "/site/transformers/trainer.py"
        with unittest.mock.patch("lowgear.adapters.core.say", self.said.append):
            install("transformers.trainer", module, self.marks)
        self.assertIn("/site/transformers/trainer.py", self.said[0])
        self.assertIn("has no DEFAULT_CALLBACKS, TrainerCallback", self.said[0])


class OfLightning(Observed):
    def test_iterations_are_batches_until_the_optimizer_has_stepped(self):
        package, module = types.ModuleType("lightning.pytorch"), types.ModuleType("lightning.pytorch.trainer.trainer")
        package.Callback = type("Callback", (), {})

        class Trainer:
            def __init__(self, accumulate=2, callbacks=None):
                self.callbacks, self.global_step, self.accumulate = list(callbacks or ()), 0, accumulate

            def fit(self, batches):
                for batch in range(batches):
                    for callback in self.callbacks:
                        callback.on_train_batch_start(self, None, None, batch)
                    self.global_step += (batch + 1) % self.accumulate == 0
                    for callback in self.callbacks:
                        callback.on_train_batch_end(self, None, None, None, batch)

        Trainer.__module__ = module.__name__
        module.Trainer = Trainer
        with unittest.mock.patch.dict(sys.modules, {"lightning": types.ModuleType("lightning"),
                                                    "lightning.pytorch": package}):
            install(module.__name__, module, self.marks)
            type("OfTheUser", (Trainer,), {})().fit(6)
        self.assertEqual(len(self.session.iterations), 3)
        self.assertFalse(self.session.in_iteration)


class OfDeepSpeed(Observed):
    def train(self, decorator):
        """Three steps of two microbatches and an evaluation, by an engine whose forward is decorated."""
        module = types.ModuleType("deepspeed.runtime.engine")

        class DeepSpeedEngine:
            def __init__(self):
                self.training, self.micro_steps, self.global_steps = True, 0, 0

            def is_gradient_accumulation_boundary(self):
                return (self.micro_steps + 1) % 2 == 0

            @decorator
            def forward(self, *inputs, **kwargs):
                return inputs

            def step(self, lr_kwargs=None):
                self.global_steps += self.is_gradient_accumulation_boundary()
                self.micro_steps += 1

        module.DeepSpeedEngine = DeepSpeedEngine
        install(module.__name__, module, self.marks)
        engine = DeepSpeedEngine()
        for _ in range(6):
            self.assertEqual(engine.forward(1, 2), (1, 2))
            engine.step()
        engine.training = False
        engine.forward()
        self.assertIsNone(self.marks.refused)
        self.assertEqual(self.session.numbers, [0, 1, 2])
        self.assertFalse(self.session.in_iteration)

    def test_iterations_end_where_gradients_are_whole(self):
        self.train(lambda function: function)

    def test_a_decorator_may_keep_the_names_of_the_parameters(self):
        self.train(lambda function: functools.wraps(function)(lambda *args, **kwargs: function(*args, **kwargs)))

    @needs(NVTX)
    def test_the_real_decorator_of_forward_hides_them(self):
        nvtx = load(NVTX, "deepspeed.utils.nvtx",
                    stand_ins("deepspeed", "deepspeed.accelerator", "deepspeed.runtime", "deepspeed.runtime.compiler"))
        self.train(nvtx.instrument_w_nvtx)

    def test_methods_of_an_engine_may_be_decorated_by_a_function_that_hides_their_parameters(self):
        module = types.ModuleType("deepspeed.runtime.engine")

        def hiding(function):
            return lambda *args, **kwargs: function(*args, **kwargs)

        class DeepSpeedEngine:
            global_steps = 4

            def is_gradient_accumulation_boundary(self):
                return True

            @hiding
            def forward(self, *inputs, **kwargs):
                return inputs, kwargs

            @hiding
            def step(self):
                return "stepped"

        module.DeepSpeedEngine = DeepSpeedEngine
        install(module.__name__, module, self.marks)
        engine = DeepSpeedEngine()
        self.assertEqual(engine.forward(1, labels=2), ((1,), {"labels": 2}))
        self.assertEqual(engine.step(), "stepped")
        self.assertIsNone(self.marks.refused)
        self.assertEqual(self.session.numbers, [4])


if __name__ == "__main__":
    unittest.main()
