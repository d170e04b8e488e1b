"""Butina's clusters and the choice of Kennard and Stone, from a whole table of distances."""

from __future__ import annotations

import numpy as np
from rdkit import DataStructs
from rdkit.Chem import rdFingerprintGenerator

from cwnet.chem._read import parse


def distances(smiles):
    """1 - Tanimoto similarity of all pairs of counted Morgan fingerprints, by RDKit; [molecules, molecules]."""
    make = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    prints = [make.GetCountFingerprint(parse(text)) for text in smiles]
    return 1 - np.array([DataStructs.BulkTanimotoSimilarity(one, prints) for one in prints]).astype(np.float32)


def butina(table, threshold):
    """The number of the cluster of each molecule."""
    n = len(table)
    near = [{j for j in range(n) if table[i, j] <= threshold + 1e-6} for i in range(n)]
    left, cluster, number = set(range(n)), [None] * n, 0
    for centre in sorted(range(n), key=lambda i: (-len(near[i]), i)):
        if centre in left:
            for member in near[centre] & left:
                cluster[member] = number
            left -= near[centre]
            number += 1
    return cluster


def kennard_stone(table, count):
    """The molecules chosen, in their order."""
    n = len(table)
    first = max(((i, j) for i in range(n) for j in range(i + 1, n)), key=lambda p: (table[p], -p[0], -p[1]))
    chosen = list(first)[:count]
    while len(chosen) < count:
        rest = [i for i in range(n) if i not in chosen]
        chosen.append(max(rest, key=lambda i: (min(table[i, j] for j in chosen), -i)))
    return chosen
