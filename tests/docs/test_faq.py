"""The figures of the FAQ stand on the pages it takes them from: a page that is made anew must not leave it behind."""

import re

import pytest

from tests.docs.pages import ROOT
from tests.docs.test_links import links

FAQ = ROOT / "docs" / "faq.md"
SECTION = FAQ.read_text(encoding="utf-8").partition("## Where simpler models win")[2].partition("\n## ")[0]
ITEMS = re.findall(r"^- (.+?)(?=^- |\Z)", SECTION, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.split("**")[1])
def test_figures(item):
    pages = " ".join((FAQ.parent / link).read_text(encoding="utf-8") for link in links(item))
    for figure in re.findall(r"\d[\d,]*\.\d+(?: ± \d+\.\d+)?|\d+,\d{3}(?:,\d{3})*", item):
        assert re.search(rf"(?<![\d.,]){re.escape(figure)}(?![\d])", pages), figure
