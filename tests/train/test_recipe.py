"""Recipes: what is read is what was written, and mistakes are named."""

import string
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cwnet.train import Recipe, RecipeError, load_recipe
from cwnet.train._build import build_model, resolve
from cwnet.train._data import load_data
from cwnet.train._recipe import shipped
from tests.conftest import there

positive = st.floats(1e-6, 1e3)
shares = st.floats(0, 1)
texts = st.text(st.characters(codec="utf-8"), max_size=20)
names = st.text(string.ascii_letters + string.digits + " ._-/\"'\\", min_size=1, max_size=12)


def maybe(**keys):
    return st.fixed_dictionaries({}, optional=keys)


tables = st.fixed_dictionaries(
    {
        "data": st.fixed_dictionaries(
            {"name": names},
            optional={
                "lifting": st.sampled_from(["rings:6", "cliques:4|rings:6", "none"]),
                "options": st.dictionaries(names, st.one_of(st.integers(-5, 5), texts), max_size=3),
                "fold": st.one_of(st.just("all"), st.integers(0, 9)),
                "val": st.sampled_from(["own", "next"]),
            },
        ),
        "model": maybe(
            kind=st.sampled_from(["cin", "cin++", "gin-e"]),
            width=st.integers(1, 512),
            dim=st.integers(0, 3),
            shared=st.booleans(),
            dropout=shares,
            atoms=st.lists(st.integers(1, 120), min_size=1, max_size=9),
            edges=st.sampled_from(["features", "vertices", "constant", "zeros"]),
        ),
        "train": maybe(
            lr=positive,
            betas=st.tuples(st.floats(0, 0.99), st.floats(0, 0.9999)),
            clip=positive,
            ema=shares,
            epochs=st.integers(0, 5000),
            seeds=st.lists(st.integers(0, 99), min_size=1, max_size=5, unique=True),
            precision=st.sampled_from(["float32", "tf32", "bf16"]),
            report=st.sampled_from(["stop", "best"]),
        ),
        "schedule": maybe(kind=st.sampled_from(["step", "plateau", "cosine"]), factor=shares, warmup=st.integers(0, 9)),
        "stop": maybe(min_lr=positive, patience=st.integers(1, 99)),
    },
    optional={"name": texts, "notes": texts},
)


@given(tables)
def test_round_trip(tmp_path_factory, table):
    recipe = Recipe.from_dict(table)
    assert Recipe.from_dict(tomllib.loads(recipe.to_toml())) == recipe
    file = tmp_path_factory.mktemp("recipe") / "some.toml"
    file.write_text(recipe.to_toml(), encoding="utf-8")
    assert load_recipe(file) == recipe


def test_defaults_and_values():
    recipe = Recipe.from_dict({"data": {"name": "zinc"}, "train": {"lr": 1, "seeds": [3, 4]}})
    assert recipe.train.lr == 1.0
    assert isinstance(recipe.train.lr, float)
    assert recipe.train.seeds == (3, 4)
    assert recipe.model.preset == "cin"
    assert recipe.data.fold == "all"


@pytest.mark.parametrize(
    ("override", "section", "key", "value"),
    [
        ("train.lr=1e-4", "train", "lr", 1e-4),
        ("train.lr = 2", "train", "lr", 2.0),
        ("model.preset=cin++", "model", "preset", "cin++"),
        ("data.lifting=cliques:4|rings:6", "data", "lifting", "cliques:4|rings:6"),
        ("train.seeds=[1, 2]", "train", "seeds", (1, 2)),
        ("model.shared=false", "model", "shared", False),
        ("data.options.k=12", "data", "options", {"k": 12}),
        ('data.name="with spaces"', "data", "name", "with spaces"),
        ("train.clip=none", "train", "clip", None),
        ("stop.patience=none", "stop", "patience", None),
    ],
)
def test_overrides(override, section, key, value):
    recipe = Recipe.from_dict({"data": {"name": "zinc"}, "train": {"clip": 1.0}, "stop": {"patience": 3}})
    assert getattr(getattr(recipe.changed([override]), section), key) == value


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"train": {"lrr": 1}}, r"train\.lrr: there is no such key\. Did you mean train\.lr\?"),
        ({"train": {"batch-size": 1}}, r"Did you mean train\.batch_size\?"),
        ({"modle": {}}, r"modle: there is no such key\. Did you mean model\?"),
        ({"lr": 0.1}, r"Did you mean train\.lr\?"),
        ({"model": 3}, r"model = 3: it must be a table, \[model\]"),
        ({"train": {"lr": "fast"}}, r'train\.lr = "fast": it must be a number'),
        ({"train": {"lr": True}}, r"train\.lr = true: it must be a number"),
        ({"train": {"epochs": 1.5}}, r"train\.epochs = 1\.5: it must be a whole number"),
        ({"train": {"epochs": True}}, "it must be a whole number"),
        ({"train": {"seeds": 3}}, r"train\.seeds = 3: it must be a list of whole numbers"),
        ({"train": {"betas": [0.9]}}, "it must be a list of 2 numbers"),
        ({"train": {"precision": "int8"}}, 'one of "float32", "tf32", "bf16", "float64"'),
        ({"model": {"shared": 1}}, r"model\.shared = 1: it must be true or false"),
        ({"model": {"width": 0}}, r"model\.width = 0: it must be at least 1"),
        ({"model": {"dropout": 1.5}}, "it must be between 0 and 1"),
        ({"train": {"lr": -1.0}}, "at least 0"),
        ({"train": {"seeds": [1, 1]}}, "each once"),
        ({"train": {"seeds": []}}, "one or more"),
        ({"train": {"betas": [0.9, 1.0]}}, "below 1"),
        ({"train": {"batch_size": 4, "max_cells": 9}}, "one of the two"),
        ({"data": {"name": "zinc", "fold": "some"}}, r'data\.fold = "some": it must be a whole number or "all"'),
        ({"data": {"name": "zinc", "fold": -1}}, "counted from 0"),
        ({"data": {"name": "zinc", "options": {"k": 1.5}}}, "a table of whole numbers and texts"),
        ({"data": {}}, r"data\.name is missing"),
    ],
)
def test_bad_tables(table, message):
    with pytest.raises(RecipeError, match=message):
        Recipe.from_dict({"data": {"name": "zinc"}, **table})


def test_no_data():
    with pytest.raises(RecipeError, match=r"data\.name is missing"):
        Recipe.from_dict({})


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.lr", "write section.key=value"),
        ("=3", "write section.key=value"),
        ("train.lrr=3", r"Did you mean train\.lr\?"),
        ("train.lrr=none", r"Did you mean train\.lr\?"),
        ("train.lr.x=3", "has no keys below it|must be a number"),
        ("train.epochs=2020-01-01", "it must be a whole number"),
    ],
)
def test_bad_overrides(override, message):
    with pytest.raises(RecipeError, match=message):
        Recipe.from_dict({"data": {"name": "zinc"}}).changed([override])


def test_bad_files(tmp_path):
    with pytest.raises(RecipeError, match="Did you mean 'zinc-cin'"):
        load_recipe("zinc-cim")
    (tmp_path / "a.toml").write_text("[data\n")
    with pytest.raises(RecipeError, match=r"a\.toml is not TOML"):
        load_recipe(tmp_path / "a.toml")
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(RecipeError, match="not a text file"):
        load_recipe(str(tmp_path / "b.toml"))
    (tmp_path / "c.toml").write_text("[data]\nname = 'zinc'\n[train]\nlrr = 3\n")
    with pytest.raises(RecipeError, match=r"c\.toml: train\.lrr"):
        load_recipe(tmp_path / "c.toml")


def test_a_file_gives_its_name(tmp_path):
    (tmp_path / "mine.toml").write_text("[data]\nname = 'zinc'\n")
    assert load_recipe(tmp_path / "mine.toml").name == "mine"


class TestShipped:
    def test_there_are_some(self):
        assert {"zinc-cin", "zinc-cin-small", "zinc-gin-e", "zinc-no-rings", "nci"} <= set(shipped())

    @pytest.mark.parametrize("name", shipped())
    def test_loads(self, name):
        recipe = load_recipe(name)
        assert recipe.name == name
        assert recipe.notes

    @pytest.mark.parametrize(
        ("name", "parameters"),
        [("zinc-cin", 1_569_281), ("zinc-cin-small", 121_633), ("zinc-gin-e", None), ("zinc-no-rings", None)],
    )
    def test_builds(self, data, name, parameters, tmp_path, monkeypatch):
        there(data / "ZINC" / "zinc12k_train.npz")
        recipe = load_recipe(name)
        dataset = load_data(recipe.data)
        model = build_model(resolve(recipe, dataset).model, dataset)
        assert model(dataset.store.batch([0, 1, 2])).shape == (3, 1)
        if parameters:
            assert model.num_parameters() == parameters
