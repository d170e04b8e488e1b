"""Modules that remember how they were made, so that a model can be written down and built anew."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from functools import wraps
from types import MethodType
from typing import Any, ClassVar

import torch
from torch import Tensor

from cwnet.errors import UnknownPartError

__all__ = ["Module", "check_sizes", "from_config", "reset_parts", "to_config"]


class Module(torch.nn.Module):
    """A `torch.nn.Module` that keeps the arguments of its constructor.

    Arguments must be numbers, text, None, other such modules, or lists and dicts of these. `to_config` writes a module
    as plain data, `from_config` builds it anew, with fresh weights.
    """

    registry: ClassVar[dict[str, type[Module]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        Module.registry[_name(cls)] = cls
        original = cls.__init__

        @wraps(original)
        def init(self: Module, *args: Any, **kwargs: Any) -> None:
            if type(self) is cls:
                bound = inspect.signature(original).bind(self, *args, **kwargs)
                bound.apply_defaults()
                named = [
                    p.name
                    for p in bound.signature.parameters.values()
                    if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
                ]
                arguments = {k: bound.arguments[k] for k in named[1:]}  # without the module itself
                object.__setattr__(self, "arguments", arguments)
            original(self, *args, **kwargs)

        cls.__init__ = init  # type: ignore[method-assign, assignment]


def _name(cls: type) -> str:
    """What a class is called in a configuration: our own by their names, others with their module."""
    own = cls.__module__.split(".")[0] == __name__.split(".")[0]
    return cls.__name__ if own else f"{cls.__module__}:{cls.__qualname__}"


def reset_parts(module: torch.nn.Module) -> None:
    """Draw new weights in everything a module is made of."""
    for part in module.children():
        if isinstance(reset := getattr(part, "reset_parameters", None), MethodType):
            reset()
        else:
            reset_parts(part)


def to_config(module: Any) -> Any:
    """A module and all it is made of as plain data."""
    if isinstance(module, Module):
        arguments: dict[str, Any] = module.arguments  # type: ignore[assignment]
        return {"class": _name(type(module)), **{k: to_config(v) for k, v in arguments.items()}}
    if isinstance(module, (list, tuple, torch.nn.ModuleList)):
        return [to_config(item) for item in module]
    if isinstance(module, dict):
        return {str(k): to_config(v) for k, v in module.items()}
    if module is None or isinstance(module, (bool, int, float, str)):
        return module
    raise TypeError(f"{module!r} can not be written as plain data: give it as a cwnet.nn.Module, a number or text")


def check_sizes(config: Any, weights: Mapping[str, Tensor]) -> None:
    """Refuse the configuration of others where a number in it can not be one of a model with these weights.

    Every width, size and depth takes as many weights, so nothing larger need be built to see that they do not fit.

    Raises:
        ValueError: for such a number.
    """
    most = sum(tensor.numel() for tensor in weights.values())
    for number in _whole_numbers(config):
        if not abs(number) <= max(most, 1_024):
            raise ValueError(f"a network with {number} in it, of {most} weights")


def _whole_numbers(config: Any) -> Iterator[int]:
    """All whole numbers in plain data."""
    if isinstance(config, Mapping):
        config = list(config.values())
    if isinstance(config, list):
        for item in config:
            yield from _whole_numbers(item)
    elif isinstance(config, int):
        yield config


def from_config(config: Any) -> Any:
    """Build what `to_config` wrote, with fresh weights."""
    if isinstance(config, list):
        return [from_config(item) for item in config]
    if not isinstance(config, dict):
        return config
    if "class" not in config:
        return {k: from_config(v) for k, v in config.items()}
    name = config["class"]
    if not isinstance(name, str) or name not in Module.registry:
        raise UnknownPartError(
            f"unknown module {name!r} in the configuration: import the package that defines it first, if you trust it; "
            "nothing is imported by a name found in a file"
        )
    arguments = {k: from_config(v) for k, v in config.items() if k != "class"}
    return Module.registry[name](**arguments)
