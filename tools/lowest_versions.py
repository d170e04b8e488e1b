"""The lowest versions that pyproject.toml allows of what cwnet needs to run, and of its extras, as constraints for pip.

    python tools/lowest_versions.py [name==version ...]

Versions given replace those of pyproject.toml.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

__all__ = ["lowest"]

ROOT = Path(__file__).resolve().parents[1]

#: Extras that are for users; the others are for those who work on cwnet.
EXTRAS = ("chem", "pyg", "scale", "tensorboard")


def lowest(given: list[str]) -> dict[str, str]:
    """Names and versions.

    >>> lowest(["torch==9.9"])["torch"]
    '9.9'
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *(line for e in EXTRAS for line in project["optional-dependencies"][e])]
    found = {}
    for line in lines:
        match = re.match(r"([\w-]+)(?:\[[\w,]+\])?>=([\w.]+)", line)
        if match is None:
            raise SystemExit(f"{line!r} in pyproject.toml has no lowest version")
        found[match[1]] = match[2]
    for item in given:
        name, _, version = item.partition("==")
        if not version:
            raise SystemExit(f"{item!r}: give name==version")
        found[name] = version
    return found


if __name__ == "__main__":
    print("\n".join(f"{name}=={version}" for name, version in lowest(sys.argv[1:]).items()))
