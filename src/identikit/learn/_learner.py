"""One step of learning, for one network or for a stack of them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch._C import _functorch
from torch.func import vmap
from torch.nn import functional

from identikit.errors import InputError
from identikit.learn._batches import Batch, mix, seeded
from identikit.learn._descent import OPTIMIZERS, Descent, clip_by_seed
from identikit.learn._lbfgs import LBFGS
from identikit.learn._modules import SoftmaxNet
from identikit.learn._objectives import Objective
from identikit.learn._perturbations import AfterStep


def join_channels(net: nn.Module) -> None:
    """Let a network's batch norms process a stack at once; without a stack they are unchanged."""
    for module in net.modules():
        if type(module) is nn.BatchNorm1d:
            module.forward = partial(_forward, module)  # type: ignore[method-assign]


def _forward(norm: nn.BatchNorm1d, x: Tensor) -> Tensor:
    own = [norm.running_mean, norm.running_var, norm.weight, norm.bias]
    stacked = [t for t in (x, *own) if t is not None and _functorch.is_batchedtensor(t)]
    # torch's own: without running averages, weights or a stack; for images; for plain averages.
    if len(stacked) < 5 or x.dim() != 2 or norm.momentum is None:
        return nn.BatchNorm1d.forward(norm, x)
    level = _functorch.maybe_get_level(x)
    values, *rest = (_seeds_first(t, level) for t in stacked)
    seeds, rows, channels = values.shape
    if norm.training and norm.num_batches_tracked is not None:
        norm.num_batches_tracked.add_(1)
    mean, var, weight, bias = (t.view(-1) for t in rest)
    joined = values.movedim(0, 1).reshape(rows, seeds * channels)
    out = functional.batch_norm(
        joined, mean, var, weight, bias, norm.training, norm.momentum, norm.eps
    )
    return _functorch._add_batch_dim(out.view(rows, seeds, channels), 1, level)


def _seeds_first(tensor: Tensor, level: int) -> Tensor:
    value, dim = _functorch._unwrap_batched(tensor, level)
    return value.movedim(dim, 0) if dim else value


Weights = dict[str, Tensor]


def build_seeded(build: Any, seed: int) -> SoftmaxNet:
    """The network that `build` makes under a generator with this seed."""
    net = seeded(build, seed)
    if not isinstance(net, SoftmaxNet):
        raise InputError(
            f"build() must return a SoftmaxNet(f, g), but it returned {type(net).__name__}"
        )
    return net


def weights_of(net: nn.Module) -> Weights:
    """Everything that learning changes: parameters and buffers, without their gradients."""
    return {name: tensor.detach() for name, tensor in _named(net)}


class Learner:
    """Some seeds that learn together; every tensor has the seeds as its first axis.

    There is one network per seed. Several are stacked, and a step is then one `vmap` over them.
    """

    def __init__(
        self,
        nets: Sequence[SoftmaxNet],
        objective: Objective,
        seeds: Sequence[int],
        descent: Descent,
    ) -> None:
        self.seeds = tuple(seeds)
        self.net, self.objective = nets[0], objective
        self.stacked = len(nets) > 1
        self.buffers: Weights = {}
        if self.stacked:
            each = [weights_of(net) for net in nets]
            stacks = {name: torch.stack([own[name] for own in each]) for name in each[0]}
            self.parameters = {
                name: _leaf(stacks[name], like) for name, like in nets[0].named_parameters()
            }
            self.buffers = {name: stacks[name] for name, _ in nets[0].named_buffers()}
            join_channels(nets[0])
        else:
            self.parameters = dict(nets[0].named_parameters())
        self.places = _places(nets[0])
        self.descent = descent
        self.optimizer = descent.start(self.parameters)

    def losses(self, batch: Batch, shared: bool) -> Tensor:
        """The loss of each seed, (seeds,); a batch that is not shared has their axis first."""
        if not self.stacked:
            loss: Tensor = self.objective(self.net, *batch)
            return loss.unsqueeze(0)
        weights = [*self.parameters.values(), *self.buffers.values()]
        dims = [0] * len(weights) + [None if shared else 0] * len(batch)
        losses: Tensor = vmap(self._loss_with, tuple(dims))(*weights, *batch)
        return losses

    def _loss_with(self, *tensors: Tensor) -> Tensor:
        """The loss with the given weights: like `functional_call`, without its bookkeeping."""
        count = len(self.parameters) + len(self.buffers)
        with self._holding(tensors[:count]):
            loss: Tensor = self.objective(self.net, *tensors[count:])
            # Writing into a buffer changes the stack; a new tensor in its place would be lost.
            if (name := self._replaced(tensors)) is not None:
                raise RuntimeError(f"the buffer {name!r} is replaced instead of written into")
        return loss

    @contextmanager
    def _holding(self, tensors: Sequence[Tensor]) -> Iterator[None]:
        """Temporarily replace the network's parameters and buffers by other tensors."""
        before = [tensors_of[name] for tensors_of, name, _ in self.places]
        try:
            for tensors_of, name, which in self.places:
                tensors_of[name] = tensors[which]
            yield
        finally:
            for (tensors_of, name, _), tensor in zip(self.places, before):
                tensors_of[name] = tensor

    def _replaced(self, tensors: Sequence[Tensor]) -> str | None:
        """The name of a tensor that the network no longer holds as given, or None."""
        changed = (name for own, name, which in self.places if own[name] is not tensors[which])
        return next(changed, None)

    def learn(self, step: int, batch: Batch, shared: bool) -> Tensor:
        """Take one step for every seed, and return the losses before it."""
        if isinstance(self.optimizer, LBFGS):
            return self.optimizer.learn(lambda: self._always_the_same(batch)).unsqueeze(0)
        if not self.stacked:
            # Randomness in the model (dropout) depends only on the seed and the step.
            torch.default_generator.manual_seed(mix(self.seeds[0], step))
        losses = self.losses(batch, shared)
        self.optimizer.zero_grad()
        torch.autograd.backward(losses.sum())
        if self.descent.clip is not None:
            found = [t.grad for t in self.parameters.values() if t.grad is not None]
            by_seed = found if self.stacked else [gradient.unsqueeze(0) for gradient in found]
            clip_by_seed(by_seed, self.descent.clip)
        rate = self.descent.rate(step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["factor"]
        self.optimizer.step()
        return losses.detach()

    def _always_the_same(self, batch: Batch) -> Tensor:
        """The loss as a function of the weights only: every evaluation draws the same numbers."""
        torch.default_generator.manual_seed(mix(self.seeds[0], 0))
        return self.losses(batch, True)[0]

    @property
    def converged(self) -> bool:
        """Whether the optimiser has found an optimum, so that more steps would change nothing."""
        return isinstance(self.optimizer, LBFGS) and self.optimizer.converged

    @torch.no_grad()
    def perturb(self, step: int, change: AfterStep) -> None:
        """Call `change` on each seed's network, with a generator seeded by seed and step."""
        for place, seed in enumerate(self.seeds):
            # Independent of the numbers that dropout and the batch draw from (seed, step).
            generator = torch.Generator().manual_seed(mix(seed, step, 1))
            own = [tensor for _, tensor in _named(self.net)]
            if self.stacked:
                stacks = (self.parameters | self.buffers).values()
                own = [stack.detach()[place] for stack in stacks]
            with self._holding(own):
                change(self.net, generator)
                if (name := self._replaced(own)) is not None:
                    raise InputError(
                        f"after_step replaced the tensor {name!r}; let it write into the existing "
                        "one instead, as weight.copy_(new) does"
                    )

    @torch.no_grad()
    def evaluate(self, data: Batch, size: int) -> Tensor:
        """The mean loss of each seed over full batches of `size` rows, or all rows if fewer."""
        self.net.eval()
        rows = len(data[0])
        starts = range(0, rows - size + 1, size) if rows > size else range(1)
        parts = [self.losses(tuple(t[at : at + size] for t in data), True) for at in starts]
        self.net.train()
        return torch.stack(parts).mean(0)

    def weights(self) -> Weights:
        """Views of the parameters and buffers, (seeds, ...)."""
        if self.stacked:
            return {name: t.detach() for name, t in (self.parameters | self.buffers).items()}
        return {name: tensor.unsqueeze(0) for name, tensor in weights_of(self.net).items()}

    def state(self) -> Weights:
        """Views of everything that a step changes, under their names in a checkpoint."""
        views = {f"now/{name}": tensor for name, tensor in self.weights().items()}
        for name, tensor in self.parameters.items():
            for key in OPTIMIZERS[self.descent.optimizer]:
                moment = self.optimizer.state[tensor][key]
                views[f"{key}/{name}"] = moment if self.stacked else moment.unsqueeze(0)
        if isinstance(self.optimizer, LBFGS):
            views |= self.optimizer.stored()
        return views

    def restore(self, step: int, saved: Weights) -> None:
        """Continue from a state that was taken after `step` steps."""
        for name, view in self.state().items():
            view.copy_(saved[name])
        if isinstance(self.optimizer, LBFGS):
            self.optimizer.resume(saved)
        for tensor in self.parameters.values():
            if "step" in self.optimizer.state[tensor]:
                self.optimizer.state[tensor]["step"].fill_(step)

    def keep(self, step: int, chosen: Sequence[int]) -> None:
        """Continue with only some of the stacked seeds, given by position."""
        rest = {name: view[list(chosen)].clone() for name, view in self.state().items()}
        self.seeds = tuple(self.seeds[i] for i in chosen)
        self.parameters = {
            name: _leaf(tensor[list(chosen)], tensor) for name, tensor in self.parameters.items()
        }
        self.buffers = {name: tensor[list(chosen)] for name, tensor in self.buffers.items()}
        self.optimizer = self.descent.start(self.parameters)
        self.restore(step, rest)


def _leaf(values: Tensor, like: Tensor) -> Tensor:
    """A new parameter with these values; frozen if `like` is frozen."""
    return values.detach().clone().requires_grad_(like.requires_grad)


def _places(net: nn.Module) -> list[tuple[dict[str, Any], str, int]]:
    """Where each tensor is used: a module's tensors, the name there, the position in `_named`.

    A tied tensor is used in several modules; a module with two names counts once.
    """
    position = {tensor: at for at, (_, tensor) in enumerate(_named(net))}
    return [
        (tensors_of, name, position[tensor])
        for part in net.modules()
        for tensors_of in (part._parameters, part._buffers)
        for name, tensor in tensors_of.items()
        if tensor is not None
    ]


def _named(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters, then buffers."""
    yield from module.named_parameters()
    yield from module.named_buffers()


def why_not_stacked(net: SoftmaxNet, objective: Objective, batch: Batch) -> str | None:
    """Why networks like this one cannot be trained as a stack; None if they can."""
    trial = Learner([net, net], objective, (0, 0), Descent(1))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # vmap warns where it falls back to a loop
            torch.autograd.backward(trial.losses(batch, True).sum())
    except (RuntimeError, UserWarning) as error:
        return str(error).splitlines()[0]
    return None


def largest_tensor(net: SoftmaxNet, objective: Objective, batch: Batch) -> int:
    """The size of the largest tensor that a step keeps for its gradient, weights included."""
    sizes = [tensor.numel() for tensor in net.parameters()]

    def note(tensor: Tensor) -> Tensor:
        if tensor.is_floating_point():  # not the scratch space of a kernel
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
