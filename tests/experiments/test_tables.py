"""The tables of trained networks: from recipes to runs, figures and pages."""

import json
from dataclasses import replace

import pytest

from cwnet.errors import CwnetError
from cwnet.experiments import _runs, tables
from cwnet.experiments._runs import read_runs, run_table
from cwnet.experiments._tables_page import compare, render, summary
from cwnet.experiments.tables import TABLES, Figure, Row, Small
from cwnet.train import load_recipe

TINY = ("data.options={ k = 6, num_train = 20, num_val = 5, num_test = 5 }", "train.epochs=2", "model.width=4")


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """A table of two rows that train within a second."""
    monkeypatch.setenv("CWNET_CACHE", str(tmp_path / "cache"))
    table = replace(
        TABLES["zinc"],
        rows={
            "a": Row("CIN", "ring-transfer-cin", (0.5, 0.1), TINY, remark="it was looked at"),
            "b": Row("GIN", "ring-transfer-gin", None, TINY),
        },
        percent=True,
        lower=False,
        small=Small(("a",), ("train.epochs=1",), 1, "one epoch of one row"),
    )
    monkeypatch.setitem(tables.TABLES, "tiny", table)
    return tmp_path


def go(folder, **options):
    run_table("tiny", results=folder / "results", work=folder / "work", device="cpu", progress=False, **options)


def test_a_blind_table_keeps_no_test_figures(tiny, monkeypatch):
    blind = replace(TABLES["tiny"], blind=True, figures=tables._unseen)
    monkeypatch.setitem(tables.TABLES, "tiny", blind)
    go(tiny)
    run, *_ = read_runs(tiny / "results", "tiny")["a"]
    assert not [key for key in run if key.startswith("test")]
    assert list(run["curve"]) == ["val"]
    page = render("tiny", tiny / "results", tiny / "pages").read_text()
    assert "validation at the stop" in page
    assert "Before the search" not in page
    rows = [{"what": "wider", "parameters": 1234, "mae": 0.5, "mae99": None}]
    (tiny / "results" / "tiny" / "probes.json").write_text(json.dumps({"note": "Single runs.", "rows": rows}))
    page = render("tiny", tiny / "results", tiny / "pages").read_text()
    assert "Single runs." in page
    assert "| wider | 1,234 | 0.5000 | – |" in page


def test_runs_side_by_side_give_the_same_figures(tiny):
    go(tiny / "one")
    go(tiny / "two", side_by_side=3)
    one, two = (read_runs(tiny / name / "results", "tiny") for name in ("one", "two"))
    assert [run["test"] for key in one for run in one[key]] == [run["test"] for key in two for run in two[key]]


class TestDefinitions:
    @pytest.mark.parametrize("name", TABLES)
    def test_recipes_are_there(self, name):
        table = TABLES[name]
        for key, row in table.rows.items():
            assert load_recipe(row.recipe, row.changes).data.name, key
        for key in table.small.rows:
            load_recipe(table.rows[key].recipe, (*table.rows[key].changes, *table.small.changes))

    def test_rings_have_the_layers_of_the_paper(self):
        rows = TABLES["ring-transfer"].rows
        found = {key: load_recipe(rows[key].recipe, rows[key].changes) for key in rows}
        assert {found[f"cin-{k}"].model.layers for k in range(10, 32, 2)} == {3}
        assert [found[f"gin-{k}"].model.layers for k in (10, 20, 30)] == [5, 10, 15]
        assert [found[f"gin-{k}"].data.options["k"] for k in (10, 20, 30)] == [10, 20, 30]

    def test_seeds_are_the_papers(self):
        seeds = {key: len(load_recipe(row.recipe).train.seeds) for key, row in TABLES["zinc"].rows.items()}
        assert seeds == {
            "cin": 10,
            "cin-small": 10,
            "cin-no-edges": 10,
            "cin-small-no-edges": 10,
            "cin++": 4,
            "steady": 10,
        }
        assert len(load_recipe("csl-cin").train.seeds) == 20


class TestFigures:
    def test_folds(self):
        """Epoch 1 is best over all folds. Without the first fold, whose best it is not, epoch 0 would be chosen."""
        curves = [[0.0, 1.0, 0.5], [0.7, 0.2, 0.1], [0.7, 0.5, 0.4]]
        runs = [{"fold": i, "curve": {"test": curve}} for i, curve in enumerate(curves)]
        found = TABLES["tud"].figures(runs)
        assert found["best epoch on the test folds"].mean == pytest.approx((1.0 + 0.2 + 0.5) / 3)
        # Fold 0 by folds 1 and 2: epoch 0. Fold 1 by 0 and 2: epoch 1. Fold 2 by 0 and 1: epoch 1.
        assert found["epoch chosen on the other folds"].mean == pytest.approx((0.0 + 0.2 + 0.5) / 3)
        assert found["last epoch"].mean == pytest.approx((0.5 + 0.1 + 0.4) / 3)

    def test_seeds_over_folds(self):
        values = {(0, 0): 1.0, (1, 0): 0.5, (0, 1): 0.0, (1, 1): 0.5}
        runs = [{"fold": f, "seed": s, "test_at_stop": v, "test_at_best": 1.0} for (f, s), v in values.items()]
        found = TABLES["csl"].figures(runs)["test at the stop"]
        assert (found.mean, found.least, found.most, found.n) == (0.5, 0.25, 0.75, 2)

    @pytest.mark.parametrize(
        ("mean", "verdict"), [(0.079, "within noise"), (0.0825, "within noise"), (0.07, "better"), (0.09, "worse")]
    )
    def test_verdicts(self, mean, verdict):
        table = TABLES["zinc"]
        figure = Figure(mean, 0.003, 10, mean, mean)
        apart, word = compare(table, table.rows["cin"], figure)
        assert (apart, word) == (pytest.approx(mean - 0.079), verdict)

    def test_without_a_spread_the_figure_must_be_met(self):
        table = TABLES["csl"]
        assert compare(table, table.rows["cin"], Figure(1.0, 0.0, 20, 1.0, 1.0))[1] == "within noise"
        assert compare(table, table.rows["cin"], Figure(0.99, 0.0, 20, 0.9, 1.0))[1] == "worse"
        assert compare(TABLES["zinc"], TABLES["zinc"].rows["cin++"], Figure(0.1, None, 1, 0.1, 0.1)) is None


class TestRuns:
    def test_every_run_is_kept_and_not_run_again(self, tiny, monkeypatch):
        go(tiny, seeds=2, command="cwnet reproduce tiny")
        runs = read_runs(tiny / "results", "tiny")
        assert {key: [run["seed"] for run in found] for key, found in runs.items()} == {"a": [0, 1], "b": [0, 1]}
        first = runs["a"][0]
        assert len(first["curve"]["val"]) == first["epochs"] == 2
        assert first["run"]["command"] == "cwnet reproduce tiny"
        assert first["run"]["hardware"]["device"] == "cpu"
        before = (tiny / "results/tiny/a/fold-0-seed-0.json").read_bytes()
        trained = []

        def note(recipes, wanted, **_):
            trained.extend((key, seed) for key in recipes for seed in range(3) if wanted(key, 0, seed))

        monkeypatch.setattr(_runs, "fit_many", note)
        go(tiny, seeds=3)
        assert trained == [("a", 2), ("b", 2)]
        assert (tiny / "results/tiny/a/fold-0-seed-0.json").read_bytes() == before

    def test_shares_are_the_whole(self, tiny):
        """Each run is in exactly one share, whatever the others have done before."""
        for number in (1, 2, 3):
            go(tiny, seeds=2, share=(number, 3))
            done = [run for found in read_runs(tiny / "results", "tiny").values() for run in found]
            assert len(done) == (2, 3, 4)[number - 1]

    def test_rows_and_small(self, tiny):
        go(tiny, rows=["b"], seeds=1)
        assert set(read_runs(tiny / "results", "tiny")) == {"b"}
        go(tiny / "s", small=True)
        runs = read_runs(tiny / "s/results", "tiny")
        assert [run["epochs"] for run in runs["a"]] == [1]

    def test_bad_input(self, tiny):
        with pytest.raises(CwnetError, match="--rows c: tiny has the rows a, b"):
            go(tiny, rows=["c"])
        go(tiny, rows=["a"], seeds=1)
        recipe = tiny / "results/tiny/a/recipe.json"
        recipe.write_text(
            json.dumps({**json.loads(recipe.read_text()), "model": {"kind": "ring-transfer", "width": 5}})
        )
        with pytest.raises(CwnetError, match=r"holds figures made with another model\.width"):
            go(tiny, rows=["a"], seeds=2)

    def test_the_page(self, tiny):
        with pytest.raises(CwnetError, match="there are no figures of tiny"):
            render("tiny", tiny / "results", tiny / "page")
        go(tiny, rows=["a"], seeds=2, command="cwnet reproduce tiny --seeds 2")
        text = render("tiny", tiny / "results", tiny / "page").read_text()
        mean = 50 * sum(run["test_at_stop"] for run in read_runs(tiny / "results", "tiny")["a"])
        assert f"| CIN | 50.0 ± 10.0 | {mean:.1f} ± " in text
        assert "Not run yet: GIN." in text
        assert "Not whole yet: CIN (2 of 5 runs)." in text
        assert "- CIN: it was looked at" in text
        assert "`cwnet reproduce tiny --seeds 2`: 2 runs on" in text
        assert (tiny / "page/tiny.png").stat().st_size > 5_000
        small = render("tiny", tiny / "results", tiny / "page", small=True).read_text()
        assert "This is the small version: one epoch of one row." in small

    def test_summary(self):
        run = {"test_at_stop": 0.079, "test_at_best": 0.079}
        assert summary("zinc", {"cin": [run]}) == "1 of 6 rows run: 1 within noise"
