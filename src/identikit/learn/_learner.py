"""One step of learning, for one network or for a stack of them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from identikit.errors import InputError
from identikit.learn._batches import Batch, mix
from identikit.learn._modules import SoftmaxNet
from identikit.learn._objectives import Objective

Weights = dict[str, Tensor]


def build_seeded(build: Any, seed: int) -> SoftmaxNet:
    """Call `build` under a generator of its own; the caller's is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = build()
    if not isinstance(net, SoftmaxNet):
        raise InputError(
            f"build() must return a SoftmaxNet(f, g), but it returned {type(net).__name__}"
        )
    return net


def weights_of(net: nn.Module) -> Weights:
    """All that learning changes: parameters and buffers, without their gradients."""
    named = [*net.named_parameters(), *net.named_buffers()]
    return {name: tensor.detach() for name, tensor in named}


class Learner:
    """Some seeds, learning together; every tensor has the seeds as its first axis.

    Parameters
    ----------
    nets : sequence of SoftmaxNet
        One a seed; more than one are stacked, and then a step is one `vmap` over them.
    objective : callable
        The loss.
    seeds : sequence of int
        Theirs.
    lr, weight_decay : float
        Of Adam, with decoupled weight decay.
    """

    def __init__(
        self,
        nets: Sequence[SoftmaxNet],
        objective: Objective,
        seeds: Sequence[int],
        lr: float,
        weight_decay: float,
    ) -> None:
        self.seeds = tuple(seeds)
        self.loss = _Loss(nets[0], objective)
        self.stacked = len(nets) > 1
        if self.stacked:
            each = [dict(net.named_parameters()) for net in nets]
            self.parameters = {
                f"net.{name}": _leaf(torch.stack([own[name] for own in each]), first)
                for name, first in each[0].items()
            }
            self.places = _places(self.loss)
        else:
            self.parameters = dict(self.loss.named_parameters())
        self.lr, self.weight_decay = lr, weight_decay
        self._start_adam()

    def _start_adam(self) -> None:
        # One fused kernel for all tensors; with no weight decay, AdamW is Adam.
        chosen = self.parameters.values()
        self.adam = torch.optim.AdamW(chosen, self.lr, weight_decay=self.weight_decay, fused=True)
        for tensor in chosen:
            self.adam.state[tensor] = {
                "step": torch.zeros(()),
                "exp_avg": torch.zeros_like(tensor),
                "exp_avg_sq": torch.zeros_like(tensor),
            }

    def losses(self, batch: Batch, shared: bool) -> Tensor:
        """The loss of each seed, (seeds,); a batch that is not shared has their axis first."""
        if not self.stacked:
            loss: Tensor = self.loss(*batch)
            return loss.unsqueeze(0)
        dims = (0, *(None if shared else 0 for _ in batch))
        losses: Tensor = vmap(self._loss_with, dims)(self.parameters, *batch)
        return losses

    def _loss_with(self, weights: Weights, *batch: Tensor) -> Tensor:
        given = {place: weights[name] for place, name in self.places.items()}
        loss: Tensor = functional_call(self.loss, given, batch, tie_weights=False)
        return loss

    def learn(self, step: int, batch: Batch, shared: bool) -> Tensor:
        """One step of every seed; their losses before it."""
        if not self.stacked:
            # Whatever is random in the model (dropout) is a function of the seed and the step.
            torch.default_generator.manual_seed(mix(self.seeds[0], step))
        losses = self.losses(batch, shared)
        self.adam.zero_grad()
        torch.autograd.backward(losses.sum())
        self.adam.step()
        return losses.detach()

    @torch.no_grad()
    def evaluate(self, data: Batch, size: int) -> Tensor:
        """The mean loss of each seed on whole pieces of `size` rows, (seeds,)."""
        self.loss.eval()
        rows = len(data[0])
        starts = range(0, rows - size + 1, size) if rows > size else range(1)
        parts = [self.losses(tuple(t[at : at + size] for t in data), True) for at in starts]
        self.loss.train()
        return torch.stack(parts).mean(0)

    def weights(self) -> Weights:
        """Views of the parameters and buffers, (seeds, ...)."""
        if self.stacked:
            return {name.removeprefix("net."): t.detach() for name, t in self.parameters.items()}
        return {name: tensor.unsqueeze(0) for name, tensor in weights_of(self.loss.net).items()}

    def state(self) -> Weights:
        """Views of all that a step changes, by the names they have in a checkpoint."""
        views = {f"now/{name}": tensor for name, tensor in self.weights().items()}
        for name, tensor in self.parameters.items():
            for key in ("exp_avg", "exp_avg_sq"):
                moment = self.adam.state[tensor][key]
                views[f"{key}/{name}"] = moment if self.stacked else moment.unsqueeze(0)
        return views

    def restore(self, step: int, saved: Weights) -> None:
        """Go on from a state that was taken after `step` steps."""
        for name, view in self.state().items():
            view.copy_(saved[name])
        for tensor in self.parameters.values():
            self.adam.state[tensor]["step"].fill_(step)

    def keep(self, step: int, chosen: Sequence[int]) -> None:
        """Let only some of the stacked seeds, by position, go on."""
        rest = {name: view[list(chosen)].clone() for name, view in self.state().items()}
        self.seeds = tuple(self.seeds[i] for i in chosen)
        self.parameters = {
            name: _leaf(tensor[list(chosen)], tensor) for name, tensor in self.parameters.items()
        }
        self._start_adam()
        self.restore(step, rest)


class _Loss(nn.Module):
    """The objective as a module, so that `functional_call` can give it other weights."""

    def __init__(self, net: SoftmaxNet, objective: Objective) -> None:
        super().__init__()
        self.net, self.objective = net, objective

    def forward(self, *batch: Tensor) -> Tensor:
        return self.objective(self.net, *batch)


def _leaf(values: Tensor, like: Tensor) -> Tensor:
    """A parameter of these values; frozen if the other one is."""
    return values.detach().clone().requires_grad_(like.requires_grad)


def _places(module: nn.Module) -> dict[str, str]:
    """Where each parameter is needed, by name: a tied one in several modules, each once.

    `functional_call` ties weights too, but of a module that has two names it would restore the
    wrong ones.
    """
    names = {parameter: name for name, parameter in module.named_parameters()}
    return {
        f"{prefix}.{name}": names[parameter]
        for prefix, part in module.named_modules()
        for name, parameter in part.named_parameters(recurse=False)
    }


def why_not_stacked(net: SoftmaxNet, objective: Objective, batch: Batch) -> str | None:
    """Why networks like this one cannot be trained as a stack; None if they can."""
    buffer = next((name for name, _ in net.named_buffers()), None)
    if buffer is not None:
        return f"the buffer {buffer!r} may change in a step"
    trial = Learner([net, net], objective, (0, 0), 0.0, 0.0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # vmap warns where it falls back to a loop
            torch.autograd.backward(trial.losses(batch, True).sum())
    except (RuntimeError, UserWarning) as error:
        return str(error).splitlines()[0]
    return None


def largest_tensor(net: SoftmaxNet, objective: Objective, batch: Batch) -> int:
    """Numbers of the largest tensor that a step keeps for its gradient, weights included."""
    sizes = [tensor.numel() for tensor in net.parameters()]

    def note(tensor: Tensor) -> Tensor:
        if tensor.is_floating_point():  # and not some kernel's scratch space
            sizes.append(tensor.numel())
        return tensor

    with (
        torch.random.fork_rng(devices=[]),
        torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor),
    ):
        loss = objective(net.eval(), *batch)
    net.train()
    if not isinstance(loss, Tensor) or loss.dim() > 0:
        kind = tuple(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
        raise InputError(
            f"an objective must return the mean loss of a batch, a tensor of one number, not {kind}"
        )
    return max(sizes)
