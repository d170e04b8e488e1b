"""Launches of whole layers that `torch.compile` does not look into: it stops, calls them and goes on behind them.

In a module of its own, because to say so imports the compiler, which takes a second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from cwnet.nn.kernels import _layer, _pool

__all__ = ["graph_layer", "isomorphism_layer", "perceptron", "pool"]

_disable: Callable[[Any], Any] = torch.compiler.disable

isomorphism_layer = _disable(_layer.isomorphism_layer)
graph_layer = _disable(_layer.graph_layer)
perceptron = _disable(_layer.perceptron)
pool = _disable(_pool.pool)
