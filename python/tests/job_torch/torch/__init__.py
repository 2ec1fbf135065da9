"""Stands in for PyTorch, which Debian has without pipelining: modules and classes by the same names."""

__version__ = "2.11.0"

from . import distributed  # noqa: E402
