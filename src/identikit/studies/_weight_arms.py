"""The arms of the study of kicks to the weights: the operations and the measurements."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.alignment import ladder
from identikit.family import diversity
from identikit.moments import Moments, accumulate
from identikit.similarity import cka, mcc
from identikit.studies._data import Data, Need
from identikit.studies._study import Record, Settings, per_seed
from identikit.studies._torch import learn, nn, torch

JSB = Need(
    "JSB_Chorales.mat",
    "JSB Chorales: cell arrays traindata, validdata and testdata of frames (T, 88)",
    optional=True,
)
NONE, REINITIALIZATION, SHUFFLING, RELEASED = "none", "reinitialization", "shuffling", "released"
#: The parameters that are kicked: those of the first part of every network here.
KICKED = "f.0."
#: Rows of test data that networks are compared on, at most.
COMPARED = 1000
#: A unit that is not 0 on this share of rows, or less, is left out where features are compared.
RARE = 0.02


class Arm(NamedTuple):
    """A perturbation of the weights: an operation, its p and its coverage."""

    operation: str
    p: float = 0.0
    coverage: float = 0.0

    @property
    def dose(self) -> float:
        """The approximate share of a large matrix that a kick moves or redraws."""
        share = self.coverage / 2
        return self.p * (share**2 if self.operation == REINITIALIZATION else share)

    def kick(self) -> learn.AfterStep | None:
        from identikit.studies._weight_problems import released_shuffling

        if self.operation == NONE:
            return None
        make: Any = {
            REINITIALIZATION: learn.weight_reinitialization, SHUFFLING: learn.weight_shuffling,
            RELEASED: released_shuffling,
        }[self.operation]  # fmt: skip
        kick: learn.AfterStep = make(self.p, self.coverage, layers=KICKED)
        return kick


#: (p, coverage): the mildest of what the authors searched, two between, and the strongest. The
#: third is the middle: p is log-uniform from .05 to .4, coverage uniform from .03 to .35.
DOSES = ((0.05, 0.05), (0.1, 0.1), (0.14, 0.19), (0.4, 0.35))
MILD, _, MIDDLE, STRONG = DOSES
PLAIN = Arm(NONE)
WS, WR = Arm(SHUFFLING, *MIDDLE), Arm(REINITIALIZATION, *MIDDLE)
COPIES = Arm(RELEASED, *MIDDLE)
#: Windows of a single weight, in kernels of 25.
TRIVIAL = Arm(SHUFFLING, MIDDLE[0], 0.098)
ZERO = [Arm(operation, 0.0, MIDDLE[1]) for operation in (SHUFFLING, REINITIALIZATION)]
ARMS = {
    "digits": [
        PLAIN, *(Arm(o, *dose) for o in (SHUFFLING, REINITIALIZATION) for dose in DOSES),
        Arm(RELEASED, *MILD), COPIES, *ZERO,
    ],
    "cifar": [PLAIN, WS, WR, COPIES, TRIVIAL],
    "jsb": [PLAIN, WS, WR, COPIES],
}  # fmt: skip


def fitted(
    name: str, arm: Arm, folder: str | None, data: Data, s: Settings, first: int = 0
) -> Record:
    """Train all seeds of an arm (a unit of work): one row per seed and snapshot.

    Weights are kicked until step `{name}_steps`; `{name}_after` are the later steps at which
    networks are measured. The arrays are the kicked weights and the logits at the first and the
    last snapshot, with seeds as the first axis.
    """
    from identikit.studies._weight_problems import problem

    task, kick = problem(name, data, s), arm.kick()
    steps, after = s[f"{name}_steps"], s[f"{name}_after"]
    x, y = task.test[0], task.test[1].numpy()
    run = learn.train(
        task.build, task.objective, learn.shuffled(task.train, s.batch), steps + after[-1],
        seeds=range(first, first + s.seeds), optimizer="sgd", **task.sgd,
        after_step=kick, after_step_until=None if kick is None else steps,
        snapshots=[steps + since for since in after], folder=folder,
    )  # fmt: skip
    rows: list[dict[str, Any]] = []
    arrays: dict[str, Any] = {}
    for since in after:
        models = [run.model(seed, x, step=steps + since) for seed in run.seeds]
        # Kicks act on the first part of f.
        parts = [next(run.net(seed, steps + since).f.children()) for seed in run.seeds]
        logits = [model.f @ model.g.T + np.asarray(model.bias) for model in models]
        alike = compared([model.f[:COMPARED] for model in models], logits)
        for place, seed in enumerate(run.seeds):
            row: dict[str, Any] = {"problem": name, **arm._asdict(), "dose": arm.dose}
            row |= {"seed": seed, "since": since, **task.scores(logits[place], y)}
            row |= {"entropy": learn.weight_entropy(parts[place]), **alike[place]}
            rows.append(row | {"rank": diversity(models[place]).rank})
        if since in (after[0], after[-1]):
            arrays[f"logits,{since}"] = np.stack([own[:COMPARED] for own in logits])
            arrays[f"weights,{since}"] = np.stack([flattened(part) for part in parts])
    return Record(rows, arrays)


def flattened(part: nn.Module) -> NDArray[Any]:
    """All weights that kicks can reach, as one vector."""
    return np.concatenate([t.numpy().ravel() for t in part.parameters() if t.dim() > 1])


def centred(logits: Array) -> Array:
    """Logits minus their mean over classes, which are identified if classes exclude each other."""
    logits = np.asarray(logits[:COMPARED], float)
    less: Array = logits - logits.mean(axis=1, keepdims=True)
    return less


def alive(features: Array) -> Array:
    """The units that are not 0 on more than a few rows.

    A unit that is above 0 on three rows of 600 has almost no variance if the fold with one of them
    is left out, and the prediction of a map on that fold can be arbitrary.
    """
    features = np.asarray(features, float)
    kept: Array = features[:, (features != 0).mean(axis=0) > RARE]
    return kept


def compared(features: Sequence[Array], logits: Sequence[Array]) -> list[dict[str, Any]]:
    """R² of features and of centred logits, CKA and MCC of features: one value per seed."""
    seeds = range(len(features))
    f, z = (
        accumulate([prepare(view) for view in views])
        for prepare, views in ((alive, features), (centred, logits))
    )
    rows = [
        (i, j, agreement(f, i, j), agreement(z, i, j), cka(f, i, j).value, mcc(f, i, j).value)
        for i, j in combinations(seeds, 2)
    ]
    pairs = pd.DataFrame(rows, columns=["a", "b", "features", "logits", "cka", "mcc"])
    values = {name: per_seed(pairs, name) for name in pairs.columns[2:]}
    # Two seeds have one pair.
    return [
        {name: own[seed] if seed < len(own) else np.nan for name, own in values.items()}
        for seed in seeds
    ]


def agreement(moments: Moments, i: int, j: int) -> float:
    """R² of the best affine map on held-out rows, averaged over the two directions."""
    ways = ladder(moments, i, j, ("affine",))["affine"]
    return float(np.mean([1 - way.error**2 for way in ways]))


def beside(arm: Record, plain: Record) -> list[dict[str, Any]]:
    """The rows of an arm, with the distance of each seed from its training without kicks."""
    seeds = len({row["seed"] for row in arm.rows})
    rows = []
    for place, row in enumerate(arm.rows):
        since, seed = row["since"], place % seeds
        if f"weights,{since}" in arm.arrays:
            a, b = (record.arrays[f"weights,{since}"][seed] for record in (arm, plain))
            z = [centred(record.arrays[f"logits,{since}"][seed]) for record in (arm, plain)]
            row = row | {"gap": float(np.abs(a - b).max()), "same": agreement(accumulate(z), 0, 1)}
            row["cosine"] = float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
        rows.append(row)
    return rows


def distinct(seed: int, size: int = 10_000, times: int = 500) -> Record:
    """Distinct values and entropy of `size` weights after many shuffles (p = 1, coverage .15)."""
    rows = []
    for operation in (SHUFFLING, RELEASED):
        part = torch.nn.Linear(100, size // 100)
        torch.nn.init.uniform_(part.weight, generator=torch.Generator().manual_seed(seed))
        net = torch.nn.ModuleDict({"f": torch.nn.ModuleList([part])})
        kick, generator = Arm(operation, 1.0, 0.15).kick(), torch.Generator().manual_seed(seed)
        assert kick is not None
        before, entropy = len(np.unique(part.weight.detach())), learn.weight_entropy(part)
        for _ in range(times):
            kick(net, generator)
        left = len(np.unique(part.weight.detach()))
        row = {"seed": seed, "operation": operation, "lost": before - left, "left": left}
        rows.append(row | {"bits": entropy - learn.weight_entropy(part)})
    return Record(rows)
