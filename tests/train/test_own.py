"""Parts of one's own: from a recipe or from Python, trained, written down truthfully, and never imported by a file."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import cwnet
from cwnet import nn
from cwnet.nn import from_config, to_config
from cwnet.train import Metric, RecipeError, fit, load_model, load_recipe
from tests.train import tiny

CODE = '''
import torch
from cwnet import nn
from cwnet.nn.functional import boundary_sum, pooled, upper_sum


class HalfConv(nn.Module):
    """Half of a cell, and half of what it hears."""

    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)

    def forward(self, x, cells):
        heard = [upper_sum(x[0], None, cells, 0), *(boundary_sum(x[d - 1], cells, d) for d in range(1, len(x)))]
        return [torch.relu((h + self.linear(m)) / 2) for h, m in zip(x, heard)]


class FirstReadout(nn.Module):
    """Sums of vertices alone."""

    def forward(self, x, batch):
        return pooled(x[:1], batch.cell_ptr[:1], "sum")[0]


class Ones(nn.Module):
    """Ones for all cells, wherever they are."""

    def __init__(self, width):
        super().__init__()
        self.width = width
        self.scale = torch.nn.Parameter(torch.ones(width))

    def forward(self, cells):
        return [self.scale.expand(n, -1) for n in cells.num_cells]


def make(dataset, width=4):
    return nn.CIN(Ones(width), [HalfConv(width)], FirstReadout(), nn.Head(width, dataset.outputs))


def triangles(graph):
    edges = {frozenset(edge) for edge in graph.cells(1)}
    n = graph.num_cells[0]
    return [
        (a, b, c) for a in range(n) for b in range(a) for c in range(b)
        if {frozenset((a, b)), frozenset((b, c)), frozenset((a, c))} <= edges
    ]
'''

TREE = """
[data]
name = "tiny"

[model]
class = "CIN"

[model.encoder]
class = "{module}:Ones"
width = 4

[[model.convs]]
class = "{module}:HalfConv"
width = 4

[[model.convs]]
class = "Residual"

[model.convs.conv]
class = "CINConv"
width_in = 4

[model.readout]
class = "{module}:FirstReadout"

[model.head]
class = "Head"
width = 4

[train]
epochs = 2
batch_size = 8
"""


@pytest.fixture
def outside(tmp_path):
    """A module beside a recipe, known to no one; forgotten when the test is over."""
    name = f"outside_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text(CODE)
    yield name
    sys.modules.pop(name, None)
    for known in [key for key in nn.Module.registry if key.startswith(f"{name}:")]:
        del nn.Module.registry[known]


def test_a_layer_a_readout_and_an_encoder_from_outside(tmp_path, outside):
    """All three are named in a recipe; no file of the package knows of them."""
    path = tmp_path / "own.toml"
    path.write_text(TREE.format(module=outside))
    [result] = fit(load_recipe(path), dataset=tiny.dataset(), out=tmp_path / "run", device="cpu", progress=False)
    assert result.epochs == 2
    assert type(result.model.convs[0]).__name__ == "HalfConv"
    body = json.loads((tmp_path / "run" / "run.json").read_text())
    assert body["model"]["encoder"]["class"] == f"{outside}:Ones"
    assert body["recipe"]["model"]["head"]["outputs"] == 1  # what the data decides is filled in
    again = load_recipe(tmp_path / "run" / "recipe.toml")
    assert again.model == load_recipe(path, ["model.head.outputs=1"]).model
    assert tiny.same_weights(load_model(tmp_path / "run"), result.model)
    assert not any("outside" in place for place in sys.path)


def test_a_factory(tmp_path, outside):
    path = tmp_path / "own.toml"
    path.write_text(f'[data]\nname = "tiny"\n[model]\nfactory = "{outside}:make"\nwidth = 6\n[train]\nepochs = 1\n')
    [result] = fit(load_recipe(path), dataset=tiny.dataset(), out=tmp_path / "run", device="cpu", progress=False)
    assert result.model.head.linear.in_features == 6
    assert load_recipe(tmp_path / "run" / "recipe.toml").model.factory == f"{outside}:make"


def test_resuming_a_tree(tmp_path, outside):
    path = tmp_path / "own.toml"
    path.write_text(TREE.format(module=outside))
    options = {"dataset": tiny.dataset(), "device": "cpu", "progress": False}
    [whole] = fit(load_recipe(path, ["train.epochs=3"]), **options)
    fit(load_recipe(path), out=tmp_path / "run", **options)
    [resumed] = fit(load_recipe(path, ["train.epochs=3"]), out=tmp_path / "run", resume=True, **options)
    assert tiny.same_weights(whole.model, resumed.model)


def test_a_lifting_from_outside(tmp_path, outside, monkeypatch):
    from cwnet.train._data import load_data

    monkeypatch.setenv("CWNET_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "own.toml"
    options = "{ k = 3, num_train = 4, num_val = 2, num_test = 2 }"
    path.write_text(f'[data]\nname = "ring-transfer"\nlifting = "{outside}:triangles"\noptions = {options}\n')
    recipe = load_recipe(path)
    assert load_data(recipe.data, recipe.folder).store.num_cells[2] == 8


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere_at_all:make", "there is no module 'nowhere_at_all' on the path or in"),
        ("json:nothing", "has no 'nothing'"),
        ("json.dumps", "name a module and what is in it"),
    ],
)
def test_code_that_is_not_there(tmp_path, name, message):
    path = tmp_path / "own.toml"
    path.write_text(f'[data]\nname = "tiny"\n[model]\nfactory = "{name}"\n')
    with pytest.raises(RecipeError, match=message):
        fit(load_recipe(path), dataset=tiny.dataset(), device="cpu", progress=False)


def test_a_class_that_is_no_module(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text('[data]\nname = "tiny"\n[model]\nclass = "collections:OrderedDict"\n')
    with pytest.raises(
        RecipeError, match=r"model\.class = 'collections:OrderedDict': it must be a class that inherits"
    ):
        fit(load_recipe(path), dataset=tiny.dataset(), device="cpu", progress=False)


# ------------------------------------------------------------------------------------------------ what is not trusted


@pytest.mark.parametrize("name", ["os:system", "outside_evil:Layer", "Perceiver", "builtins:eval"])
def test_a_configuration_imports_nothing(name, tmp_path, monkeypatch):
    """A model folder or a checkpoint that names code, or any part that is not known, is refused."""
    (tmp_path / "outside_evil.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w').close()")
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    config = to_config(nn.cin(nn.models.molecule_encoder(4), 4, 1))
    config["convs"][0] = {"class": name, "width": 4}
    with pytest.raises(ValueError, match=f"unknown module '{name}'"):
        from_config(config)
    assert not (tmp_path / "imported").exists()
    assert {m for m in set(sys.modules) - before if "evil" in m} == set()


@pytest.mark.parametrize("name", ["os:system", "outside_evil:Layer"])
def test_a_checkpoint_imports_nothing(name, tmp_path, monkeypatch):
    from cwnet.train import _checkpoint

    (tmp_path / "outside_evil.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w').close()")
    monkeypatch.syspath_prepend(tmp_path)
    fit(tiny.recipe(train={"epochs": 1}), dataset=tiny.dataset(), out=tmp_path / "run", device="cpu", progress=False)
    found = _checkpoint.latest(tmp_path / "run")
    body = {k: v for k, v in found.body.items() if k not in ("tensors", "format", "version")}
    body["model"]["convs"][0]["class"] = name
    body["recipe"]["model"] = {"factory": name}
    _checkpoint.write(tmp_path / "run", found.tensors, body, 1)
    with pytest.raises(ValueError, match=f"unknown module '{name}'"):
        load_model(tmp_path / "run")
    assert not (tmp_path / "imported").exists()


@pytest.mark.parametrize("name", ["../elsewhere.safetensors", "/dev/zero", ".."])
def test_a_checkpoint_leads_nowhere_else(name, tmp_path):
    from cwnet.train import CheckpointError, _checkpoint

    fit(tiny.recipe(train={"epochs": 1}), dataset=tiny.dataset(), out=tmp_path / "run", device="cpu", progress=False)
    path = _checkpoint.newest(tmp_path / "run")
    body = {k: v for k, v in json.loads(path.read_text()).items() if k != "hash"}
    body["tensors"]["file"] = name
    path.write_text(json.dumps({**body, "hash": _checkpoint._digest_of(body)}))
    with pytest.warns(_checkpoint.CheckpointWarning, match="names tensors elsewhere"), pytest.raises(CheckpointError):
        load_model(tmp_path / "run")


def test_a_run_may_be_named_like_a_formula(tmp_path):
    recipe = replace(tiny.recipe(train={"epochs": 1}), name=r"$\foo$")
    fit(recipe, dataset=tiny.dataset(), out=tmp_path / "run", device="cpu", progress=False)
    assert (tmp_path / "run" / "curves.png").stat().st_size


def test_a_model_folder_imports_nothing(tmp_path, monkeypatch):
    import shutil

    from cwnet.molecules import MoleculeModel
    from cwnet.molecules import _builtin as builtin

    (tmp_path / "outside_evil.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w').close()")
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "model"
    shutil.copytree(Path(builtin.__file__).parent / "models" / "zinc", folder)
    text = (folder / "model.json").read_text()
    assert '"CINConv"' in text
    (folder / "model.json").write_text(text.replace('"CINConv"', '"outside_evil:Layer"'))
    with pytest.raises(cwnet.CwnetError):
        MoleculeModel.load(folder)
    assert not (tmp_path / "imported").exists()


# ------------------------------------------------------------------------------------------------ from Python


class Sums(nn.Module):
    """The number of cells of each dimension, weighed."""

    def __init__(self, outputs=1):
        super().__init__()
        self.linear = torch.nn.Linear(3, outputs)

    def forward(self, batch):
        return self.linear(torch.stack([ptr.diff() for ptr in batch.cell_ptr], 1).float())


def train(model=None, out=None, **options):
    recipe = tiny.recipe(train={"epochs": 3})
    [result] = fit(recipe, dataset=tiny.dataset(), device="cpu", progress=False, model=model, out=out, **options)
    return result


def test_what_is_written_is_what_was_trained(tmp_path):
    train(lambda dataset: Sums(), tmp_path / "run")
    for recipe in (
        load_recipe(tmp_path / "run" / "recipe.toml").to_dict(),
        json.loads((tmp_path / "run" / "run.json").read_text())["recipe"],
    ):
        assert recipe["model"] == {"class": f"{Sums.__module__}:Sums", "outputs": 1}
        assert "Given in Python: model" in recipe["notes"]


def test_a_plain_torch_module_is_trained_but_not_kept(tmp_path):
    class Plain(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Sums()

        def forward(self, batch):
            return self.inner(batch)

    assert train(lambda dataset: Plain()).epochs == 3
    with pytest.raises(
        RecipeError, match=r"a Plain can not be written down.* inherit from cwnet\.nn\.Module.* leave out"
    ):
        train(lambda dataset: Plain(), tmp_path / "run")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Sums(), "model is a Sums, not a function that makes one: give model=lambda dataset: Sums"),
        (lambda dataset: Sums(2), r"the model gives \(2, 2\) for 2 complexes, and tiny needs \[2, 1\]: end it with"),
        (lambda dataset: None, "the model is None: what makes it must return"),
    ],
    ids=["instance", "shape", "none"],
)
def test_models_that_are_none(model, message):
    with pytest.raises(RecipeError, match=message):
        train(model)


def test_a_batch_of_pyg():
    torch_geometric = pytest.importorskip("torch_geometric")
    data = torch_geometric.data.Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
    batch = torch_geometric.data.Batch.from_data_list([data])
    with pytest.raises(TypeError, match=r"takes a CellComplex or a ComplexBatch, not \w*Batch: lift graphs first"):
        nn.cin(nn.models.molecule_encoder(4), 4, 1)(batch)


def test_an_optimiser_of_ones_own(tmp_path):
    def sgd(parameters):
        return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)

    whole = train(optimiser=sgd)
    assert not tiny.same_weights(whole.model, train().model)
    recipe = tiny.recipe(train={"epochs": 2})
    options = {"dataset": tiny.dataset(), "device": "cpu", "progress": False, "out": tmp_path / "run"}
    fit(recipe, optimiser=sgd, **options)
    with pytest.raises(cwnet.CwnetError, match="own"):
        fit(tiny.recipe(train={"epochs": 3}), resume=True, **options)
    [resumed] = fit(tiny.recipe(train={"epochs": 3}), optimiser=sgd, resume=True, **options)
    assert tiny.same_weights(resumed.model, whole.model)


def test_a_loss_of_ones_own_may_be_one_we_have():
    own = train(loss=lambda p, y: (p - y).abs())
    assert tiny.same_weights(own.model, train().model)


def test_a_loss_of_ones_own_leaves_out_what_is_missing():
    from cwnet.train._objectives import Objective

    prediction = torch.randn(4, 2, requires_grad=True)
    target = torch.tensor([[1.0, 2], [float("nan"), 0], [3, 4], [0, float("nan")]])
    ours, known = Objective(lambda p, y: (p - y).square()), Objective("mse")
    for a, b in zip(ours.terms(prediction, target), known.terms(prediction, target), strict=True):
        assert torch.equal(a, b)
    total, count = Objective(lambda p, y: (p - y).square().mean(1)).terms(prediction, target)
    assert count == 2
    total.backward()
    assert torch.isfinite(prediction.grad).all()
    classes = torch.tensor([1, -1, 0, 1])
    own = Objective(lambda p, y: torch.nn.functional.cross_entropy(p, y, reduction="none"))
    for a, b in zip(own.terms(prediction, classes), Objective("cross-entropy").terms(prediction, classes), strict=True):
        torch.testing.assert_close(a, b)


def test_a_loss_that_gives_one_number():
    with pytest.raises(RecipeError, match=r"the loss gives \(\) for 4 rows.*reduction='none'"):
        train(loss=lambda p, y: (p - y).abs().mean())


def test_a_metric_of_ones_own(tmp_path):
    metric = Metric("largest", False, lambda y, p: abs(y - p).max())
    result = train(metric=metric, out=tmp_path / "run")
    assert result.metric == "largest"
    truth = tiny.dataset().store.y[list(tiny.TEST)]
    assert result.test == pytest.approx(float((truth - result.predictions).abs().max()), rel=1e-5)
    with pytest.raises(RecipeError, match=r"metric must be a cwnet\.train\.Metric"):
        train(metric=lambda y, p: 0.0)


def test_a_part_of_the_data():
    [result] = fit(
        tiny.recipe(data={"limit": 5}, train={"epochs": 1}), dataset=tiny.dataset(), device="cpu", progress=False
    )
    assert len(result.predictions) == 5
    with pytest.raises(RecipeError, match=r"data\.limit = 0: it must be at least 1"):
        tiny.recipe(data={"limit": 0})


def test_the_old_key_kind_means_what_it_did():
    old = {"kind": "ring-transfer", "width": 8, "layers": 2, "norm": "batch", "edges": "vertices"}
    model = tiny.recipe(model=old).model
    assert (model.preset, model.norm, model.edges, model.cells, model.width_in) == ("cin", "none", "zeros", 0, "raw")
    assert tiny.recipe(model={"kind": "cin++"}).model.preset == "cin++"
    assert tiny.recipe(model={"preset": "steady"}).model.norm == "capped"
    with pytest.raises(RecipeError, match=r"there is no such preset\. Did you mean 'cin'"):
        tiny.recipe(model={"preset": "cinn"})
    with pytest.raises(RecipeError, match="a model is one of a preset, a class and a factory"):
        tiny.recipe(model={"preset": "cin", "factory": "a:b"})
