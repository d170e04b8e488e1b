"""The cellular Weisfeiler–Lehman test, its relatives, and a kernel."""

from typing import Any

from cwnet.wl._refine import ADJACENCIES, Refinement, refine
from cwnet.wl._tests import (
    CERTIFICATE_VERSION,
    Verdict,
    certificate,
    certificates,
    classes,
    distinguish,
    share_not_told_apart,
)

__all__ = [
    "ADJACENCIES",
    "CERTIFICATE_VERSION",
    "CWLKernel",
    "Refinement",
    "Verdict",
    "certificate",
    "certificates",
    "classes",
    "distinguish",
    "refine",
    "share_not_told_apart",
]


def __getattr__(name: str) -> Any:
    """Import scikit-learn only for those who use the kernel."""
    if name == "CWLKernel":
        from cwnet.wl._kernel import CWLKernel

        return CWLKernel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
