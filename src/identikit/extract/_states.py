"""Run a model on a batch: its hidden states, and f, the input of its head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError, require
from identikit.extract._load import PURPOSE, Loaded, hushed

# How far f gᵀ + bias may be from the model's own logits, relative to the largest of them.
_LOGITS_ALIKE = 1e-5


@dataclass(frozen=True)
class Head:
    """The last layer of a softmax model: g (K, M), a bias (K,) or None, and its module's name."""

    name: str
    g: NDArray[Any]
    bias: NDArray[Any] | None


class States:
    """Run a model on batches and return its states by name: ``layer_00`` …, and ``f``.

    Hidden states are numbered as in transformers: 0 is the input of the first block, the last is
    the model's output, after its final norm if it has one. In GPT-2 and similar models, those in
    between are the raw residual stream; `norm_of` says which states are the output of a norm.

    On construction the model is run on `probe`, the inputs of one item, to find out which states
    it returns and whether its logits are f gᵀ + bias.
    """

    def __init__(
        self, loaded: Loaded, probe: Mapping[str, Any], layers: str | Sequence[int]
    ) -> None:
        self._model = loaded.model
        self._device = next(self._model.parameters()).device
        self._output: Any = None
        self._f: Any = None
        self._model.base_model.register_forward_hook(self._keep_output)
        name, head = _find_head(loaded)
        if head is not None:
            head.register_forward_pre_hook(self._keep_f)
        hidden, result, norms = self._run_probe(loaded, probe)
        self.count = len(hidden)
        self.layers = choose_layers(layers, self.count)
        f = self._f
        #: Whether f has one row per item, as in an image classifier.
        self.head_takes_items = f is not None and f.ndim == 2
        self.head, self.no_head = _check_head(name, head, f, getattr(result, "logits", None))
        #: The name of the norm whose output each state is, or None.
        self.norm_of = {layer_name(at): _norm_of(hidden[at], norms) for at in self.layers}
        if self.head is not None:
            self.norm_of["f"] = _norm_of(f, norms)
        if head is not None and f is not None:
            self._skip(head, probe, hidden)

    def __call__(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The states of a batch, (items, positions, width); f of a classifier is (items, width)."""
        self._run(inputs)
        hidden = self._hidden()
        states = {layer_name(at): _positions_second(hidden[at]) for at in self.layers}
        if self.head is not None:
            states["f"] = self._f
        return states

    def _run(self, inputs: Mapping[str, Any]) -> Any:
        torch = require("torch", "hf", PURPOSE)
        self._f = self._output = None
        with torch.inference_mode():
            given = {key: value.to(self._device) for key, value in inputs.items()}
            return self._model(**given, output_hidden_states=True)

    def _run_probe(self, loaded: Loaded, probe: Mapping[str, Any]) -> Any:
        """The hidden states and the result of one item, and the outputs of all norms by name."""
        norms: list[tuple[str, Any]] = []
        kind = type(self._model).__name__
        with ExitStack() as stack:
            for name, module in self._model.named_modules():
                if "norm" in type(module).__name__.lower():
                    # A copy, because the next layer may add to it in place.
                    hook = module.register_forward_hook(
                        lambda _module, _args, output, name=name: norms.append(
                            (name, output.clone())
                        )
                    )
                    stack.callback(hook.remove)
            stack.enter_context(hushed())
            try:
                result = self._run(probe)
            except (TypeError, ValueError, RuntimeError) as error:
                raise InputError(
                    f"{loaded.name} ({kind}) does not run on this input: {error}"
                ) from error
        if getattr(self._output, "hidden_states", None) is None:
            raise InputError(
                f"{loaded.name} ({kind}) gives no hidden states; use identikit.extract.module, "
                "which reads any layer by its name"
            )
        return self._hidden(), result, norms

    def _skip(self, head: Any, probe: Mapping[str, Any], hidden: list[Any]) -> None:
        """Skip the product with g if the model runs without it and has the same states."""
        head.forward = lambda states: states
        try:
            self._run(probe)
            same = all(map(_equal, self._hidden(), hidden))
        except (RuntimeError, ValueError, IndexError):
            same = False  # The model uses its logits for something else.
        if not same:
            del head.forward

    def _keep_output(self, _module: Any, _args: Any, output: Any) -> None:
        self._output = output

    def _keep_f(self, _module: Any, args: tuple[Any, ...]) -> None:
        self._f = args[0]

    def _hidden(self) -> list[Any]:
        hidden = list(self._output.hidden_states)
        last = getattr(self._output, "last_hidden_state", None)
        # In transformers the last entry follows the final norm in most models, but not in vision.
        if last is not None and last.shape == hidden[-1].shape:
            hidden[-1] = last
        return hidden


def _norm_of(state: Any, norms: list[tuple[str, Any]]) -> str | None:
    """The name of the last norm whose output this state is, or None."""
    return next((name for name, output in reversed(norms) if _equal(output, state)), None)


def _equal(a: Any, b: Any) -> bool:
    return bool(a.shape == b.shape and (a == b).all())


def layer_name(layer: int) -> str:
    """The name of a hidden state, which is also the name of its file without the suffix."""
    return f"layer_{layer:02d}"


def choose_layers(layers: str | Sequence[int], count: int) -> list[int]:
    """The numbers of the chosen hidden states, ascending; negative numbers count from the end.

    >>> choose_layers("all", 3), choose_layers("last", 3), choose_layers([0, -1], 13)
    ([0, 1, 2], [2], [0, 12])
    """
    if layers == "all":
        return list(range(count))
    wanted = [-1] if layers == "last" else layers
    known = f"this model has layers 0 to {count - 1} (0 is the input of the first block)"
    if isinstance(wanted, str) or not wanted:
        raise InputError(f"layers is {layers!r}; expected all, last or numbers: {known}")
    for layer in wanted:
        if not -count <= layer < count:
            raise InputError(f"there is no layer {layer}; {known}")
    return sorted({layer % count for layer in wanted})


def _find_head(loaded: Loaded) -> tuple[str, Any]:
    """The name and module of the linear map to the logits; None if the model has none."""
    if not loaded.head:
        return "", None
    model = loaded.model
    if loaded.kind == "vision":
        labels = model.config.num_labels
        linear = [m for m in model.modules() if getattr(m, "out_features", None) == labels]
        head = linear[-1] if linear else None
    else:
        head = model.get_output_embeddings()
    names = [name for name, module in model.named_modules() if module is head]
    return (names[0], head) if names else ("", None)


def _check_head(name: str, head: Any, f: Any, logits: Any) -> tuple[Head | None, str | None]:
    """g and the bias, if the logits are f gᵀ + bias up to a scale; otherwise the reason why not."""
    if head is None:
        return None, "the model has no prediction head"
    if f is None or logits is None or getattr(head, "weight", None) is None:
        return None, f"the model does not call its head ({name}) as a linear layer"
    g = head.weight.detach()
    bias = getattr(head, "bias", None)
    bias = None if bias is None else bias.detach()
    if g.ndim != 2 or (*f.shape[:-1], *g.shape[::-1]) != (*f.shape, logits.shape[-1]):
        return None, f"the logits are not those of its head ({name})"
    product = f @ g.T if bias is None else f @ g.T + bias
    # Some models multiply their logits by a constant, which is made part of g.
    scale = float((product * logits).sum() / (product * product).sum())
    if not float((scale * product - logits).abs().max()) <= _LOGITS_ALIKE * float(
        logits.abs().max()
    ):
        return None, f"the logits are more than f·g + bias of its head ({name})"
    if abs(scale - 1) <= _LOGITS_ALIKE:
        scale = 1.0
    arrays = [None if part is None else scale * part.float().cpu().numpy() for part in (g, bias)]
    weights: Any = arrays[0]
    return Head(name, weights.astype(np.float32), arrays[1]), None


def _positions_second(state: Any) -> Any:
    """Reshape (items, channels, height, width) to (items, positions, channels)."""
    return state.flatten(2).transpose(1, 2) if state.ndim == 4 else state
