"""Intervals of every kind hold as often as they say, and are wide where errors are large."""

from dataclasses import replace

import pytest
import torch

from cwnet.data import read_table
from cwnet.errors import CwnetError
from cwnet.molecules import ModelError, MoleculeModel, Prediction, Settings, Targets, predict_table, train_table
from cwnet.molecules._uncertainty import KINDS, Conformal, ConformalQuantiles, MeanVariance
from tests.molecules.conftest import TINY

FEW_TREES = (*TINY, "trees.count=5")


def drawn(count, seed):
    """Molecules whose errors grow with what the networks and the spread say, which is off by a factor of three."""
    chance = torch.Generator().manual_seed(seed)
    sigma = 0.3 + 3 * torch.rand(count, 1, generator=chance).double()
    mean = torch.randn(count, 1, generator=chance).double()
    found = Prediction(mean, sigma / 6, {}, sigma / 3, None, sigma / 3, sigma / 3)
    return found, mean + sigma * torch.randn(count, 1, generator=chance).double(), sigma[:, 0]


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_as_many_values_are_held_as_promised_by_wide_and_narrow_ones(kind):
    fitted = kind.fit(*drawn(1_000, 0)[:2], ["a"])
    found, y, sigma = drawn(4_000, 1)
    for level in (0.8, 0.9, 0.95):
        low, high = fitted.interval(found, level)
        inside = ((low <= y) & (y <= high)).double()
        assert float(inside.mean()) == pytest.approx(level, abs=0.03)
        hard = sigma > 2
        assert float((high - low)[hard].mean()) > 1.4 * float((high - low)[~hard].mean())
        assert float(inside[hard].mean()) > level - 0.15
    assert fitted.usual(0.9)[0] == pytest.approx(float((high - low).median() / 2) * 0.84, rel=0.2)


def test_quantiles_reach_further_where_errors_do():
    chance = torch.Generator().manual_seed(0)

    def skewed(count):
        mean = torch.zeros(count, 1).double()
        off = torch.randn(count, 1, generator=chance).double()
        found = Prediction(mean, None, below=torch.ones_like(mean), above=4 * torch.ones_like(mean))
        return found, torch.where(off < 0, off, 4 * off)

    fitted = ConformalQuantiles.fit(*skewed(1_000), ["a"])
    found, y = skewed(4_000)
    low, high = fitted.interval(found, 0.9)
    assert float(((low <= y) & (y <= high)).double().mean()) == pytest.approx(0.9, abs=0.03)
    assert float(high[0] / -low[0]) == pytest.approx(4)
    assert float((y < low).double().mean()) == pytest.approx(float((y > high).double().mean()), abs=0.03)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_gaps_and_few_molecules(kind):
    found, y, _ = drawn(60, 0)
    holed = torch.where(torch.arange(60)[:, None] % 2 == 0, y, torch.nan)
    fitted = kind.fit(found, holed, ["a"])
    some = [part[::2] if isinstance(part, torch.Tensor) else part for part in vars(found).values()]
    alone = kind.fit(Prediction(*some), y[::2], ["a"])
    if kind is not Conformal:  # whose floor knows all molecules too
        assert fitted.factors(0.9).tolist() == pytest.approx(alone.factors(0.9).tolist(), rel=0.2)
    with pytest.raises(ModelError, match="between 0 and 1"):
        fitted.interval(found, 90)
    none = kind.fit(found, torch.where(torch.arange(60)[:, None] < 2, y, torch.nan), ["a"])
    with pytest.raises(ModelError, match=r"too few .*--interval 0"):
        none.interval(found, 0.9)


def test_a_width_is_at_least_a_tenth_of_the_usual_one():
    found, y, _ = drawn(100, 0)
    fitted = MeanVariance.fit(found, y, ["a"])
    sure = Prediction(found.mean, None, below=torch.zeros_like(found.mean), above=torch.zeros_like(found.mean))
    low, high = fitted.interval(sure, 0.9)
    assert torch.allclose((high - low) / 2, torch.tensor(fitted.usual(0.9)).double() / 10)


@pytest.mark.parametrize("kind", ["ensemble", "quantile", "mve"])
def test_a_model_of_each_kind_is_kept_whole(kind, numbers, molecules, tmp_path):
    table = read_table(numbers, "smiles", ["logP", "tpsa"])
    settings = Settings(ensemble=1, epochs=2, changes=FEW_TREES, uncertainty=kind)
    trained = train_table(table, tmp_path / "m", settings, device="cpu", progress=False)
    smiles = [s for s, _ in molecules[:20]]
    loaded = MoleculeModel.load(tmp_path / "m")
    a, b = trained.model.predict(smiles), loaded.predict(smiles)
    assert loaded.uncertainty.kind == kind
    assert a.mean.shape == (20, 2)
    for mine, theirs in zip(trained.model.interval(a, 0.8), loaded.interval(b, 0.8), strict=True):
        assert torch.equal(mine, theirs)
    for name in ("below", "above"):
        mine, theirs = getattr(a, name), getattr(b, name)
        assert (mine is None and theirs is None) if kind == "ensemble" else torch.equal(mine, theirs)
    assert set(trained.model.about["coverage"]["80%"]) == {"logP", "tpsa"}
    assert loaded.uncertainty.said in (tmp_path / "m" / "report.html").read_text()
    counts = predict_table(loaded, numbers, tmp_path / "out.csv", smiles_column="smiles", interval=0.8)
    assert counts.predicted == len(molecules)


def test_damaged_intervals_are_refused(regression, tmp_path):
    found, y, _ = drawn(50, 0)
    names = regression.model.targets.names
    both = Prediction(*(part.repeat(1, 2) if isinstance(part, torch.Tensor) else part for part in vars(found).values()))
    good = KINDS["ensemble"].fit(both, y.repeat(1, 2), names)
    for broken in (
        replace(good, factor=-good.factor), replace(good, factor=good.factor[:1]),
        replace(good, usual_width=good.usual_width * 0), KINDS["mve"].fit(both, y.repeat(1, 2), names),
        Conformal(names, torch.zeros(3, 1)), ConformalQuantiles(names, good.usual_width, torch.zeros(3, 1)),
    ):  # fmt: skip
        replace(regression.model, uncertainty=broken).save(tmp_path)
        with pytest.raises(ModelError, match="damaged"):
            MoleculeModel.load(tmp_path)
    replace(regression.model, uncertainty=good).save(tmp_path)
    assert torch.equal(MoleculeModel.load(tmp_path).uncertainty.factor, good.factor)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"uncertainty": "bayes"}, "--uncertainty bayes: write one of conformal, ensemble, quantile, mve"),
        ({"uncertainty": "mve", "network": False}, "leave out --no-network"),
        ({"uncertainty": "ensemble", "trees": False, "ensemble": 1}, "a single network: train several"),
    ],
    ids=["unknown", "no network", "one network"],
)
def test_kinds_that_a_model_can_not_give(given, message):
    with pytest.raises(CwnetError, match=message):
        Settings(**given)


def test_a_loss_of_ones_own_does_not_go_with_quantiles(numbers, tmp_path):
    settings = Settings(epochs=1, trees=False, changes=(*TINY, "train.loss=mse"), uncertainty="quantile")
    with pytest.raises(CwnetError, match=r"quantile needs train\.loss=pinball, and not mse"):
        train_table(read_table(numbers, "smiles", "logP"), tmp_path, settings, device="cpu", progress=False)


def test_targets_of_networks_that_say_how_sure_they_are():
    targets = Targets("regression", ("a", "b"), (), (1.0, 2.0), (10.0, 1.0), "pinball")
    assert (targets.outputs, targets.network_outputs) == (2, 6)
    outputs = torch.tensor([[0.0, 1.0, -1.0, 0.5, 2.0, 4.0]])
    assert targets.decode(outputs).tolist() == [[1.0, 3.0]]
    below, above = targets.margins([outputs, outputs])
    assert (below.tolist(), above.tolist()) == ([[10.0, 0.5]], [[20.0, 3.0]])
    assert Targets.from_dict(targets.to_dict()) == targets
    assert "head" not in replace(targets, head=None).to_dict()
    for wrong in ({"head": "nothing"}, {"task": "binary", "head": "pinball"}):
        with pytest.raises(ValueError, match="no targets"):
            Targets.from_dict({**targets.to_dict(), **wrong})
