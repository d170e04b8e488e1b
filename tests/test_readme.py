"""Every block of Python and of commands in the README runs."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

README = Path(__file__).parent.parent / "README.md"
TEXT = README.read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()]

#: What a reader has minutes for, and a test has not.
SHORTER = {"--epochs 30": "--epochs 1 --set model.width=8 --set model.layers=1 --device cpu"}


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_block(block):
    if "cwnet.molecules" in block:
        pytest.importorskip("rdkit")
    names = {}
    exec(compile(block, str(README), "exec"), names)
    for line in block.splitlines():  # a comment that is a truth value is a promise
        code, _, promise = line.partition("#")
        if promise.strip() in ("True", "False"):
            assert str(eval(code, names)) == promise.strip()


def test_the_tour_of_commands(tmp_path, monkeypatch):
    """One after another, in one folder, as a reader types them."""
    pytest.importorskip("rdkit")
    from cwnet.cli import app

    assert {line.split()[1] for line in COMMANDS} >= {"train", "predict", "explain", "fingerprint"}
    monkeypatch.chdir(tmp_path)
    for line in COMMANDS:
        for long, short in SHORTER.items():
            line = line.replace(long, short)
        verb, *arguments = shlex.split(line, comments=True)[1:]
        found = CliRunner().invoke(app, [verb, *arguments])
        assert found.exit_code == 0, f"{line}\n{found.output}"
        if "-o" in arguments:
            assert (tmp_path / arguments[arguments.index("-o") + 1]).stat().st_size > 1_000
