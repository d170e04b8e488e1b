"""What PyTorch and its friends do with models and batches; `docs/guides/pytorch.md` names these tests."""

import io

import pytest
import torch

import cwnet
from cwnet import nn
from cwnet.data import ComplexLoader

GRAPHS = [(n, [(i, (i + 1) % n) for i in range(n)]) for n in (3, 4, 5, 6)] * 4
STORE = cwnet.lift_many(GRAPHS, cwnet.Rings(6))


def network():
    torch.manual_seed(0)
    return nn.cin(nn.CellEncoder([nn.encoders.Constant(8) for _ in range(3)]), width=8, layers=2)


def test_double_precision():
    single, double = network(), network().double()
    batch = STORE.batch([0, 1, 2])
    out = double(batch.to(torch.float64))
    assert out.dtype == torch.float64
    torch.testing.assert_close(out.float(), single(batch), rtol=1e-4, atol=1e-5)


def test_autocast():
    model, batch = network(), STORE.batch([0, 1, 2])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(batch)
    out.float().sum().backward()
    torch.testing.assert_close(out.float(), network()(batch), rtol=0.1, atol=0.1)
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_weights_go_through_a_file():
    file = io.BytesIO()
    torch.save(network().state_dict(), file)
    file.seek(0)
    other = nn.from_config(nn.to_config(network()))
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(other(STORE.batch([1])), network()(STORE.batch([1])))


@pytest.mark.parametrize("workers", [0, 1])
def test_the_loader_of_pytorch(workers):
    loader = torch.utils.data.DataLoader(list(STORE), 4, collate_fn=cwnet.collate, num_workers=workers)
    ours = ComplexLoader(STORE, 4)
    assert [list(b) for b in loader] == [list(b) for b in ours]


def test_lightning():
    lightning = pytest.importorskip("lightning")
    seen = {"train": 0, "validation": 0}

    class Lit(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = network()

        def training_step(self, batch, number):
            seen["train"] += 1
            return self.model(batch).square().mean()

        def validation_step(self, batch, number):
            seen["validation"] += 1

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

    trainer = lightning.Trainer(
        max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        num_sanity_val_steps=1,
    )  # fmt: skip
    trainer.fit(Lit(), ComplexLoader(STORE, 2, shuffle=True), ComplexLoader(STORE, 4))
    assert seen == {"train": 16, "validation": 1 + 2 * 4}
