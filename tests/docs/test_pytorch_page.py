"""Every row of "What works with PyTorch" names a test that is there, or says that there is none."""

import re

import pytest

from tests.docs.pages import ROOT

PAGE = (ROOT / "docs/guides/pytorch.md").read_text(encoding="utf-8")
ROWS = [line.strip("|").split("|") for line in PAGE.splitlines() if line.startswith("|")][2:]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].strip(" `"))
def test_row(row):
    *_, works, proof = map(str.strip, row)
    if proof in ("not supported", "not tested on its own"):
        assert works.startswith(("not supported", "through"))
        return
    path, name = re.fullmatch(r"`(.+)::(\w+)`", proof).groups()
    assert re.search(rf"^def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)


def test_there_are_rows():
    assert len(ROWS) >= 15
