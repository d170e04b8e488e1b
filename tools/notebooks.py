"""The tutorials as notebooks, for Jupyter or Colab: `make notebooks`, and a part of the site.

    python tools/notebooks.py FOLDER

A notebook stands by itself: its first cell installs cwnet, pictures lie inside it, and "run all" works from there.
Prose becomes text; ``python`` blocks become cells, with the output that the page shows; ``sh`` blocks become ``!``
commands; files become cells that write them. A block that a page marks as not run stays text.
"""

from __future__ import annotations

import base64
import json
import posixpath
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["TUTORIALS", "notebook", "notebook_text"]

ROOT = Path(__file__).resolve().parents[1]
TUTORIALS = sorted((ROOT / "docs/tutorials").glob("[0-9]*.md"))

#: The extra of cwnet that brings what a page says that it needs.
_EXTRAS = {"rdkit": "chem", "torch_geometric": "pyg", "distributed": "scale"}

_BLOCK = re.compile(
    r"(?P<above>(?:^<!--.*?-->\n)*)^```(?P<language>\w+)\n(?P<text>.*?)^```\n", re.MULTILINE | re.DOTALL
)
_SAID = re.compile(r"<!-- (in tests|not run|needs|file): (.*?) -->")
_LINK = re.compile(r"(?P<picture>!?)\[(?P<said>[^\]]*)\]\((?P<target>[^()\s]+)\)")


class _Block(NamedTuple):
    """A fenced block, with what the comments above it say."""

    language: str
    text: str
    said: dict[str, str]

    @property
    def file(self) -> str | None:
        """The name of the file that this block is; it stands above it, or in its first line."""
        inside = re.match(r"# file: (.+)\n", self.text)
        return self.said.get("file") or (inside[1] if inside else None)


def notebook(path: Path) -> dict[str, Any]:
    """A page as a notebook, in the format 4.5 of nbformat."""
    page = path.read_text(encoding="utf-8")
    cells = [_code(_install(page))]
    for part in _parts(page):
        if isinstance(part, str):
            cells.append(_text(_standing_alone(part, path)))
        elif part.language == "text" and cells[-1]["cell_type"] == "code":
            cells[-1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": _lines(part.text)}]
        elif part.language == "text" or "not run" in part.said:
            cells.append(_text(f"```{part.language}\n{part.text}```"))
        else:
            cells += map(_code, _sources(part))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def notebook_text(path: Path) -> str:
    """The same as the text of a file."""
    return json.dumps(notebook(path), ensure_ascii=False, indent=1) + "\n"


def _parts(page: str) -> Iterator[str | _Block]:
    """Prose and blocks, in order."""
    at = 0
    for found in _BLOCK.finditer(page):
        if prose := page[at : found.start()].strip():
            yield prose
        yield _Block(found["language"], found["text"], dict(_SAID.findall(found["above"])))
        at = found.end()
    if prose := page[at:].strip():
        yield prose


def _install(page: str) -> str:
    needed = {value for key, value in _SAID.findall(page) if key == "needs"}
    extras = ",".join(extra for name, extra in _EXTRAS.items() if name in needed)
    return (
        "# Where the package index has no cwnet, put the path of a wheel or of a checkout in its place.\n"
        f'%pip install --quiet "cwnet{f"[{extras}]" if extras else ""}"'
    )


def _sources(block: _Block) -> Iterator[str]:
    """The cells that do what a block does."""
    text = block.text.rstrip("\n")
    if name := block.file:
        if folder := posixpath.dirname(name):
            yield f"!mkdir -p {folder}"
        yield f"%%writefile {name}\n{text}"
    elif block.language == "sh":
        yield re.sub(r"(?<!\\\n)^(?=\S)", "!", text, flags=re.MULTILINE)
    else:
        yield text


def _standing_alone(prose: str, path: Path) -> str:
    """Prose with its pictures inside; links to other tutorials lead to their notebooks, other pages are named."""

    def mend(link: re.Match[str]) -> str:
        address, _, _ = link["target"].partition("#")
        if "://" in address or not address:
            return link[0]
        target = Path(posixpath.normpath((path.parent / address).as_posix()))
        if link["picture"]:
            kind = {".png": "image/png", ".svg": "image/svg+xml"}[target.suffix]
            return f"![{link['said']}](data:{kind};base64,{base64.b64encode(target.read_bytes()).decode()})"
        if target in TUTORIALS:
            return f"[{link['said']}]({target.stem}.ipynb)"
        return f"{link['said']} (`{target.relative_to(ROOT).as_posix()}`)"

    return _LINK.sub(mend, prose)


def _text(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": _lines(text)}


def _code(text: str) -> dict[str, Any]:
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": _lines(text)}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for tutorial in TUTORIALS:
        (folder / f"{tutorial.stem}.ipynb").write_text(notebook_text(tutorial), encoding="utf-8")
    print(f"{len(TUTORIALS)} notebooks in {folder}")
