"""Attaches a Python process to Lowgear: `lowgear run` puts this folder first in PYTHONPATH, so that it is imported before
the program. Silent where nothing asks for it or no framework is imported; then does what the sitecustomize does that this
one hides."""

import os
import sys

_SITE = os.path.dirname(os.path.abspath(__file__))


def _load(name, path, **how):
    """A module from its file, whatever sys.path says."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(name, path, **how)
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _install(name, module):
    """Runs after a framework was imported: only now is more of Lowgear needed than the importer."""
    try:
        if "lowgear" not in sys.modules:
            package = os.path.dirname(_SITE)
            _load("lowgear", os.path.join(package, "__init__.py"), submodule_search_locations=[package])
        from lowgear.adapters.core import install

        install(name, module)
    except Exception as error:
        if os.environ.get("RANK", "0") == "0":
            sys.stderr.write(f"lowgear: not attached to {name}: {error}\n")


def _attach():
    if not any(name.startswith("LOWGEAR_") for name in os.environ):
        return
    importing = _load("_lowgear_importing", os.path.join(os.path.dirname(_SITE), "adapters", "importing.py"))
    if importing.is_asked_for(os.environ):
        importing.AfterImport(importing.ADAPTERS, _install).install()


def _is_lowgears(file):
    """Whether it is the sitecustomize of a Lowgear, this one or another installation's."""
    folder, name = os.path.split(file)
    package = os.path.dirname(folder)
    return name.startswith("sitecustomize.") and os.path.isfile(os.path.join(package, "adapters", "importing.py"))


def _run_hidden(ran):
    """The sitecustomize that Python would have imported without Lowgear's. Its exceptions are its own. `ran` has what has
    run in this process: others, too, run the one that they hide, which may be this one again."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    for entry in list(sys.path):
        spec = PathFinder.find_spec("sitecustomize", [entry])
        if spec is None or spec.loader is None or not spec.origin:
            continue
        file = os.path.realpath(spec.origin)
        if file in ran or _is_lowgears(file):
            continue
        ran.add(file)
        module = module_from_spec(spec)  # by its own loader: it may be in an archive
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)
        return


_RAN = sys.__dict__.setdefault("_lowgear_sitecustomize", set())  # real paths, of all that ran in this process
if not any(map(_is_lowgears, _RAN)):
    _RAN.add(os.path.realpath(__file__))
    try:
        _attach()
    except Exception as error:
        sys.stderr.write(f"lowgear: not attached: {error}\n")
_run_hidden(_RAN)
