"""`python3 -m lowgear.adapters`, or this folder given to a Python that has no package `lowgear`: prints, as JSON, which
frameworks that Python has and what Lowgear does with them."""

import sys


def _load_package():
    """The package that this folder is of, whatever sys.path says."""
    from importlib.util import module_from_spec, spec_from_file_location
    from os.path import dirname, join

    folder = dirname(sys.path.pop(0))  # where adapters would hide the frameworks of their names
    spec = spec_from_file_location("lowgear", join(folder, "__init__.py"), submodule_search_locations=[folder])
    sys.modules["lowgear"] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules["lowgear"])


if sys.version_info < (3, 8):
    sys.exit("Python %d.%d is older than 3.8, which Lowgear needs" % sys.version_info[:2])
if not __package__:
    _load_package()

from lowgear.adapters.report import main  # noqa: E402  the package may have to be loaded first

main()
