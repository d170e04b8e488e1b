"""What is searched, how candidates are drawn, and settings as a file."""

import pytest

pytest.importorskip("rdkit")

from cwnet.molecules import Settings
from cwnet.molecules._settings_file import settings_to_toml, with_recipe
from cwnet.molecules._targets import Targets
from cwnet.molecules._train import default_recipe, tree_plan
from cwnet.molecules._tune import all_knobs, draw

NUMBERS = Targets("regression", ("y",), (), (0.0,), (1.0,))
CLASSES = Targets("binary", ("y",), (("0", "1"),))


@pytest.mark.parametrize("targets", [NUMBERS, CLASSES], ids=["numbers", "classes"])
def test_the_first_value_of_a_knob_is_the_default(targets):
    settings = Settings()
    plan, recipe = tree_plan(settings), default_recipe(targets, 100, settings)
    for knob in all_knobs(targets):
        section, _, name = knob.key.rpartition(".")
        place = {"": settings, "trees": plan}.get(section) or getattr(recipe, section)
        assert getattr(place, name) == knob.values[0], knob
        assert len(set(knob.values)) == len(knob.values) > 1


def test_more_candidates_begin_like_fewer():
    knobs = all_knobs(NUMBERS)
    many = draw(knobs, 7, 50)
    assert many[0] == {}
    assert many[:20] == draw(knobs, 7, 20)
    assert many[:20] != draw(knobs, 8, 20)
    assert len({str(sorted(wish.items())) for wish in many}) == 50
    assert all(wish[k.name] in k.values[1:] for wish in many for k in knobs if k.name in wish)
    assert not any({"count", "tries"} & set(wish) for wish in many if wish.get("trees") is False)


def test_a_small_space_is_drawn_whole():
    knobs = [knob for knob in all_knobs(NUMBERS) if knob.name in ("norm", "trees")]
    assert sorted(map(str, draw(knobs, 0, 20))) == sorted(
        map(str, [{}, {"norm": "layer"}, {"trees": False}, {"norm": "layer", "trees": False}])
    )


def test_settings_come_back_from_their_file(tmp_path):
    settings = Settings(
        ensemble=5, epochs=40, balance=True, lifting="rings:6", trees=False,
        changes=("model.width=32", "model.norm=layer", "model.width=128", "train.lr=0.0005", "trees.descriptors=false"),
    )  # fmt: skip
    path = tmp_path / "recipe.toml"
    path.write_text(settings_to_toml(settings))
    found = with_recipe(Settings(split="scaffold", seed=3), path)
    assert (found.split, found.seed) == ("scaffold", 3)
    assert [getattr(found, name) for name in ("ensemble", "epochs", "balance", "lifting", "trees", "network")] == [
        5, 40, True, "rings:6", False, True
    ]  # fmt: skip
    assert default_recipe(NUMBERS, 100, found).to_dict() == default_recipe(NUMBERS, 100, settings.__class__(
        **{**settings.__dict__, "seed": 3}
    )).to_dict()  # fmt: skip
    assert tree_plan(found) == tree_plan(settings)


def test_what_is_typed_holds(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text('ensemble = 5\nepochs = 9\n[set]\n"model.width" = 32\n')
    found = with_recipe(Settings(ensemble=3, epochs=4, changes=("model.width=16",)), path, ["ensemble"])
    assert (found.ensemble, found.epochs) == (3, 4)
    assert default_recipe(NUMBERS, 100, found).model.width == 16
