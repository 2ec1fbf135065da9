"""Which frameworks this Python has, and what Lowgear would do with each: by the adapters' own checks, on the shapes of the
modules by their source. No framework is imported. `python3 -m lowgear.adapters` prints it; `lowgear doctor` shows it."""

import importlib.metadata
import json
import os
import sys
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from .core import adapter_of
from .marks import Marks
from .shapes import NotRead, Shape, Shapes, Unread, decorators_of, find_source
from .wrapping import Unsupported, is_wrapped

FORMAT = "lowgear.frameworks/1"

CHECKED = "functions and parameters, in the source: nothing was imported"
NOT_CHECKED = "what decorators do, and what the job does: `lowgear run` compares every iteration with its schedule"

_STAGES = ("torch.distributed.pipelining.stage", "torch.distributed.pipelining.schedules")
_MEGATRON = ("megatron.core.pipeline_parallel.schedules",)
_OPTIMIZERS = ("torch.optim.optimizer",)


class Framework(NamedTuple):
    """A framework by the name that users know. `package` is the one that they import, `modules` the modules of ADAPTERS by
    which Lowgear observes its jobs."""

    name: str
    distribution: str
    package: str
    modules: Tuple[str, ...]


FRAMEWORKS = (
    Framework("PyTorch pipelining", "torch", "torch", _STAGES),
    Framework("TorchTitan", "torchtitan", "torchtitan", ("torchtitan.distributed.parallel_dims", *_STAGES)),
    Framework("Megatron Core", "megatron-core", "megatron.core", _MEGATRON),
    Framework("Megatron Bridge", "megatron-bridge", "megatron.bridge", _MEGATRON),
    Framework("NeMo", "nemo_toolkit", "nemo", _MEGATRON),
    Framework("DeepSpeed pipeline", "deepspeed", "deepspeed", ("deepspeed.runtime.pipe.engine",)),
    Framework("Merak", "Merak", "Merak", ("Merak.runtime.pipe_engine",)),
    Framework("DeepSpeed ZeRO", "deepspeed", "deepspeed", ("deepspeed.runtime.engine",)),
    Framework("transformers Trainer", "transformers", "transformers", ("transformers.trainer",)),
    Framework("Lightning", "lightning", "lightning", ("lightning.pytorch.trainer.trainer",)),
    Framework("PyTorch Lightning", "pytorch-lightning", "pytorch_lightning", ("pytorch_lightning.trainer.trainer",)),
    Framework("Accelerate", "accelerate", "accelerate", _OPTIMIZERS),
    Framework("PyTorch optimizers", "torch", "torch", _OPTIMIZERS),
)


class Verdict(NamedTuple):
    """`verdict` is one of:

    attaches       units and iterations are marked, and a plan can be followed
    measures       iterations are marked without units: time and energy, no plan
    refused        a function or parameter is missing, as `reason` says: the job runs and is measured at most
    absent         this version has no such module
    unclear        the source does not say; `lowgear run` does at the first iteration
    not_installed  this Python does not find the package
    """

    name: str
    version: Optional[str]
    verdict: str
    reason: str = ""
    files: Tuple[str, ...] = ()
    observed: Tuple[str, ...] = ()
    decorated: Tuple[str, ...] = ()


def search_path() -> List[str]:
    """Where a job that is started in this folder finds modules."""
    return [os.getcwd(), *(folder for folder in sys.path if folder)]


def version_of(framework: Framework, path: List[str]) -> Optional[str]:
    """By the distribution's metadata, or as the package's `__init__.py` writes it down."""
    try:
        for distribution in importlib.metadata.distributions(name=framework.distribution, path=path):
            return distribution.version
    except Exception:
        pass  # metadata that cannot be read are none
    try:
        written = getattr(Shapes(lambda name: find_source(name, path)).module(framework.package), "__version__", None)
    except (LookupError, OSError, SyntaxError, ValueError):
        return None
    return written if isinstance(written, str) else None


@contextmanager
def _shown_as_imported(shapes: Dict[str, Shape], version: Optional[str]) -> Iterator[None]:
    """Adapters look modules up in sys.modules, for the file and version in their messages."""
    before = dict(sys.modules)
    for name, shape in shapes.items():
        package = ModuleType(name.partition(".")[0])
        if version:
            package.__dict__["__version__"] = version
        sys.modules[package.__name__] = package
        sys.modules[name] = shape
    try:
        yield
    finally:
        for name in {name.partition(".")[0] for name in shapes} | set(shapes):
            sys.modules.pop(name, None)
            if name in before:
                sys.modules[name] = before[name]


def _functions(owner: Any, seen: Any) -> Iterator[Any]:
    """The observed functions of a module, its classes and their tables."""
    for value in list(vars(owner).values()):
        if isinstance(value, Unread):
            continue
        if is_wrapped(value):
            yield value
        elif isinstance(value, dict):
            yield from (entry for entry in value.values() if not isinstance(entry, Unread) and is_wrapped(entry))
        elif isinstance(value, type) and value not in seen:
            seen.add(value)
            yield from _functions(value, seen)


def _examine(framework: Framework, path: List[str], version: Optional[str]) -> Verdict:
    """Has the adapters installed in shapes of the framework's modules.

    Raises Unsupported and NotRead as they do, LookupError where a module is missing, OSError, SyntaxError and ValueError
    where one cannot be read.
    """
    top = {name.partition(".")[0] for name in framework.modules}
    shapes = Shapes(lambda name: find_source(name, path) if name.partition(".")[0] in top else None)
    modules = {name: shapes.module(name) for name in framework.modules}
    marks = Marks()
    with _shown_as_imported(modules, version):
        for name, module in modules.items():
            adapter_of(name).install(module, marks)
    wrapped = [(module, function) for module in modules.values() for function in _functions(module, set())]
    units = any(adapter_of(name).MARKS_UNITS for name in framework.modules)
    return Verdict(
        framework.name, version, "attaches" if units else "measures", "",
        tuple(module.__file__ for module in modules.values()),
        tuple(dict.fromkeys(f"{module.__name__}.{function.__qualname__}" for module, function in wrapped)),
        tuple(dict.fromkeys(f"{module.__name__}.{function.__qualname__}" for module, function in wrapped
                            if decorators_of(function.__lowgear_original__))))


def examine(framework: Framework, path: List[str]) -> Verdict:
    """Lowgear's verdict on one framework. Never raises."""
    version = version_of(framework, path)
    if version is None and find_source(framework.package, path) is None:
        return Verdict(framework.name, None, "not_installed")
    try:
        return _examine(framework, path, version)
    except Unsupported as error:
        return Verdict(framework.name, version, "refused", str(error))
    except LookupError as error:
        return Verdict(framework.name, version, "absent", f"there is no {error.args[0]}")
    except NotRead as error:
        return Verdict(framework.name, version, "unclear", str(error))
    except Exception as error:
        return Verdict(framework.name, version, "unclear", f"{type(error).__name__}: {error}")


def _library() -> Dict[str, Any]:
    """Whether liblowgear.so can be loaded here."""
    from .. import _library as library

    try:
        return {"path": library.load()._name, "problem": ""}
    except Exception as error:
        return {"path": "", "problem": str(error)}


def _own_package(path: List[str]) -> str:
    """The package that `import lowgear` finds without `lowgear run`; empty where there is none."""
    spec = PathFinder.find_spec("lowgear", path)
    return str(Path(spec.origin).parent) if spec is not None and spec.origin else ""


def report() -> Dict[str, Any]:
    """Everything that `lowgear doctor` shows of a Python (docs/attaching.md)."""
    path = search_path()
    return {
        "format": FORMAT,
        "executable": sys.executable,
        "version": ".".join(map(str, sys.version_info[:3])),
        "hook": "_lowgear_importing" in sys.modules,
        "importable": _own_package(path),
        "library": _library(),
        "checked": CHECKED,
        "not_checked": NOT_CHECKED,
        "frameworks": [examine(framework, path)._asdict() for framework in FRAMEWORKS],
    }


def main() -> None:
    """Writes the report as one line, after anything that a site prints as Python starts."""
    sys.stdout.write("\n" + json.dumps(report()) + "\n")
