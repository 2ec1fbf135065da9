"""PyTorch's GPU, where the program has loaded PyTorch. Nothing here imports it."""

import os
import sys
from typing import Any, Optional


def torch() -> Any:
    return sys.modules.get("torch")


def current_cuda() -> Any:
    """torch.cuda where this process uses a GPU by it."""
    cuda = getattr(torch(), "cuda", None)
    return cuda if cuda is not None and cuda.is_initialized() else None


def current_gpu() -> Optional[str]:
    """UUID of the GPU that PyTorch uses; None where it uses none, or other GPUs stand in for the real ones."""
    cuda = current_cuda()
    if cuda is None or os.environ.get("LOWGEAR_NVML"):
        return None
    uuid = getattr(cuda.get_device_properties(cuda.current_device()), "uuid", None)
    return None if uuid is None else f"GPU-{uuid}"
