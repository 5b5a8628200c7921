"""Train many seeds: together in one stack, in processes, or one by one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from identikit._progress import Progress
from identikit._store import digest_of
from identikit._version import __version__
from identikit.errors import InputError
from identikit.learn import _checkpoint, _units
from identikit.learn._batches import Batch, Batches
from identikit.learn._descent import RATES, Descent
from identikit.learn._fit import Outcome, Task
from identikit.learn._learner import build_seeded, weights_of
from identikit.learn._modules import SoftmaxNet
from identikit.learn._objectives import Objective
from identikit.learn._perturbations import AfterStep, Kick
from identikit.learn._run import Run

__all__ = ["train"]


def train(
    build: Callable[[], SoftmaxNet],
    objective: Objective,
    batches: Batches,
    steps: int,
    *,
    seeds: Iterable[int] = range(1),
    data_seed: int | None = None,
    lr: float | None = None,
    weight_decay: float = 0.0,
    schedule: str = "constant",
    warmup: int = 0,
    rates: Mapping[str, float] | None = None,
    clip: float | None = None,
    optimizer: str = "adam",
    momentum: float = 0.0,
    tolerance: float | None = None,
    after_step: AfterStep | None = None,
    after_step_until: int | None = None,
    validation: Sequence[Tensor] | None = None,
    validate_every: int = 0,
    patience: int | None = None,
    snapshots: Iterable[int] = (),
    folder: str | os.PathLike[str] | None = None,
    save_seconds: float = 30.0,
    together: bool | None = None,
    tag: str = "",
    progress: Progress | None = None,
) -> Run:
    """Train the same network from several seeds.

    Parameters
    ----------
    build : callable
        Makes a `SoftmaxNet`. It is called once for each seed, under a generator with that seed.
    objective : callable
        ``objective(net, *batch)`` gives the mean loss of a batch; see `OBJECTIVES`.
    batches : callable
        ``batches(step, seed)`` gives a tuple of tensors that depends on nothing else; see
        `shuffled` and `fresh`.
    steps : int
        The number of steps of the optimiser. For L-BFGS a step is an iteration with its line
        search, and `steps` the most that are taken.
    seeds : iterable of int
        Each seed decides one network's initial weights and the order of its data.
    data_seed : int, optional
        Let all networks see the data in the order of this seed, instead of each in its own.
    lr : float, optional
        Learning rate, by default 1e-3. For L-BFGS the length of a step that the line search tries
        first, by default 1.
    weight_decay : float
        Decoupled with Adam, part of the gradient (L2) with SGD, and part of the objective with
        L-BFGS: half of it times the sum of all squared parameters is added to the loss, also in the
        history.
    schedule : {"constant", "cosine", "linear", "step"}
        The learning rate after the warm-up: it stays constant, falls to zero along half a cosine or
        a line, or falls to a tenth after 70 % of the steps.
    warmup : int
        The number of steps in which the learning rate first rises linearly to `lr`.
    rates : mapping of str to float, optional
        Factors on the learning rate of some parameters, by the beginning of their names in the
        network, as in ``{"g.": 10.0}``; the longest matching beginning counts.
    clip : float, optional
        The largest norm of a seed's whole gradient; a longer gradient is scaled down to it.
    optimizer : {"adam", "sgd", "lbfgs"}
        Adam, stochastic gradient descent, or L-BFGS with a line search for the strong Wolfe
        conditions. L-BFGS minimises the loss of one batch, which must be the whole data, as in
        ``shuffled((x, y), len(x))``; double precision brings it closer to the optimum. Seeds are
        trained one by one, and a schedule, a warm-up, `rates`, `clip` and `after_step` are refused.
    momentum : float
        The momentum of SGD, with Nesterov's correction.
    tolerance : float, optional
        L-BFGS stops a seed when no entry of the gradient is larger, by default 1e-7, or when a step
        does not lower the loss any more. The last line of its history has the step.
    after_step : callable, optional
        ``after_step(net, generator)`` is called after every step and may change the weights in
        place, as `weight_shuffling` does. The generator is seeded by seed and step, so a training
        that is resumed ends the same, as long as the function has no state of its own.
    after_step_until : int, optional
        Call it only after each of the first `after_step_until` steps; by default after every step.
    validation : tuple of Tensor, optional
        Held-out data in the form of a batch, with any number of rows; the loss is computed in
        pieces of a batch's size.
    validate_every : int
        The number of steps between two validations; with 0 there is one, after the last step.
    patience : int, optional
        Stop a seed after this many validations without a lower loss. Its final weights are then
        those with the lowest validation loss.
    snapshots : iterable of int
        The steps whose weights are stored: 0 is before training; the last step is always stored.
    folder : path, optional
        Where checkpoints are written. A training that was interrupted resumes from there, and ends
        with the same numbers as without the interruption.
    save_seconds : float
        The shortest time between two checkpoints; saving takes at most a twentieth of the time.
    together : bool, optional
        True trains all seeds as one stack, False one by one. None trains a stack where that is
        possible and faster, otherwise in processes, otherwise one by one. The numbers are the same
        up to rounding.
    tag : str
        Anything else that must agree for a training to resume in `folder`, such as the name of the
        data.
    progress : callable, optional
        Called with (what is being done, done, of how many).

    Returns
    -------
    Run

    Examples
    --------
    >>> import torch
    >>> from identikit.learn import MLP, Lookup, SoftmaxNet, shuffled, supervised, train
    >>> x = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
    >>> y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    >>> def build():
    ...     return SoftmaxNet(MLP([3, 8, 2]), Lookup(3, 2))
    >>> run = train(build, supervised, shuffled((x, y), 50), 20, seeds=range(4))
    >>> sorted(run.embed(x)), run.embed(x)["seed 0"].shape
    (['seed 0', 'seed 1', 'seed 2', 'seed 3'], (200, 2))
    """
    seeds, steps = tuple(int(seed) for seed in seeds), int(steps)
    snapshots = tuple(sorted({int(step) for step in snapshots} | {steps}))
    _check_call(seeds, steps, snapshots, validation, validate_every, patience)
    if after_step_until is not None and not (after_step and 0 <= after_step_until <= steps):
        raise InputError(
            f"after_step_until is {after_step_until}; give a number of steps from 0 to {steps}, "
            "together with after_step"
        )
    net = build_seeded(build, seeds[0])
    factors = tuple(sorted((rates or {}).items()))
    descent = Descent(
        steps,
        RATES.get(optimizer, 1e-3) if lr is None else lr,
        weight_decay,
        schedule,
        int(warmup),
        factors,
        clip,
        optimizer,
        float(momentum),
        tolerance,
    )
    descent.check([name for name, _ in net.named_parameters()])
    first = seeds[0] if data_seed is None else data_seed
    batch = _first_batch(batches, first)
    if descent.full_batch:
        _check_full(batch, batches(1, first), together, after_step)
    if validation is not None:
        _check_validation(validation, batch)
    task = Task(
        build=build,
        objective=objective,
        batches=batches,
        steps=steps,
        seeds=seeds,
        data_seed=data_seed,
        descent=descent,
        validation=None if validation is None else tuple(validation),
        validate_every=validate_every,
        patience=patience,
        snapshots=snapshots,
        save_seconds=save_seconds,
        after_step=after_step,
        after_step_until=steps if after_step_until is None else int(after_step_until),
    )
    apart = False if descent.full_batch else together
    as_stack = _units.stacked(apart, len(seeds), net, objective, batch)
    where = None if folder is None else Path(folder)
    if where is not None:
        asked = _asked_for(task, net, batch, together, tag)
        as_stack = _checkpoint.open_folder(where, asked, as_stack)
        task = replace(task, digest=digest_of(asked))
    units = [seeds] if as_stack else [(seed,) for seed in seeds]
    tasks = [task.of(unit, where) for unit in units]
    for each in tasks:
        _checkpoint.discard_damaged(each.file, each.digest, snapshots)
    return _assemble(task, _units.carry_out(tasks, together, net, batch, progress))


def _asked_for(
    task: Task, net: SoftmaxNet, batch: Batch, together: bool | None, tag: str
) -> dict[str, Any]:
    """The settings that must agree for a training to resume in a folder."""
    print_of = _checkpoint.fingerprint
    return {
        "identikit": __version__,
        "torch": torch.__version__,
        "objective": _name(task.objective),
        "seeds": list(task.seeds),
        "data_seed": task.data_seed,
        **asdict(task.descent),
        "after_step": None if task.after_step is None else _name(task.after_step),
        "after_step_until": None if task.after_step is None else task.after_step_until,
        "validate_every": task.validate_every,
        "patience": task.patience,
        "snapshots": list(task.snapshots),
        "together": together,
        "tag": tag,
        "parameters": sum(tensor.numel() for tensor in net.parameters()),
        "first weights": print_of(weights_of(net).values()),
        "first batch": print_of(batch),
        "validation": None if task.validation is None else print_of(task.validation),
    }


def _assemble(task: Task, outcomes: Sequence[Outcome]) -> Run:
    lines = [line for outcome in outcomes for line in outcome.lines]
    history = pd.DataFrame(lines, columns=["seed", "step", "loss", "validation"])
    history = history.astype({"seed": int, "step": int})
    history = history.sort_values(["step", "seed"], kind="stable", ignore_index=True)
    weights = {
        step: {
            name: torch.cat([outcome.weights[step][name] for outcome in outcomes])
            for name in outcomes[0].weights[step]
        }
        for step in task.snapshots
    }
    return Run(task.seeds, task.steps, history, task.build, weights)


def _first_batch(batches: Batches, seed: int) -> Batch:
    batch = batches(0, seed)
    if not isinstance(batch, tuple) or not all(isinstance(part, Tensor) for part in batch):
        kind = type(batch).__name__
        raise InputError(f"batches(step, seed) must return a tuple of tensors, not a {kind}")
    return batch


def _name(function: Callable[..., object]) -> str:
    """The name of a function in a checkpoint; for a partial one, with its fixed arguments."""
    if isinstance(function, partial):
        given = [*function.args, *function.keywords.values()]
        prints = [_checkpoint.fingerprint([v]) if isinstance(v, Tensor) else str(v) for v in given]
        return f"{_name(function.func)}({', '.join([*function.keywords, *prints])})"
    # The repr of the two in `_perturbations` shows their settings.
    if isinstance(function, Kick):
        return repr(function)
    return getattr(function, "__qualname__", type(function).__qualname__)


def _check_call(
    seeds: tuple[int, ...],
    steps: int,
    snapshots: tuple[int, ...],
    validation: Sequence[Tensor] | None,
    validate_every: int,
    patience: int | None,
) -> None:
    if not seeds:
        raise InputError("training needs at least one seed, as in seeds=range(4)")
    if len(set(seeds)) < len(seeds) or min(seeds) < 0:
        raise InputError(f"seeds must be different numbers from 0 on, not {list(seeds)}")
    if steps < 1:
        raise InputError(f"training needs at least one step, not {steps}")
    if snapshots[0] < 0 or snapshots[-1] > steps:
        raise InputError(
            f"snapshots must be steps from 0 to the last, {steps}; these go from {snapshots[0]} to "
            f"{snapshots[-1]}"
        )
    if patience is not None and (validation is None or validate_every < 1 or patience < 1):
        raise InputError(
            "early stopping needs a patience of at least 1, validation data, and validate_every, "
            "the number of steps between two validations"
        )


def _check_full(
    batch: Batch, another: Batch, together: bool | None, after_step: AfterStep | None
) -> None:
    """Raise an error if L-BFGS cannot train so."""
    if together or after_step is not None:
        name = "together=True" if together else "after_step"
        raise InputError(
            f"{name} cannot be used with optimizer='lbfgs', whose line search is one seed's own; "
            "leave it out"
        )
    pairs = zip(batch, another)
    if not all(torch.equal(a.flatten().sort()[0], b.flatten().sort()[0]) for a, b in pairs):
        raise InputError(
            "optimizer='lbfgs' needs the whole data in every batch, but the batches of the first "
            "two steps differ; try shuffled((x, y), len(x))"
        )


def _check_validation(validation: Sequence[Tensor], batch: Batch) -> None:
    shapes = [tuple(part.shape) for part in validation]
    expected = [tuple(part.shape) for part in batch]
    rows = {shape[0] if shape else 0 for shape in shapes}
    if [s[1:] for s in shapes] != [s[1:] for s in expected] or len(rows) != 1 or 0 in rows:
        raise InputError(
            f"the validation data have shapes {shapes}, but a batch has {expected}; expected the "
            "same, except for the number of rows"
        )
