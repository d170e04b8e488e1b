"""`cwnet data`."""

import pytest
from typer.testing import CliRunner

from cwnet import lift_many
from cwnet.cli import app
from cwnet.data import save_store


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CWNET_CACHE", str(tmp_path))


def run(*arguments):
    return CliRunner().invoke(app, ["data", *arguments])


def test_list():
    found = run("list")
    assert found.exit_code == 0
    for name in ("zinc", "molhiv", "csl", "sr", "ring-transfer", "nci", "reddit-b"):
        assert name in found.output


def test_info_of_a_set_that_is_made_here():
    found = run("info", "ring-transfer", "--set", "k=10", "--set", "num_train=50", "--lifting", "rings:10")
    assert found.exit_code == 0, found.output
    assert "under Rings(10)" in found.output
    assert "50 to train" in found.output
    assert "2-cells of size" in found.output


def test_info_of_zinc(data):
    found = run("info", "zinc")
    assert found.exit_code == 0, found.output
    assert "12,000 complexes under Rings(18)" in found.output
    assert "10,000 to train, 1,000 to validate, 1,000 to test" in found.output
    assert "277,864" in found.output


def test_prepare_keeps_the_store(data, tmp_path):
    assert run("prepare", "mutag", "--lifting", "rings:6").exit_code == 0
    assert list(tmp_path.glob("stores/mutag--*"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "zink"], "there is no data set 'zink'"),
        (["info", "sr", "--set", "family"], "--set takes KEY=VALUE, not 'family'"),
        (["info", "ring-transfer", "--set", "colour=3"], "colour"),
        (["prepare", "csl", "--lifting", "ringz:3"], "can not read the lifting"),
    ],
)
def test_mistakes_are_one_line(arguments, message):
    found = run(*arguments)
    assert found.exit_code == 2
    assert "error: " in found.output
    assert message in found.output
    assert "Traceback" not in found.output


def test_missing_files_say_where_to_put_them(tmp_path, monkeypatch):
    monkeypatch.setenv("CWNET_DATA", str(tmp_path / "nothing"))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    found = run("info", "sr")
    assert found.exit_code == 2
    assert "sr16622.g6" in found.output


def test_verify(tmp_path):
    store = tmp_path / "store"
    save_store(lift_many([(3, [(0, 1), (1, 2), (2, 0)])] * 10, "rings:6"), store, shard_size=4)
    found = run("verify", str(store))
    assert found.exit_code == 0, found.output
    assert "whole; 10 complexes" in found.output
    shard = next(store.glob("*-00001.arrow"))
    shard.write_bytes(shard.read_bytes()[:-9] + b"!" + shard.read_bytes()[-8:])
    found = run("verify", str(store))
    assert found.exit_code == 1
    assert "-00001.arrow was changed after it was written" in found.output
    assert "1 of 3 shards can not be used" in found.output
    found = run("verify", str(tmp_path / "nothing"))
    assert found.exit_code == 2
    assert "is not a store" in found.output
