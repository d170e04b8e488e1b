"""What the PyTorch at hand can do. cwnet needs 2.3; what later ones brought is asked for here and nowhere else."""

from __future__ import annotations

from importlib.util import find_spec

import torch

__all__ = ["NO_KERNELS", "NO_OPERATORS", "allow_loading", "autocasting", "exporting", "fused_adam"]

_RELEASE = tuple(int(part) for part in torch.__version__.split(".")[:2])


def _why_no_kernels() -> str | None:
    if find_spec("triton") is None:
        return "Triton is missing, which the kernels for GPUs are written in"
    if _RELEASE < (2, 11):  # whose Triton is 3.6; the kernels were tried with no older one
        return f"the kernels for GPUs need PyTorch 2.11, and this is {torch.__version__}"
    return None


#: Why the kernels for GPUs cannot be taken; None where they can.
NO_KERNELS = _why_no_kernels()

#: Why layers cannot be traced by `torch.compile` and `torch.export`; None where they can.
NO_OPERATORS = (
    None
    if hasattr(torch.library, "custom_op")
    else f"torch.compile and torch.export of cwnet's layers need PyTorch 2.4, and this is {torch.__version__}"
)


def autocasting(device_type: str) -> bool:
    """Whether `torch.autocast` is in force on devices of this type."""
    if _RELEASE >= (2, 4):
        return torch.is_autocast_enabled(device_type)
    return torch.is_autocast_cpu_enabled() if device_type == "cpu" else torch.is_autocast_enabled()


def fused_adam(device_type: str) -> bool:
    """Whether `torch.optim.Adam` has a step in one piece on devices of this type; on a CPU since 2.4."""
    return device_type != "cpu" or _RELEASE >= (2, 4)


def exporting() -> bool:
    """Whether `torch.export` is tracing; PyTorch says so since 2.7, and before it takes this for `torch.compile`."""
    return torch.compiler.is_exporting() if hasattr(torch.compiler, "is_exporting") else False


def allow_loading(*classes: type) -> None:
    """Let `torch.load` build these classes from a file though it runs no code; before 2.4 there is no such list."""
    if hasattr(torch.serialization, "add_safe_globals"):
        torch.serialization.add_safe_globals(list(classes))
