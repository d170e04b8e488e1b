"""The page of a table of trained networks, from the figures of its runs alone."""

from __future__ import annotations

from pathlib import Path

__all__ = ["render"]


def render(name: str, results: Path, folder: Path, small: bool = False) -> Path:
    return folder
