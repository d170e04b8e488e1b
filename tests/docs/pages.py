"""Pages of the documentation, and their fenced blocks as a reader would run them."""

import contextlib
import doctest
import io
import os
import re
import shlex
import sys
import textwrap
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest
import torch
from typer.testing import CliRunner

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_FENCE = re.compile(r"(?P<indent> *)(?P<ticks>`{3,}|~{3,})(?P<language>[^`\n]*)")
_COMMENT = re.compile(r"<!-- (in tests|not run|needs|file): (.*?) -->")
_FORMATS = {"toml", "csv", "json"}


class BlockError(AssertionError):
    """A block that does not do what its page says."""


@dataclass(frozen=True)
class Block:
    """A fenced block: where its fence stands, its language, what is in it, and the comments above it."""

    path: Path
    line: int
    language: str
    text: str
    comments: tuple[tuple[str, str], ...] = ()

    def __str__(self):
        return f"{self.path.relative_to(ROOT) if self.path.is_relative_to(ROOT) else self.path.name}:{self.line}"

    def said(self, key):
        return [value for name, value in self.comments if name == key]

    @property
    def code(self):
        """What a test runs: the block, with what takes a reader minutes made shorter."""
        text = self.text
        for change in self.said("in tests"):
            long, arrow, short = change.partition(" => ")
            if not arrow or long not in text:
                raise BlockError(f"{self}: there is no {long!r} to replace; write <!-- in tests: LONG => SHORT -->")
            text = text.replace(long, short)
        return text


def read_blocks(path):
    """The fenced blocks of a page, in order."""
    lines = path.read_text(encoding="utf-8").splitlines()
    blocks, at = [], 0
    while at < len(lines):
        fence = _FENCE.fullmatch(lines[at].rstrip())
        if fence is None:
            at += 1
            continue
        end = next((i for i in range(at + 1, len(lines)) if lines[i].strip() == fence["ticks"]), None)
        if end is None:
            raise BlockError(f"{path.name}:{at + 1}: this block has no end")
        text = textwrap.dedent("\n".join(lines[at + 1 : end])) + "\n"
        blocks.append(Block(path, at + 1, fence["language"].strip(), text, _comments_above(lines, at)))
        at = end + 1
    return blocks


def _comments_above(lines, at):
    found = []
    while at > 0 and (lines[at - 1].strip().startswith("<!--") or (found == [] and not lines[at - 1].strip())):
        at -= 1
        if lines[at].strip():
            found[:0] = [(name, value.strip()) for name, value in _COMMENT.findall(lines[at])]
    return tuple(found)


def missing(need):
    """What keeps a block from running here; None where nothing does."""
    kind, _, name = need.partition(" ")
    if kind == "data":
        from cwnet.data import info

        return None if not info(name).missing else f"needs the data set {name}: set CWNET_DATA to its folder"
    if kind == "gpu":
        return None if torch.cuda.is_available() else "needs a GPU"
    return None if find_spec(kind) else f"needs {kind}"


def run_page(path):
    """Run all blocks of a page, in the working directory. Gives what was left out, and why."""
    names = ModuleType("__main__")  # as where a reader types: classes defined here can be found again
    before, sys.modules["__main__"] = sys.modules["__main__"], names
    left_out, printed = [], None
    try:
        for block in read_blocks(path):
            reasons = [why for need in block.said("needs") if (why := missing(need))]
            if reasons or block.said("not run"):
                left_out += [f"{block}: {why}" for why in reasons]
                printed = None if block.language == "text" else ...
            elif block.language == "text":
                _compare(block, printed)
                printed = None
            else:
                printed = _run(block, names.__dict__)
    finally:
        sys.modules["__main__"] = before
    return left_out


def _run(block, names):
    """Run a block; gives its possible outputs, None where it has none."""
    if block.said("file"):
        return _write(block)
    if block.language == "python":
        return [_python(block, names)]
    if block.language == "sh":
        return _commands(block)
    if block.language in _FORMATS:
        return _write(block)
    raise BlockError(f"{block}: say how it is run: python, sh, text, or a file ({', '.join(sorted(_FORMATS))})")


def _python(block, names):
    code = "\n" * block.line + block.code  # so that a traceback shows the line of the page
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, str(block.path), "exec"), names)
    for number, line in enumerate(block.code.splitlines(), block.line + 1):
        expression, _, promise = line.partition("#")
        if promise.strip() in ("True", "False"):  # a comment that is a truth value is a promise
            found = eval(expression, names)
            if str(found) != promise.strip():
                raise BlockError(f"{block.path.name}:{number}: {expression.strip()} is {found}, not {promise.strip()}")
    return out.getvalue()


def _commands(block):
    """Run commands; gives what they print to both streams, and to the first alone."""
    from cwnet.cli import app

    both, first = "", ""
    for line in block.code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if not words:
            continue
        if words[0] != "cwnet":
            raise BlockError(f"{block}: {line!r} can not be run here; write <!-- not run: why --> above the block")
        result = CliRunner().invoke(app, words[1:], env={"COLUMNS": "100"})
        if result.exit_code != 0:
            raise BlockError(f"{block}: {line}\nexit code {result.exit_code}\n{result.output}") from result.exception
        for option, value in pairwise(words):
            if option in ("-o", "--output", "--html") and not (Path(value).is_dir() or os.path.getsize(value)):
                raise BlockError(f"{block}: {line}\nwrote nothing to {value}")
        both, first = both + result.output, first + result.stdout
    return [both, first]


def _write(block):
    head, _, rest = block.code.partition("\n")
    comment = re.fullmatch(r"(?:#|//) file: (.+)", head)
    name = block.said("file") or ([comment[1].strip()] if comment else [])
    if not name:
        raise BlockError(f"{block}: which file is this? Write <!-- file: NAME --> above it")
    path = Path(name[0])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(rest if comment and block.language != "toml" else block.code, encoding="utf-8")


def _compare(block, printed):
    """Whether the block before this one printed what stands in it."""
    if printed is ...:  # it was not run
        return
    if printed is None:
        raise BlockError(f"{block}: this text is not the output of a block; write <!-- not run: why --> above it")
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    if not any(doctest.OutputChecker().check_output(block.text, found, flags) for found in printed):
        raise BlockError(f"{block}: expected\n{block.text}\nprinted\n{printed[0]}")


@pytest.fixture
def reader(tmp_path, monkeypatch):
    """A place to work in, as a reader has it: an empty folder, where modules are found, and no screen."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]
