"""The training of one unit: a stack of seeds, or a single seed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path

import torch
from torch import Tensor

from identikit._store import Pace
from identikit.errors import InputError
from identikit.learn import _checkpoint
from identikit.learn._batches import Batch, Batches
from identikit.learn._descent import Descent
from identikit.learn._learner import Learner, Weights, build_seeded
from identikit.learn._modules import SoftmaxNet
from identikit.learn._objectives import Objective
from identikit.learn._perturbations import AfterStep

#: The number of history lines per seed, besides those with a validation loss.
RECORDS = 200

#: A report is called with (step, loss); a stop returns whether to stop.
Report = Callable[[int, float], None]
Stop = Callable[[], bool]


@dataclass(frozen=True)
class Task:
    """Everything that the training of a unit depends on."""

    build: Callable[[], SoftmaxNet]
    objective: Objective
    batches: Batches
    steps: int
    seeds: tuple[int, ...]
    data_seed: int | None
    descent: Descent
    validation: Batch | None
    validate_every: int
    patience: int | None
    snapshots: tuple[int, ...]
    save_seconds: float
    after_step: AfterStep | None = None
    after_step_until: int = 0
    digest: str = ""
    file: Path | None = None

    def of(self, seeds: tuple[int, ...], folder: Path | None) -> Task:
        """The task of training some of the seeds."""
        name = "stack" if len(seeds) > 1 else f"seed_{seeds[0]}"
        file = None if folder is None else folder / f"{name}.safetensors"
        return replace(self, seeds=seeds, file=file)


class Stopped(Exception):  # noqa: N818
    """The training was asked to stop; its state is saved, if it has a folder."""


@dataclass(frozen=True)
class Outcome:
    """History lines (seed, step, loss, validation), and weights by step, seeds first."""

    lines: list[list[float]]
    weights: dict[int, Weights]


def finished(task: Task) -> Outcome | None:
    """The outcome of a training that is complete in its folder; None if it is not complete."""
    if task.file is None or not task.file.exists():
        return None
    header, saved = _checkpoint.read(task.file, task.digest)
    if not header["done"]:
        return None
    return Outcome(saved["lines"].tolist(), _kept(task, task.steps + 1))


def _kept(task: Task, before: int) -> dict[int, Weights]:
    """The snapshots of a unit that were taken before step `before`."""
    assert task.file is not None
    paths = {step: _checkpoint.snapshot_path(task.file, step) for step in task.snapshots}
    return {
        step: _checkpoint.read(path, task.digest)[1]
        for step, path in paths.items()
        if step < before
    }


class Fit:
    """A training in progress; `run` trains to the end, from the start or from the checkpoint."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.step = 0
        self.lines: list[list[float]] = []
        self.kept: dict[int, Weights] = {}
        # Losses of the steps since the last line of the history.
        self.pending: list[Tensor] = []
        # For early stopping, by position in task.seeds: the seeds still running, their lowest
        # validation loss, and the number of validations since then.
        self.running = list(range(len(task.seeds)))
        self.lowest = [math.inf] * len(task.seeds)
        self.waited = [0] * len(task.seeds)
        nets = [build_seeded(task.build, seed) for seed in task.seeds]
        self.learner = Learner(nets, task.objective, task.seeds, task.descent)
        self.best: Weights = {}
        if task.patience is not None:
            self.best = {name: view.clone() for name, view in self.learner.weights().items()}
        self.size = len(task.batches(0, task.seeds[0])[0])
        if task.file is not None and task.file.exists():
            self._resume(task.file)

    def run(self, report: Report, stop: Stop, every_seconds: float) -> Outcome:
        """Train to the end, with a report after at least `every_seconds`."""
        task = self.task
        every = max(1, task.steps // RECORDS)
        saving, reporting = Pace(task.save_seconds), Pace(every_seconds)
        while self.step < task.steps and self.running and not self.learner.converged:
            if self.step in task.snapshots:
                self._keep(self.step, self._weights())
            if stop():
                self._save()
                raise Stopped
            losses = self.learner.learn(self.step, *self._batch())
            if task.after_step is not None and self.step < task.after_step_until:
                self.learner.perturb(self.step, task.after_step)
            self.pending.append(losses)
            self.step += 1
            last = self.step == task.steps or self.learner.converged
            validate = task.validation is not None and (
                last or (task.validate_every > 0 and self.step % task.validate_every == 0)
            )
            if validate or last or self.step % every == 0:
                self._record(validate)
            if reporting.due():
                began = time.monotonic()
                report(self.step, float(losses.mean()))
                reporting.written(began)
            if self.running and saving.due():
                began = time.monotonic()
                self._save()
                saving.written(began)
        return self._finish()

    def _batch(self) -> tuple[Batch, bool]:
        """The batch of this step, and whether all seeds share it."""
        task, seeds = self.task, self.learner.seeds
        # The whole data need not be put into another order.
        step = 0 if task.descent.full_batch else self.step
        if task.data_seed is not None:
            return task.batches(step, task.data_seed), True
        if not self.learner.stacked:
            return task.batches(step, seeds[0]), True
        own = [task.batches(self.step, seed) for seed in seeds]
        return tuple(torch.stack(parts) for parts in zip(*own)), False

    def _record(self, validate: bool) -> None:
        losses = torch.stack(self.pending)
        self._check(losses, self.step - len(losses), "loss")
        self.pending = []
        # On the whole data the loss has no noise that a mean would reduce.
        means = (losses[-1] if self.task.descent.full_batch else losses.mean(0)).tolist()
        validation = [math.nan] * len(means)
        if validate:
            assert self.task.validation is not None
            held_out = self.learner.evaluate(self.task.validation, self.size)
            self._check(held_out[None], self.step, "validation loss")
            validation = held_out.tolist()
        for line in zip(self.learner.seeds, repeat(self.step), means, validation):
            self.lines.append(list(line))
        if validate and self.task.patience is not None:
            self._stop_early(validation, self.task.patience)

    def _check(self, losses: Tensor, first: int, what: str) -> None:
        bad = (~losses.isfinite()).nonzero()
        if len(bad):
            row, column = bad[0].tolist()
            raise InputError(
                f"the {what} of seed {self.learner.seeds[column]} is {losses[row, column]:g} at "
                f"step {first + row}; try a smaller learning rate than "
                f"lr={self.task.descent.lr:g}, and look for NaN or infinity in the data"
            )

    def _stop_early(self, validation: list[float], patience: int) -> None:
        """Store each seed's best weights; drop seeds that did not improve within `patience`."""
        now = self.learner.weights()
        for row, (i, loss) in enumerate(zip(self.running, validation)):
            self.waited[i] += 1
            if loss < self.lowest[i]:
                self.lowest[i], self.waited[i] = loss, 0
                for name, kept in self.best.items():
                    kept[i] = now[name][row]
        going = [row for row, i in enumerate(self.running) if self.waited[i] < patience]
        if len(going) < len(self.running):
            self.running = [self.running[row] for row in going]
            if going:
                self.learner.keep(self.step, going)

    def _weights(self) -> Weights:
        """The weights of all seeds; those of a seed that has stopped are its best."""
        now = self.learner.weights()
        if len(self.running) == len(self.task.seeds):
            return {name: view.clone() for name, view in now.items()}
        weights = {name: kept.clone() for name, kept in self.best.items()}
        for name, view in weights.items():
            view[self.running] = now[name][: len(self.running)]
        return weights

    def _keep(self, step: int, weights: Weights) -> None:
        self.kept[step] = weights
        if self.task.file is not None:
            path = _checkpoint.snapshot_path(self.task.file, step)
            _checkpoint.write(path, self.task.digest, {"step": step}, weights)

    def _finish(self) -> Outcome:
        task = self.task
        for step in task.snapshots:
            if step not in self.kept:
                early = step == task.steps and task.patience is not None
                self._keep(step, self.best if early else self._weights())
        self.running = []
        self._save()
        return Outcome(self.lines, self.kept)

    def _save(self) -> None:
        """Write everything that is needed to resume; of a finished training, only its history."""
        task = self.task
        if task.file is None:
            return
        header = {
            "step": self.step,
            "running": self.running,
            "lowest": self.lowest,
            "waited": self.waited,
            "done": not self.running,
        }
        tensors: Weights = {"lines": torch.tensor(self.lines, dtype=torch.float64)}
        if self.running:
            tensors |= self.learner.state()
            tensors |= {f"best/{name}": kept for name, kept in self.best.items()}
            if self.pending:
                tensors["pending"] = torch.stack(self.pending)
        _checkpoint.write(task.file, task.digest, header, tensors)

    def _resume(self, file: Path) -> None:
        """Restore a training from its checkpoint."""
        header, saved = _checkpoint.read(file, self.task.digest)
        self.step, self.running = header["step"], header["running"]
        self.lowest, self.waited = header["lowest"], header["waited"]
        self.lines = saved["lines"].tolist()
        self.kept = _kept(self.task, self.step)
        if len(self.running) < len(self.task.seeds):
            self.learner.keep(self.step, self.running)
        self.learner.restore(self.step, saved)
        for name, kept in self.best.items():
            kept.copy_(saved[f"best/{name}"])
        if "pending" in saved:
            self.pending = list(saved["pending"])
