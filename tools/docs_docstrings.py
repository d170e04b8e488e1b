"""Docstrings as they are written here, made ready for the site: examples become blocks of code."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?:^[ ]*>>> .*\n?(?:^(?![ ]*\n).+\n?)*)(?:\n(?=[ ]*>>> ))?", re.MULTILINE)


class Examples(griffe.Extension):
    """Put examples between fences, wherever in a docstring they stand."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None and ">>> " in obj.docstring.value:
            obj.docstring.value = _EXAMPLE.sub(_fenced, obj.docstring.value)


def _fenced(example: re.Match[str]) -> str:
    return f"\n```pycon\n{example[0].strip()}\n```\n"
