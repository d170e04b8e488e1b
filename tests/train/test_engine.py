"""Which models may be recorded: padding must be shown to be harmless, and where it is not, one line says why."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from cwnet import _torch, nn
from cwnet.nn.functional import boundary_sum, pooled, upper_sum
from cwnet.train import fit
from cwnet.train._engine import _obstacle, padding_matters
from cwnet.train._objectives import Objective
from tests.nn.padding import padded
from tests.train import tiny

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


class Net(nn.Module):
    """A small network of its own, with a part that may look at padding."""

    def __init__(self, part=None, dropout=0.0, drawn=0.0):
        super().__init__()
        self.start = torch.nn.Linear(1, 8)
        self.part = torch.nn.Identity() if part is None else part
        self.end = torch.nn.Linear(8, 1)
        self.dropout, self.drawn = torch.nn.Dropout(dropout), drawn

    def forward(self, batch):
        v = self.start(batch.x[0].float())
        v = torch.relu(v + upper_sum(v, None, batch, 0))
        rings = boundary_sum(boundary_sum(v, batch, 1), batch, 2)
        v, rings = (self.dropout(F.dropout(self.part(h), self.drawn, self.training)) for h in (v, rings))
        return self.end(pooled([v, rings], [batch.cell_ptr[0], batch.cell_ptr[2]], "mean").sum(0))


class Counts(nn.Module):
    """Divides by the number of cells, padding included: in evaluation too."""

    def forward(self, h):
        return h / h.shape[0] ** 0.5


class Norm(nn.Module):
    """PyTorch's own norm counts padding as well."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(8)

    def forward(self, h):
        return self.norm(h)


class Peek(nn.Module):
    """Asks the device for a value."""

    def forward(self, h):
        return h if float(h.detach().abs().sum()) > -1 else -h


def compared(model):
    batch = tiny.dataset().store.batch(range(12))
    wide = padded(batch, extra=(9, 9, 9))
    wide = replace(wide, y=torch.cat([batch.y, batch.y.new_full((2, 1), torch.nan)]))
    wide._incidences.update(padded(batch, extra=(9, 9, 9))._incidences)
    wide._hasse.update(padded(batch, extra=(9, 9, 9))._hasse)
    torch.manual_seed(0)
    return padding_matters(model, Objective("l1"), batch, wide, len(batch))


class TestPadding:
    def test_a_safe_model(self):
        model = Net(dropout=0.5)
        before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        assert compared(model) is None
        assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
        assert all(part.training for part in model.modules())
        assert all(p.grad is None for p in model.parameters())

    def test_ours(self):
        encoder = nn.models.molecule_encoder(8, (4,), (3,))
        assert compared(nn.cin(encoder, 8, 2, dropout=0.3)) is None
        assert compared(nn.steady_cin(encoder, 8, 2)) is None

    def test_a_model_that_counts_padding(self):
        assert "padding changes its outputs in evaluation by" in compared(Net(Counts()))

    def test_a_norm_that_counts_padding(self):
        """In evaluation nothing is to be seen of it."""
        assert "padding changes its outputs in training by" in compared(Net(Norm()))
        assert "cells.mask(d)" in compared(Net(Norm()))

    def test_running_averages_count(self):
        class Follows(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("mean", torch.zeros(8))

            def forward(self, h):
                if self.training:
                    self.mean.lerp_(h.detach().mean(0), 0.1)
                return h

        assert "its running averages in training" in compared(Net(Follows()))

    def test_random_numbers_of_its_own(self):
        assert "draws random numbers by other means than torch.nn.Dropout" in compared(Net(drawn=0.5))


def test_a_line_says_where_pytorch_is_too_old(monkeypatch):
    monkeypatch.delenv("CWNET_KERNELS", raising=False)
    monkeypatch.setattr(_torch, "NO_KERNELS", "the kernels for GPUs need PyTorch 2.11, and this is 2.3.0")
    store, train = tiny.dataset().store, tiny.recipe().train
    assert _obstacle(store, train) == _torch.NO_KERNELS
    monkeypatch.setattr(_torch, "NO_KERNELS", None)
    assert _obstacle(store, train) is None


# ------------------------------------------------------------------------------------------------ on a GPU


def trained(device, make, **options):
    recipe = tiny.recipe(train={"epochs": 3, "batch_size": 14, "lr": 1e-3})
    [result] = fit(recipe, dataset=tiny.dataset(), device=device, progress=False, model=make, **options)
    return result


def engine(make, **options):
    """What trained it, and that it came out as on a CPU."""
    import json
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        there = trained("cuda", make, out=Path(folder, "run"), **options)
        found = json.loads(Path(folder, "run", "run.json").read_text())["engine"]
    here = trained("cpu", make, **options)
    for a, b in zip(there.history, here.history, strict=True):
        assert a["loss"] == pytest.approx(b["loss"], rel=2e-3)
    torch.testing.assert_close(there.predictions, here.predictions, rtol=1e-2, atol=1e-2)
    return found


@needs_gpu
def test_a_model_of_ones_own_is_recorded():
    assert engine(lambda dataset: Net())["kind"] == "CUDA graphs"


@needs_gpu
@pytest.mark.parametrize(
    ("part", "why"),
    [
        (Counts, "padding changes its outputs"),
        (Norm, "padding changes"),
        (Peek, "asks the device for a value"),
    ],
    ids=["counts", "norm", "peek"],
)
def test_a_model_that_can_not_be_recorded_goes_on_eagerly(part, why):
    found = engine(lambda dataset: Net(part()))
    assert found["kind"] == "eager"
    assert why in found["why"]
    # What was tried out has spoilt nothing for those who come after.
    assert engine(lambda dataset: Net())["kind"] == "CUDA graphs"


@needs_gpu
@pytest.mark.parametrize(
    "optimiser",
    [
        lambda p: torch.optim.AdamW(p, 1e-3),
        lambda p: torch.optim.RMSprop(p, 1e-3),
        lambda p: torch.optim.SGD(p, 1e-3, momentum=0.9),
    ],
    ids=["adamw", "rmsprop", "sgd"],
)
def test_optimisers_of_ones_own(optimiser):
    found = engine(lambda dataset: Net(), optimiser=optimiser)
    assert found["kind"] == "CUDA graphs" or "why" in found


@needs_gpu
def test_a_loss_of_ones_own():
    assert engine(lambda dataset: Net(), loss=lambda p, y: (p - y).square())["kind"] == "CUDA graphs"
