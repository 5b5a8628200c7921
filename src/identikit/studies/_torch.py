"""PyTorch and `identikit.learn`, imported at first use, so that studies can be listed without."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch as torch
    from torch import Tensor as Tensor
    from torch import nn as nn

    from identikit import learn as learn
else:

    class _Lazy:
        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):  # tools that look at a module's names are no use of PyTorch
                raise AttributeError(name)
            import_module("torch")  # if it is missing, the error is about the study, not `learn`
            return getattr(import_module(self._name), name)

    torch, nn, learn = map(_Lazy, ("torch", "torch.nn", "identikit.learn"))
    Tensor = Any  # for annotations, which are not evaluated
