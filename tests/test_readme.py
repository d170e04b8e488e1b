"""Every Python block of the README runs."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_block(block):
    names = {}
    exec(compile(block, str(README), "exec"), names)
    for line in block.splitlines():  # a comment that is a truth value is a promise
        code, _, promise = line.partition("#")
        if promise.strip() in ("True", "False"):
            assert str(eval(code, names)) == promise.strip()
