"""Dask clusters of real processes: the same store, whoever makes it and whoever dies meanwhile."""

import os
import signal
import threading
import time

import pytest

pytest.importorskip("distributed")

from cwnet.molecules import CWLFingerprint, builtin_model, fingerprint_table, predict_table
from cwnet.scale import ClusterError, lift_files, open_pool
from tests.cli.test_wl import refused, said
from tests.scale.conftest import MOLECULES, contents


@pytest.fixture(scope="module")
def pool():
    with open_pool(2) as pool:
        yield pool


@pytest.fixture
def many(tmp_path):
    (tmp_path / "many.smi").write_text("".join(f"{MOLECULES[i % 7]} {i}\n" for i in range(30_000)))
    return tmp_path / "many.smi"


def test_the_store_is_the_same(pool, tables, tmp_path):
    """Made here, by workers of our own, and by those of a scheduler that is named."""
    address = pool.client.scheduler.address
    with open_pool(scheduler=address) as named:
        for name, place in (("here", None), ("there", pool), ("named", named)):
            lift_files([tables], tmp_path / name, shard_rows=8, target_columns=["number"], pool=place)
    assert contents(tmp_path / "here") == contents(tmp_path / "there") == contents(tmp_path / "named")
    said(
        "lift",
        tables,
        "-o",
        tmp_path / "typed",
        "--shard-rows",
        "8",
        "--target-columns",
        "number",
        "--scheduler",
        address,
    )
    assert contents(tmp_path / "here") == contents(tmp_path / "typed")


def test_predictions_and_fingerprints_are_the_same(pool, tables, tmp_path):
    for name, place in (("here.csv", None), ("there.csv", pool)):
        predict_table(builtin_model(), [tables], tmp_path / name, pool=place)
        fingerprint_table(CWLFingerprint(size=64), [tables], tmp_path / f"f-{name}", pool=place)
    assert (tmp_path / "here.csv").read_bytes() == (tmp_path / "there.csv").read_bytes()
    assert (tmp_path / "f-here.csv").read_bytes() == (tmp_path / "f-there.csv").read_bytes()


def test_workers_that_are_killed_cost_time_only(pool, many, tmp_path):
    """Three times during the run a worker is killed, with SIGKILL; its nanny starts another."""
    done, killed = [], []

    def kill():
        for wanted in (2, 8, 16):
            while len(done) < wanted:
                time.sleep(0.01)
            for _ in range(200):
                workers = pool.client.run(os.getpid)
                if workers:
                    break
                time.sleep(0.05)
            victim = sorted(workers.values())[len(killed) % len(workers)]
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)

    thread = threading.Thread(target=kill)
    thread.start()
    made = lift_files([many], tmp_path / "s", shard_rows=1000, pool=pool, tick=lambda rows, rejected: done.append(rows))
    thread.join()
    assert len(killed) == 3
    assert (made.complexes, made.shards) == (30_000, 30)
    lift_files([many], tmp_path / "whole", shard_rows=1000)
    assert contents(tmp_path / "s") == contents(tmp_path / "whole")


def test_no_scheduler(tables, tmp_path):
    start = time.monotonic()
    with pytest.raises(ClusterError, match="no Dask scheduler answers there"), open_pool(scheduler="tcp://127.0.0.1:9"):
        pass
    assert time.monotonic() - start < 30
    text = refused("lift", tables, "-o", tmp_path / "s", "--scheduler", "nonsense")
    assert "--scheduler nonsense" in text


def test_errors_of_tasks_come_back(pool):
    with pytest.raises(ZeroDivisionError):
        list(pool.map(divmod, [(4, 2), (1, 0)]))
    assert list(pool.map(divmod, ((i, 3) for i in range(50)))) == [divmod(i, 3) for i in range(50)]
