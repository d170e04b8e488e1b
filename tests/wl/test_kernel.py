"""The kernel as scikit-learn's estimators take it."""

import networkx as nx
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC

import cwnet
from cwnet.wl import CWLKernel

GRAPHS = [nx.cycle_graph(n) for n in (3, 4, 5, 6, 7, 8)] + [nx.path_graph(n) for n in (3, 4, 5, 6, 7, 8)]
LABELS = [0] * 6 + [1] * 6


def estimators():
    return [SVC(kernel="linear"), LinearSVC(), RandomForestClassifier(10, random_state=0)]


@pytest.mark.parametrize("normalize", [False, True])
def test_estimators_take_the_counts(normalize):
    for estimator in estimators():
        pipeline = make_pipeline(CWLKernel(cwnet.Rings(8), rounds=1, normalize=normalize), estimator)
        assert pipeline.fit(GRAPHS, LABELS).score(GRAPHS, LABELS) == 1.0
    counts = CWLKernel(rounds=1, normalize=normalize).fit_transform(GRAPHS)
    assert counts.indices.dtype == counts.indptr.dtype == np.int32


def test_estimators_take_the_fingerprint():
    pytest.importorskip("rdkit")
    from cwnet.molecules import CWLFingerprint

    smiles, labels = ["CCO", "CCN", "CCC", "c1ccccc1", "c1ccncc1", "c1ccoc1"], [0, 0, 0, 1, 1, 1]
    for estimator in estimators():
        pipeline = make_pipeline(CWLFingerprint(size=256), estimator)
        assert pipeline.fit(smiles, labels).score(smiles, labels) == 1.0


def test_a_precomputed_kernel():
    kernel = CWLKernel(cwnet.Rings(8), rounds=1, normalize=True).fit(GRAPHS).kernel(GRAPHS)
    assert cross_val_score(SVC(kernel="precomputed"), kernel, LABELS, cv=3).mean() > 0.8
