"""The page of a model: whole, offline, and safe whatever the table holds."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch

from cwnet.data import read_table
from cwnet.molecules import Settings, Targets, train_table
from cwnet.molecules._report import errors_of
from tests.molecules.conftest import write

VOID = {"meta", "br", "img", "link"}


class Tags(HTMLParser):
    """All tags, and whether they close in order."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.attributes = [], [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def read(path):
    tags = Tags()
    tags.feed(path.read_text())
    assert not tags.open
    return tags


@pytest.fixture(scope="module")
def hostile(tmp_path_factory, molecules):
    """A table whose names and classes would be markup, and a model of trees for it."""
    folder = tmp_path_factory.mktemp("hostile")
    rows = [(s, "<script>alert(1)</script>" if "N" in s else "a & $b$") for s, _ in molecules[:80]]
    path = write(folder / "<b>.csv", ("smiles", "<img src=x onerror=alert(1)>"), rows)
    table = read_table(path, "smiles", "<img src=x onerror=alert(1)>")
    settings = Settings(network=False, changes=("trees.count=10",))
    return train_table(table, folder / "model", settings, device="cpu", progress=False).folder


def test_text_of_the_table_stays_text(hostile):
    page = (hostile / "report.html").read_text()
    tags = read(hostile / "report.html")
    assert not {"script", "img", "iframe", "object", "form"} & set(tags.seen)
    assert not [name for name, _ in tags.attributes if name.startswith("on")]
    assert "&lt;img src=x onerror=alert(1)&gt;" in page


def test_the_page_asks_for_nothing(hostile, regression):
    for folder in (hostile, regression.folder):
        page = (folder / "report.html").read_text()
        assert "default-src 'none'" in page
        for name, value in read(folder / "report.html").attributes:
            if name in ("src", "href", "xlink:href"):
                assert value.startswith(("#", "data:image/png;base64,"))
        ids = re.findall(r'\bid="([^"]+)"', page)
        assert len(ids) == len(set(ids))


def test_what_is_on_the_page(regression):
    page = (regression.folder / "report.html").read_text()
    for head in ("Figures of the test part", "What each part gives", "Predicted and measured", "Do the intervals hold?",
                 "Where the errors are", "How the network learnt", "worst predictions", "Go on"):  # fmt: skip
        assert f"{head}" in page, head
    assert page.count("<article>") == min(20, len(regression.prepared.split.test))
    assert f"cwnet predict {regression.folder} new.csv" in page
    assert "trees alone" in page
    assert Path(regression.folder, "report.html").stat().st_size < 3_000_000


def test_classes_have_a_reliability_plot(binary):
    assert "Are the probabilities frequencies?" in (binary.folder / "report.html").read_text()


def test_errors():
    nan = float("nan")
    y = torch.tensor([[1.0, 10.0], [2.0, nan], [nan, nan]])
    two = Targets("regression", ("a", "b"), (), (0.0, 0.0), (1.0, 10.0))
    assert errors_of(two, y, torch.zeros(3, 2).double())[:2].tolist() == [1.0, 2.0]
    assert errors_of(two, y, torch.zeros(3, 2).double())[2].isnan()
    three = Targets("multiclass", ("a",), (("x", "y", "z"),))
    p = torch.tensor([[0.25, 0.5, 0.25], [0.0, 0.0, 1.0]]).double()
    found = errors_of(three, torch.tensor([[1.0], [nan]]), p)
    assert found[0] == 0.5
    assert found[1].isnan()
