"""What steps of training change and compute in: weights with their optimiser and averages, and a precision."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

from cwnet._core import multiplies_bf16
from cwnet.complexes import ComplexBatch, ComplexStore
from cwnet.nn.kernels import multiplying_in_bf16
from cwnet.train._errors import TrainingError

__all__ = ["OptimiserMaker", "Precision", "State", "below", "gathered"]

#: From the parameters of a model to their optimiser.
OptimiserMaker = Callable[[Iterable[Tensor]], torch.optim.Optimizer]


class State:
    """All that a step changes but random numbers.

    Args:
        model: what is trained, where it is to be trained.
        optimiser: of its parameters.
        decay: of the averaged weights; None for none.
    """

    def __init__(self, model: torch.nn.Module, optimiser: torch.optim.Optimizer, decay: float | None) -> None:
        self.model, self.optimiser, self.decay = model, optimiser, decay
        self.averaged = None if decay is None else {k: v.clone() for k, v in model.state_dict().items()}

    @torch.no_grad()
    def average(self) -> None:
        """Move the averaged weights, if there are any, towards those of now."""
        if self.averaged is not None and self.decay is not None:
            new = self.model.state_dict()
            torch._foreach_lerp_(list(self.averaged.values()), [new[k] for k in self.averaged], 1 - self.decay)

    def evaluated(self) -> dict[str, Tensor]:
        """The weights that are evaluated."""
        return self.model.state_dict() if self.averaged is None else self.averaged

    def evaluate(self, batch: ComplexBatch) -> Tensor:
        """The prediction for a batch with these weights, in evaluation mode."""
        self.model.eval()
        out: Tensor = torch.func.functional_call(self.model, self.averaged or {}, (batch,))
        return out

    def tensors(self) -> dict[str, Tensor]:
        """Everything, as it lies on the device."""
        found = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        for name, parameter in self.model.named_parameters():
            for key, value in self.optimiser.state.get(parameter, {}).items():
                if isinstance(value, Tensor):
                    found[f"optimiser.{name}.{key}"] = value
        return found | {f"ema.{name}": tensor for name, tensor in (self.averaged or {}).items()}

    def load(self, state: dict[str, Tensor]) -> None:
        """Go on from tensors of these names."""
        self.model.load_state_dict(below("model.", state))
        if self.averaged is not None:
            averaged = below("ema.", state)
            for name, tensor in self.averaged.items():
                tensor.copy_(averaged[name])
        self.optimiser.state.clear()
        for name, parameter in self.model.named_parameters():
            values = below(f"optimiser.{name}.", state)
            if values:
                self.optimiser.state[parameter] = {k: v.to(parameter.device, copy=True) for k, v in values.items()}


class Precision:
    """The precision that a recipe asks for, on a device.

    Args:
        name: "float32", "tf32", "bf16" or "float64".
        device: where.
    """

    def __init__(self, name: str, device: torch.device) -> None:
        self.name, self.device = name, device
        if name == "bf16" and device.type == "cpu" and not multiplies_bf16():
            raise TrainingError(
                'train.precision = "bf16": this processor has no products in bf16 (lscpu does not list avx512_bf16); '
                'take train.precision = "float32", or a GPU'
            )
        self.wide = torch.float64 if name == "float64" else torch.float32

    def autocast(self) -> AbstractContextManager[Any]:
        """For the forward pass on a GPU; on a CPU all but products of layers stays in float32."""
        wanted = self.name == "bf16" and self.device.type != "cpu"
        return torch.autocast(self.device.type, torch.bfloat16) if wanted else nullcontext()

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Products of float32 in TF32, or on a CPU those of layers in bf16, if that is asked for."""
        if self.device.type != "cuda":
            with multiplying_in_bf16() if self.name == "bf16" else nullcontext():
                yield
            return
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = self.name == "tf32"
        try:
            yield
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before


def gathered(store: ComplexStore, index: Tensor, device: torch.device) -> ComplexBatch:
    """A batch of a store on a device, with the incidences that its layers will ask for."""
    batch = store.batch(index.to(device))
    for d in range(1, len(batch.num_cells)):
        batch.incidence(d)
    return batch


def below(prefix: str, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names start so, without that start."""
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
