"""Losses in which rare classes weigh as much as frequent ones."""

import pytest
import torch

from cwnet.complexes import ComplexStore
from cwnet.train import RecipeError
from cwnet.train._objectives import Objective


def store(y):
    return ComplexStore.from_graphs([1] * len(y), [0] * len(y), torch.zeros(0, 2), y=y)


def test_two_classes_with_gaps():
    y = torch.tensor([[0.0], [0.0], [0.0], [1.0], [float("nan")]])
    objective = Objective("bce").balanced(store(y), 1)
    assert objective.weights.flatten().tolist() == pytest.approx([2 / 3, 2.0])
    total, weight = objective.terms(torch.zeros(5, 1), y)
    assert float(weight) == pytest.approx(4.0)
    assert float(total / weight) == pytest.approx(0.6931, abs=1e-4)
    up, _ = objective.terms(torch.tensor([[0.0], [0.0], [0.0], [5.0], [0.0]]), y)
    assert float(total - up) == pytest.approx(2 * (0.6931 - 0.0067), abs=1e-3)


def test_more_classes():
    y = torch.tensor([0, 0, 1, 2, -1])
    objective = Objective("cross-entropy").balanced(store(y), 3)
    assert objective.weights.tolist() == pytest.approx([2 / 3, 4 / 3, 4 / 3])
    logits = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    total, weight = objective.terms(logits, y)
    own = torch.nn.functional.cross_entropy(logits[:4], y[:4], objective.weights)
    assert float(total / weight) == pytest.approx(float(own), rel=1e-5)


def test_numbers_have_no_classes():
    with pytest.raises(RecipeError, match="is for classes, and the loss is 'l1'"):
        Objective("l1").balanced(store(torch.zeros(2, 1)), 1)
