"""One gallery for all tests: drawing and explaining it takes a few seconds."""

import json
import re

import pytest

pytest.importorskip("rdkit")

from cwnet.explore import gallery, render_explorer
from cwnet.molecules import builtin_model


@pytest.fixture(scope="session")
def model():
    return builtin_model()


@pytest.fixture(scope="session")
def collection(model):
    """The exhibits and the pairs of the gallery."""
    return gallery(model)


@pytest.fixture(scope="session")
def page(collection):
    return render_explorer(*collection)


@pytest.fixture(scope="session")
def data_of():
    def read(page):
        found = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
        assert len(found) == 1
        return json.loads(found[0])

    return read


@pytest.fixture(scope="session")
def data(page, data_of):
    return data_of(page)
