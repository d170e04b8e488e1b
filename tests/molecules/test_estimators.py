"""The estimators within scikit-learn."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score

from cwnet.errors import CwnetError, GraphError
from cwnet.molecules import CINClassifier, CINRegressor

SMALL = {"width": 8, "layers": 1, "epochs": 2, "device": "cpu"}


@pytest.fixture(scope="module")
def data(molecules):
    smiles = np.array([s for s, _ in molecules[:60]])
    return smiles, np.array([float(len(s)) for s in smiles]), np.where([("N" in s) for s in smiles], "yes", "no")


def test_numbers(data):
    smiles, y, _ = data
    model = CINRegressor(width=16, layers=1, epochs=100, batch_size=8, device="cpu").fit(smiles, y)
    assert model.predict(smiles).shape == (60,)
    assert model.score(smiles, y) > 0.8
    same = clone(model).fit(list(smiles), list(y))
    assert np.array_equal(same.predict(smiles), model.predict(smiles))
    both = CINRegressor(**SMALL).fit(smiles[:, None], np.stack([y, np.where(y > 20, np.nan, y)], 1))
    assert both.predict(smiles).shape == (60, 2)


def test_classes(data):
    smiles, _, y = data
    model = CINClassifier(**SMALL, class_weight="balanced").fit(smiles, y)
    assert model.classes_.tolist() == ["no", "yes"]
    p = model.predict_proba(smiles)
    assert p.shape == (60, 2)
    assert np.allclose(p.sum(1), 1)
    assert (model.predict(smiles) == model.classes_[p.argmax(1)]).all()
    assert 0 <= model.score(smiles, y) <= 1
    three = CINClassifier(**SMALL).fit(smiles, np.arange(60) % 3)
    assert three.predict_proba(smiles).shape == (60, 3)
    assert set(three.predict(smiles)) <= {0, 1, 2}


def test_cross_validation_and_search(data):
    smiles, y, labels = data
    assert cross_val_score(CINRegressor(**SMALL), smiles, y, cv=2).shape == (2,)
    search = GridSearchCV(CINClassifier(**SMALL), {"width": [4, 8]}, cv=2).fit(smiles, labels)
    assert search.best_params_["width"] in (4, 8)


def test_parameters():
    model = CINClassifier(width=32, class_weight="balanced")
    assert model.get_params()["width"] == 32
    assert model.set_params(layers=2).layers == 2
    assert "width=32" in repr(model)


def test_mistakes(data):
    smiles, y, _ = data
    with pytest.raises(NotFittedError):
        CINRegressor().predict(smiles)
    with pytest.raises(ValueError, match="60 SMILES and 59 targets"):
        CINRegressor(**SMALL).fit(smiles, y[1:])
    with pytest.raises(CwnetError, match="at least 10 are needed"):
        CINRegressor(**SMALL).fit(smiles[:5], y[:5])
    with pytest.raises(GraphError, match="graph 3: SMILES 'C\\(' does not parse"):
        CINRegressor(**SMALL).fit([*smiles[:3], "C(", *smiles[4:]], y)
    with pytest.raises(CwnetError, match="one class only"):
        CINClassifier(**SMALL).fit(smiles, ["a"] * 60)
    with pytest.raises(TypeError, match="molecule 1 is 7"):
        CINRegressor(**SMALL).fit(["C", 7], [1, 2])
    with pytest.raises(ValueError, match="'some' is not 'balanced'"):
        CINClassifier(**SMALL, class_weight="some").fit(smiles, y)
    with pytest.raises(ValueError, match="finite numbers"):
        CINRegressor(**SMALL).fit(smiles, np.where(y > 20, np.inf, y))
