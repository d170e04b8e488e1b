"""Columns as targets of a network."""

import pytest
import torch

from cwnet.errors import CwnetError
from cwnet.molecules import Targets

NAN = float("nan")


def test_numbers_are_scaled_by_the_training_part_and_back():
    y = torch.tensor([[1.0, 100.0], [3.0, NAN], [5.0, 300.0]])
    targets = Targets.of(["a", "b"], y, {}, "x.csv").scaled_by(y[:2])
    assert targets.task == "regression"
    assert targets.mean == (2.0, 100.0)
    assert targets.std == (1.0, 1.0)  # b has one value there
    coded = targets.encode(y)
    assert coded[0].tolist() == [-1.0, 0.0]
    assert bool(coded[1, 1].isnan())
    back = targets.decode(coded)
    assert torch.allclose(back[~y.isnan()], y[~y.isnan()].double())


def test_tasks_by_what_columns_hold():
    two = torch.tensor([[0.0], [1.0], [NAN]])
    assert Targets.of(["a"], two, {}, "").task == "binary"
    assert Targets.of(["a", "b"], two.expand(-1, 2), {}, "").task == "multilabel"
    three = Targets.of(["a"], torch.tensor([[0.0], [1.0], [2.0]]), {"a": ("x", "y", "z")}, "")
    assert (three.task, three.outputs, three.encode(torch.tensor([[2.0], [NAN]])).tolist()) == (
        "multiclass",
        3,
        [2, -1],
    )
    assert three.decode(torch.zeros(1, 3)).sum() == 1


def test_plain_data_and_back():
    targets = Targets("binary", ("a",), (("no", "yes"),))
    assert Targets.from_dict(targets.to_dict()) == targets


@pytest.mark.parametrize(
    ("values", "classes", "message"),
    [
        ([[NAN], [NAN]], {}, "x.csv: the column 'a' is empty"),
        ([[2.0], [2.0]], {}, "is the same everywhere, '2'"),
        ([[1.0], [1.0]], {}, "has one class only, '1'"),
        ([[0.0, 1.5], [1.0, 2.5]], {"a": ("n", "y")}, "'a' has classes and 'b' has numbers"),
        ([[0.0, 0.0], [1.0, 1.0], [2.0, 1.0]], {"a": ("p", "q", "r"), "b": ("n", "y")}, "'a' has 3 classes"),
    ],
    ids=["empty", "constant", "one-class", "mixed", "several-multiclass"],
)
def test_columns_that_can_not_be_learnt(values, classes, message):
    names = ["a", "b"][: len(values[0])]
    with pytest.raises(CwnetError, match=message):
        Targets.of(names, torch.tensor(values), classes, "x.csv")
