"""The report on frameworks: verdicts on written ones of every adapter, on the real code of others, and on whatever this
Python has installed; and that they are what the adapters say when the modules are really imported."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock
from pathlib import Path

from lowgear.adapters.importing import ADAPTERS
from lowgear.adapters.report import FORMAT, FRAMEWORKS, examine
from stand_ins import PEERS, needs

PROGRAM = Path(__file__).resolve().parents[1] / "lowgear" / "adapters"

STAGE = """
class _PipelineStageBase:
    def forward_one_chunk(self, fwd_chunk_id, args, kwargs=None): ...
    def backward_one_chunk(self, bwd_chunk_id, loss=None, full_backward=True): ...
    def backward_weight_one_chunk(self, bwd_chunk_id): ...
"""
SCHEDULES = """
class _PipelineSchedule:
    def _maybe_compute_loss(self, stage, output, target_mbs, mb_index): ...
class PipelineScheduleSingle(_PipelineSchedule):
    def step(self, *args, target=None): ...
class PipelineScheduleMulti(_PipelineSchedule):
    def step(self, *args, target=None): ...
"""
#: Modules with the functions that adapters observe; nothing of them is the frameworks' own.
WRITTEN = {
    "torch/distributed/pipelining/stage.py": STAGE,
    "torch/distributed/pipelining/schedules.py": SCHEDULES,
    "torch/optim/optimizer.py": "def register_optimizer_step_post_hook(hook): ...\n",
    "torchtitan/distributed/parallel_dims.py": "class ParallelDims:\n    def __post_init__(self): ...\n",
    "transformers/trainer_callback.py": "class TrainerCallback: ...\n",
    "transformers/trainer.py": "from .trainer_callback import TrainerCallback\nDEFAULT_CALLBACKS = []\n",
    "lightning/pytorch/trainer/trainer.py": "class Trainer:\n    def __init__(self, *, logger=None): ...\n",
    "accelerate/accelerator.py": "",
}
VERSIONS = {"torch": "2.11.0+cu128", "transformers": "5.17.0", "lightning": "2.6.0", "accelerate": "1.15.0"}

IMPORTING = """
import importlib, sys
from lowgear.adapters import core
from lowgear.adapters.importing import ADAPTERS, AfterImport
core.say = print  # of adapters without units
AfterImport(ADAPTERS, core.install).install()
for name in sys.argv[1:]:
    importlib.import_module(name)
print(core._MARKS.refused or "")
"""


class Reported(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, files, versions=None):
        for name, text in files.items():
            file = self.folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            for package in file.relative_to(self.folder).parents[:-1]:
                init = self.folder / package / "__init__.py"
                if not init.exists():
                    init.write_text("")
        for package, version in (versions or {}).items():
            (self.folder / package / "__init__.py").write_text(f"__version__ = {version!r}\n")
            info = self.folder / f"{package}-{version}.dist-info"
            info.mkdir(exist_ok=True)
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")

    def run_python(self, *words, cwd=None, **variables):
        """Without site packages, so that a framework that is installed does not matter."""
        environment = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", **variables}
        run = subprocess.run([sys.executable, "-S", *map(str, words)], capture_output=True, text=True, check=False,
                             cwd=cwd or self.folder, env=environment)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout

    def report(self, **how):
        return json.loads(self.run_python(PROGRAM, **how))

    def verdict(self, name, *folders):
        """As a Python without site packages says."""
        framework = next(one for one in FRAMEWORKS if one.name == name)
        with unittest.mock.patch("lowgear.adapters.shapes.find_spec", lambda _: None):
            return examine(framework, [str(self.folder), *map(str, folders)])

    def said_by_adapters(self, *modules):
        """What the adapters refuse when the modules are imported; empty where nothing."""
        path = f"{self.folder}:{PROGRAM.parents[1]}"
        return self.run_python("-c", IMPORTING, *modules, PYTHONPATH=path).strip()


class OfWrittenFrameworks(Reported):
    def test_every_module_that_adapters_wait_for_is_of_a_framework(self):
        self.assertEqual({name for framework in FRAMEWORKS for name in framework.modules}, set(ADAPTERS))

    def test_names_versions_and_verdicts(self):
        self.write(WRITTEN, VERSIONS)
        report = self.report()
        self.assertEqual(report["format"], FORMAT)
        self.assertEqual(report["version"], ".".join(map(str, sys.version_info[:3])))
        self.assertFalse(report["hook"])
        self.assertEqual(report["importable"], "")
        found = {one["name"]: (one["version"], one["verdict"]) for one in report["frameworks"]
                 if one["verdict"] != "not_installed"}
        self.assertEqual(found, {
            "PyTorch pipelining": ("2.11.0+cu128", "attaches"), "TorchTitan": (None, "attaches"),
            "transformers Trainer": ("5.17.0", "measures"), "Lightning": ("2.6.0", "measures"),
            "Accelerate": ("1.15.0", "measures"), "PyTorch optimizers": ("2.11.0+cu128", "measures")})
        self.assertEqual(self.said_by_adapters(*(name for name in ADAPTERS if name.split(".")[0] in VERSIONS)), "")

    def test_what_is_observed_is_named(self):
        self.write(WRITTEN, VERSIONS)
        pipelining = self.verdict("PyTorch pipelining")
        self.assertEqual(pipelining.observed, tuple(
            f"torch.distributed.pipelining.{name}" for name in (
                "stage._PipelineStageBase.forward_one_chunk", "stage._PipelineStageBase.backward_one_chunk",
                "stage._PipelineStageBase.backward_weight_one_chunk", "schedules._PipelineSchedule._maybe_compute_loss",
                "schedules.PipelineScheduleSingle.step", "schedules.PipelineScheduleMulti.step")))
        self.assertEqual(pipelining.files, tuple(str(self.folder / "torch/distributed/pipelining" / name)
                                                  for name in ("stage.py", "schedules.py")))
        self.assertEqual(pipelining.decorated, ())

    def test_each_change_is_refused_as_the_adapters_refuse_it(self):
        changes = {"stage.py": ("forward_one_chunk", "fwd_chunk_id", "backward_one_chunk", "full_backward",
                                "backward_weight_one_chunk", "_PipelineStageBase"),
                   "schedules.py": ("_maybe_compute_loss", "(self, stage,", "step", "PipelineScheduleMulti")}
        for file, words in changes.items():
            for word in words:
                with self.subTest(word):
                    self.write(WRITTEN, VERSIONS)
                    path = self.folder / "torch/distributed/pipelining" / file
                    path.write_text(path.read_text().replace(word, word.replace("stage,", "place,")
                                                             if " " in word else f"{word}_of_another"))
                    verdict = self.verdict("PyTorch pipelining")
                    self.assertEqual(verdict.verdict, "refused")
                    self.assertIn(f"{path} (torch version 2.11.0+cu128)", verdict.reason)
                    self.assertIn(self.named(word), verdict.reason)

    @staticmethod
    def named(word):
        return "stage" if " " in word else word

    def test_a_refusal_is_in_the_words_of_the_adapter(self):
        changed = STAGE.replace("full_backward", "whole")
        self.write({**WRITTEN, "torch/distributed/pipelining/stage.py": changed}, VERSIONS)
        reason = self.verdict("PyTorch pipelining").reason
        self.assertIn("backward_one_chunk(self, bwd_chunk_id, loss=None, whole=True) has no parameter full_backward", reason)
        self.assertEqual(self.said_by_adapters("torch.distributed.pipelining.stage"),
                         f"{reason}; docs/attaching.md lists what is supported")

    def test_a_version_without_the_module_says_so(self):
        self.write({name: text for name, text in WRITTEN.items() if "pipelining" not in name}, VERSIONS)
        for name in ("PyTorch pipelining", "TorchTitan"):
            verdict = self.verdict(name)
            self.assertEqual((verdict.verdict, verdict.reason),
                             ("absent", "there is no torch.distributed.pipelining.stage"))
        self.assertEqual(self.verdict("PyTorch optimizers").verdict, "measures")

    def test_what_only_an_execution_says_is_unclear(self):
        self.write({**WRITTEN, "transformers/trainer.py": "from .trainer_callback import TrainerCallback\n"
                                                          "DEFAULT_CALLBACKS = made()\n",
                    "lightning/pytorch/trainer/trainer.py": "def (:\n"}, VERSIONS)
        for name, reason in (("transformers Trainer", "DEFAULT_CALLBACKS is computed"), ("Lightning", "SyntaxError")):
            verdict = self.verdict(name)
            self.assertEqual(verdict.verdict, "unclear")
            self.assertIn(reason, verdict.reason)

    def test_the_folder_of_the_job_is_looked_at_and_nothing_of_it_runs(self):
        mark = self.folder / "executed"
        bad = f"open({str(mark)!r}, 'w').close()\n"
        self.write({**WRITTEN, "transformers/trainer.py": bad + WRITTEN["transformers/trainer.py"]}, VERSIONS)
        for name in ("json", "ast", "inspect", "importlib/metadata"):
            (self.folder / f"{name}.py").parent.mkdir(exist_ok=True)
            (self.folder / f"{name}.py").write_text(bad)
        verdicts = {one["name"]: one["verdict"] for one in self.report()["frameworks"]}
        self.assertEqual(verdicts["transformers Trainer"], "measures")
        self.assertFalse(mark.exists())

    def test_modules_of_this_process_stay_as_they_are(self):
        self.write(WRITTEN, VERSIONS)
        mine = types.ModuleType("torch")
        with unittest.mock.patch.dict(sys.modules, torch=mine):
            self.assertEqual(self.verdict("PyTorch pipelining").verdict, "attaches")
            self.assertIs(sys.modules["torch"], mine)
            self.assertNotIn("torch.distributed.pipelining.stage", sys.modules)

    def test_nothing_leaves_it(self):
        self.write(WRITTEN)
        (self.folder / "torch" / "optim" / "optimizer.py").write_bytes(b"\xff\xfe\x00")
        self.assertEqual(self.verdict("PyTorch optimizers").verdict, "unclear")

    def test_the_package_runs_as_a_module_too(self):
        self.write(WRITTEN, VERSIONS)
        path = f"{self.folder}:{PROGRAM.parents[1]}"
        report = json.loads(self.run_python("-m", "lowgear.adapters", PYTHONPATH=path))
        self.assertEqual(report["importable"], str(PROGRAM.parent))
        self.assertEqual(report["frameworks"], self.report()["frameworks"])

    def test_a_library_that_is_missing_is_said(self):
        library = self.report(LOWGEAR_LIBRARY="/no/such/liblowgear.so")["library"]
        self.assertEqual(library["path"], "")
        self.assertIn("liblowgear.so is not found (/no/such/liblowgear.so", library["problem"])


class OfRealFrameworks(Reported):
    REAL = {"Megatron Core": ("megatron", "attaches"), "DeepSpeed pipeline": ("deepspeed", "attaches"),
            "Merak": ("merak", "attaches"), "DeepSpeed ZeRO": ("deepspeed", "measures")}

    @needs(PEERS)
    def test_unmodified_ones_are_attached_to(self):
        for name, (folder, expected) in self.REAL.items():
            verdict = self.verdict(name, PEERS / folder)
            self.assertEqual((verdict.verdict, verdict.reason), (expected, ""), name)
            self.assertTrue(verdict.observed, name)
            hidden = ("deepspeed.runtime.engine.DeepSpeedEngine.forward",) if name == "DeepSpeed ZeRO" else ()
            self.assertLessEqual(set(hidden), set(verdict.decorated))

    @needs(PEERS)
    def test_torchtitan_needs_pytorch_with_pipelining(self):
        self.assertEqual(self.verdict("TorchTitan", PEERS / "torchtitan").verdict, "absent")
        self.write({name: text for name, text in WRITTEN.items() if "titan" not in name}, VERSIONS)
        self.assertEqual(self.verdict("TorchTitan", PEERS / "torchtitan").verdict, "attaches")

    def changed(self, folder, file, old, new):
        """A copy of one file in a tree that is otherwise the unmodified one."""
        copy = self.folder / folder
        shutil.copytree(PEERS / folder, copy, copy_function=os.symlink)
        text = (copy / file).read_text()
        self.assertIn(old, text)
        (copy / file).unlink()
        (copy / file).write_text(text.replace(old, new))
        return copy / file

    @needs(PEERS)
    def test_changed_copies_are_refused_by_name(self):
        changes = (
            ("Megatron Core", "megatron/core/pipeline_parallel/schedules.py", "current_microbatch=None", "mb=None",
             "has no parameter current_microbatch"),
            ("DeepSpeed pipeline", "deepspeed/runtime/pipe/engine.py", "_exec_forward_pass(self, buffer_id)",
             "_exec_forward_pass(self, at)", "PipelineEngine._exec_forward_pass(self, at) has no parameter buffer_id"),
            ("Merak", "Merak/runtime/pipe_engine.py", "def _exec_schedule(", "def _run_schedule(", "has no _exec_schedule"))
        for name, file, old, new, said in changes:
            with self.subTest(name):
                folder = self.REAL[name][0]
                path = self.changed(folder, file, old, new)
                verdict = self.verdict(name, self.folder / folder)
                self.assertEqual(verdict.verdict, "refused")
                self.assertIn(str(path), verdict.reason)
                self.assertIn(said, verdict.reason)


def has(package):
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False


class OfInstalledFrameworks(unittest.TestCase):
    """By source and by a real import, the adapters say the same."""

    def compare(self, framework):
        if not has(framework.package.split(".")[0]):
            self.skipTest(f"SKIPPED: this Python has no {framework.package}")
        verdict = examine(framework, sys.path)
        if verdict.verdict in ("absent", "not_installed"):
            self.skipTest(f"SKIPPED: {verdict}")
        path = os.pathsep.join([str(PROGRAM.parents[1]), *sys.path])
        run = subprocess.run([sys.executable, "-c", IMPORTING, *framework.modules], capture_output=True, text=True,
                             check=False, env={**os.environ, "PYTHONPATH": path})
        if run.returncode != 0:
            self.skipTest(f"SKIPPED: it cannot be imported here: {run.stderr.strip().splitlines()[-1:]}")
        refused = "".join(run.stdout.strip().splitlines()[-1:])
        self.assertEqual(bool(refused), verdict.verdict == "refused", (refused, verdict))
        if refused:
            self.assertIn(verdict.reason.partition("(")[0], refused)  # annotations are not in shapes


for _framework in FRAMEWORKS:
    setattr(OfInstalledFrameworks, f"test_{_framework.name.replace(' ', '_')}",
            lambda self, framework=_framework: self.compare(framework))


if __name__ == "__main__":
    unittest.main()
