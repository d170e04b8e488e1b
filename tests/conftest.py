"""Shared fixtures: where the benchmark data is, a browser, and named graphs."""

import os
import shutil
from functools import lru_cache
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import settings

from cwnet import ComplexStore

settings.register_profile("cwnet", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("cwnet")


@pytest.fixture(scope="session")
def data() -> Path:
    folder = os.environ.get("CWNET_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("needs the benchmark data: set CWNET_DATA to its folder")
    return Path(folder)


def there(path: Path) -> Path:
    if not path.exists():
        pytest.skip(f"needs {path.name}, which CWNET_DATA does not have")
    return path


@pytest.fixture(scope="session")
def zinc(data):
    arrays = dict(np.load(there(data / "ZINC" / "zinc12k_train.npz"), allow_pickle=False))
    return ComplexStore.from_graphs(
        arrays["num_nodes"], arrays["num_edges"], arrays["edge"], x=arrays["atom"], edge_x=arrays["bond"], y=arrays["y"]
    )


@pytest.fixture(scope="session")
def sr_family(data):
    @lru_cache(maxsize=2)
    def read(name: str) -> list[nx.Graph]:
        lines = there(data / "SR_graphs" / f"{name}.g6").read_bytes().split()
        return [nx.from_graph6_bytes(line) for line in lines]

    return read


@pytest.fixture(scope="session")
def chromium():
    """A browser: playwright's own Chromium, or the system's."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as tool:
        system = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
        try:
            browser = tool.chromium.launch(executable_path=system, args=["--no-sandbox", "--disable-gpu"])
        except playwright.Error as error:
            pytest.skip(f"there is no Chromium to open the page with: {str(error).splitlines()[0]}")
        yield browser
        browser.close()


@pytest.fixture
def rook():
    return nx.line_graph(nx.complete_bipartite_graph(4, 4))


@pytest.fixture
def shrikhande():
    steps = [(0, 1), (1, 0), (1, 1)]
    graph = nx.Graph()
    for a in range(4):
        for b in range(4):
            for da, db in steps:
                graph.add_edge((a, b), ((a + da) % 4, (b + db) % 4))
    return graph
