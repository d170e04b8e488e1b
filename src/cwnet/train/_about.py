"""What a run was made with: versions, hardware, commit."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import torch

__all__ = ["commit", "hardware", "processor", "versions"]


def versions() -> dict[str, str]:
    """The versions that figures may depend on."""
    from cwnet import __version__

    return {
        "cwnet": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }


def hardware(device: torch.device) -> dict[str, Any]:
    """The machine and the device."""
    found: dict[str, Any] = {
        "device": str(device),
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "system": platform.platform(),
    }
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        found |= {"gpu": properties.name, "gpu_memory_gib": round(properties.total_memory / 2**30, 1)}
        found["cuda"] = torch.version.cuda
    return found


def processor() -> str:
    """What the processor is called."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def commit() -> str | None:
    """The commit this package is at: ``$CWNET_COMMIT``, or what git says if the package lies in its own checkout."""
    if given := os.environ.get("CWNET_COMMIT"):
        return given
    package = Path(__file__).resolve().parents[1]
    if not (package.parents[1] / ".git").exists():
        return None
    try:
        found = subprocess.run(
            ["git", "-C", str(package), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()
