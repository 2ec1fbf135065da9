"""Stands in for PyTorch in processes that compute nothing."""

from torch import cuda, distributed  # noqa: F401
