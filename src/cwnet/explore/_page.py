"""The page: one HTML text that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Sequence
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from cwnet.complexes import CellComplex
from cwnet.errors import CwnetError
from cwnet.explore._colours import colours
from cwnet.explore._exhibit import LIFTINGS, Exhibit
from cwnet.explore._gallery import Pair
from cwnet.wl._page import _script_json

__all__ = ["MAX_EXHIBITS", "Typed", "explorer_data", "render_explorer"]

#: The most graphs on one page.
MAX_EXHIBITS = 60

_HINT = (
    '<p class="note hint">Your own beside these: <code>cwnet explore "CCO" graphs.g6</code>. With '
    "<code>--serve</code>, molecules can be typed here.</p>"
)
_SCRIPTS = ("cells.js", "drawing.js", "page.js")


class Typed(NamedTuple):
    """What a reader of a served page has typed so far, and what was wrong with the last."""

    smiles: Sequence[str] = ()
    text: str = ""
    problem: str = ""


def render_explorer(shown: Sequence[Exhibit], pairs: Sequence[Pair] = (), typed: Typed | None = None) -> str:
    """The page that shows these exhibits.

    It asks for nothing from the network. The part of its address after ``#`` says what it shows:
    ``#a=0&b=1&lifting=rings:6&round=2`` compares the first two exhibits after round 2.

    Args:
        shown: what there is to see. If several are the reader's own, the first two are compared at the start.
        pairs: those worth comparing, by name.
        typed: what was typed, for a page that is served; without it, there is no place to type.

    Raises:
        CwnetError: for more exhibits than a page takes, or none.
    """
    if not 0 < len(shown) <= MAX_EXHIBITS:
        raise CwnetError(f"{len(shown)} graphs on one page: it takes 1 to {MAX_EXHIBITS}. Choose some of them")
    style, script = _asset("page.css"), "\n".join(map(_asset, _SCRIPTS))
    parts = {
        "policy": _policy(style, script, "'none'" if typed is None else "'self'"),
        "style": style,
        "script": script,
        "form": "" if typed is None else _form(typed),
        "hint": _HINT if typed is None else "",
        "data": _script_json(explorer_data(shown, pairs, typed)),
    }
    # One pass, so that a placeholder that stands in a user's text is not filled.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _asset("page.html"))


def explorer_data(shown: Sequence[Exhibit], pairs: Sequence[Pair], typed: Typed | None = None) -> dict[str, Any]:
    """What the script gets, as plain data."""
    coloured = {key: colours(shown, key) for key in LIFTINGS}
    place = {each.name: i for i, each in reversed(list(enumerate(shown))) if each.group != "yours"}
    return {
        "exhibits": [
            {**_exhibit_data(each), "colours": {key: found[i] for key, found in coloured.items()}}
            for i, each in enumerate(shown)
        ],
        "pairs": [{"a": place[p.a], "b": place[p.b], "lifting": p.lifting, "about": p.about} for p in pairs],
        "liftings": list(LIFTINGS),
        "start": _start(shown, pairs, place, typed),
    }


def _start(
    shown: Sequence[Exhibit], pairs: Sequence[Pair], place: dict[str, int], typed: Typed | None
) -> dict[str, Any]:
    """What is seen first: the molecule just typed, or the reader's own graphs, or the first pair."""
    yours = [i for i, each in enumerate(shown) if each.group == "yours"]
    if typed is not None and typed.smiles and not typed.problem:
        return {"a": yours[-1], "b": None, "lifting": "rings:6"}
    if yours:
        return {"a": yours[0], "b": yours[1] if len(yours) > 1 else None, "lifting": "rings:6"}
    if pairs:
        return {"a": place[pairs[0].a], "b": place[pairs[0].b], "lifting": pairs[0].lifting}
    return {"a": 0, "b": None, "lifting": "rings:6"}


def _exhibit_data(each: Exhibit) -> dict[str, Any]:
    bare = each.complexes["none"]
    assert isinstance(bare, CellComplex)  # nothing is attached, so no budget is exceeded
    return {
        "name": each.name,
        "about": each.about,
        "group": each.group,
        "smiles": each.source.smiles,
        "labels": None if each.source.labels is None else list(each.source.labels),
        "labelKind": each.label_kind,
        "points": np.asarray(each.points).round(3).tolist(),
        "edges": bare.boundary(1).tolist(),
        "lines": each.lines,
        "complexes": {key: _complex_data(found) for key, found in each.complexes.items()},
        "prediction": each.prediction,
    }


def _complex_data(found: CellComplex | str) -> dict[str, Any]:
    """The boundaries and the vertices of the cells from dimension 2 on; vertices and edges are always the same."""
    if isinstance(found, str):
        return {"refused": found}
    higher = [d for d in range(2, len(found.num_cells)) if d == 2 or found.num_cells[d]]
    return {
        "boundaries": [found.boundary(d).tolist() for d in higher],
        "vertices": [[list(cell) for cell in found.cells(d)] for d in higher],
    }


def _form(typed: Typed) -> str:
    """Where to type a molecule. What was typed before goes along, so the server has nothing to remember."""
    before = "".join(f'<input type="hidden" name="smiles" value="{html.escape(text)}">' for text in typed.smiles)
    problem = f'<p class="problem" role="alert">{html.escape(typed.problem)}</p>' if typed.problem else ""
    return (
        f'<form class="type" method="get" action="/">{before}<label for="smiles">Type a molecule (SMILES)</label>'
        f'<div><input id="smiles" name="smiles" value="{html.escape(typed.text)}" placeholder="c1ccccc1O" '
        f'maxlength="400" required autocomplete="off" spellcheck="false"><button>Add</button></div>{problem}</form>'
    )


def _policy(style: str, script: str, forms: str) -> str:
    """What the page may do: run this script and this style, and ask nobody for anything."""
    digest = {
        name: base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for name, text in (("style", style), ("script", script))
    }
    return (
        f"default-src 'none'; style-src 'sha256-{digest['style']}'; script-src 'sha256-{digest['script']}'; "
        f"form-action {forms}; base-uri 'none'"
    )


def _asset(name: str) -> str:
    return (resources.files("cwnet.explore") / "assets" / name).read_text(encoding="utf-8")
