"""A small store on disk, for runs in other processes."""

import pytest

from cwnet.data import save_split, save_store
from tests.train import tiny


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "tiny"
    save_store(tiny.dataset().store, folder)
    save_split(tiny.split(), folder / "split.json")
    return folder
