"""Figure 3 of Roeder et al.: contrastive predictive coding on two patches of an image.

f encodes a patch of the top half of an image, g one of the bottom half. The task is to find, among
the bottom patches S of a batch, the one of the same image: p(y|x, S) ∝ exp(f(x)ᵀ g(y)). Networks
are compared on the centre patches of test images with their original colours.

The initialisation is not published, and it matters. Here it is PyTorch's default, whose weights are
so small that at first all candidates are about equally likely; of those that were tried, validation
loss fell fastest with it. With He's initialisation (`init = "he"`) the loss starts at twice that of
guessing, and runs first become less alike: the held-out CCA of f in one pair went from 0.37 to 0.29
in 1000 steps, and was 0.36 after 4000.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import chain, combinations, product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.inference import cca_chance, held_out_cca
from identikit.moments import accumulate
from identikit.report.drawing import sheet
from identikit.similarity import cca
from identikit.studies import _checks as check
from identikit.studies._columns import where
from identikit.studies._data import CIFAR10, Data
from identikit.studies._figures import Figure
from identikit.studies._patches import centre_pair, random_pair
from identikit.studies._seed_pairs import Panel, curves, lines
from identikit.studies._study import (
    Claim,
    Finding,
    Record,
    Settings,
    Study,
    Tables,
    mean_interval,
    per_seed,
)
from identikit.studies._torch import Tensor, learn, torch
from identikit.studies._work import Work, rows_of

SIDES = ("f", "g")
# Names of initialisations here, and in MLP.
INITS = {"small": "torch", "he": "he"}
# The seed for choosing images and validation patches; no network has it.
SPLIT = 2**20


class Setup(NamedTuple):
    """The common settings of networks that are compared with each other."""

    width: int
    share: float
    steps: int


def run(work: Work) -> Tables:
    """Train every setup from every seed, and compare all pairs of seeds."""
    s = work.settings
    if s.seeds < 2:
        raise InputError(f"seeds is {s.seeds}; runs are compared in pairs, so give 2 or more")
    if not all(0 < share <= 1 for share in s.shares):
        raise InputError(f"shares are {s.shares}; expected parts of the images, above 0, up to 1")
    if not 1 <= s.patch <= 16:
        raise InputError(f"patch is {s.patch}; half an image has 16 rows, so give 1 to 16")
    if s.init not in INITS:
        raise InputError(f"init is {s.init!r}; expected one of {', '.join(INITS)}")
    panels = setups(s)
    seeds = range(s.first_seed, s.first_seed + s.seeds)
    every = {(*setup, seed) for own in panels.values() for setup in own for seed in seeds}
    # The longest runs first, so that no core is idle at the end.
    runs = sorted(every, key=lambda u: (-u[0] * u[2], u))
    key = "width={0},share={1},steps={2},seed={3}"
    options = {"processes": True, "checkpoints": True}
    records = work.each(key, teach, runs, **options, data=work.data, settings=s)
    done = dict(zip(runs, records))
    pairs: list[dict[str, Any]] = []
    shown = [(panel, setup) for panel, own in panels.items() for setup in own]
    for at, (panel, setup) in enumerate(shown):
        work.progress("comparing", at, len(shown))
        trained = [done[*setup, seed] for seed in seeds]
        steps = kept(setup, s) if panel == "training" else [0, setup.steps]
        for step, side in product(steps, SIDES):
            place = {"training": step, "data": trained[0].rows[0]["images"], "width": setup.width}
            about = {"panel": panel, "x": place[panel], "trained": step > 0, "side": side}
            found = compare([record.arrays[f"{side}{step}"] for record in trained])
            pairs += [about | pair for pair in found]
    table = pd.DataFrame(pairs)
    return {"summary": summary(table), "pairs": table, "history": rows_of(records)}


def build(width: int, settings: Settings) -> learn.SoftmaxNet:
    """Two MLPs of three layers on the pixels of a patch."""
    sizes = [3 * settings.patch**2, width, width, settings.M]
    f, g = (learn.MLP(sizes, init=INITS[settings.init]) for _ in SIDES)
    return learn.SoftmaxNet(f, g)


def split(images: Tensor, share: float, held_back: float) -> tuple[Tensor, Tensor]:
    """A share of the images for training, of which smaller ones are subsets, and for validation."""
    order = torch.from_numpy(np.random.default_rng(SPLIT).permutation(len(images)))
    kept = round(held_back * len(images))
    return images[order[kept:][: round(share * (len(images) - kept))]], images[order[:kept]]


def teach(
    width: int, share: float, steps: int, seed: int, folder: str, data: Data, settings: Settings
) -> Record:
    """Train one pair of networks: a row per validation, and f0, g0, ... of test patches by step.

    With early stopping, the last step has the weights of the lowest validation loss.
    """
    s = settings
    found = data.images()
    images, test = (
        torch.from_numpy(x).permute(0, 3, 1, 2).contiguous() for x in (found.x_train, found.x_test)
    )
    own, held_back = split(images, share, s.validation)
    two = partial(random_pair, size=s.patch)
    steps_kept = kept(Setup(width, share, steps), s)
    result = learn.train(
        partial(build, width, s), learn.infonce, learn.shuffled((own,), s.batch, two), steps,
        seeds=(seed,), lr=s.lr, snapshots=steps_kept, folder=folder,
        validation=two((held_back,), torch.Generator().manual_seed(SPLIT)),
        validate_every=s.validate_every, patience=s.patience,
    )  # fmt: skip
    top, bottom = centre_pair(test, s.patch)
    arrays = {}
    for step in steps_kept:
        (arrays[f"f{step}"],) = result.embed(top, step).values()
        (arrays[f"g{step}"],) = result.unembed(bottom, step).values()
    validated = result.history.dropna().assign(width=width, images=len(own), steps=steps)
    rows = [{str(name): v for name, v in row.items()} for row in validated.to_dict("records")]
    return Record(rows, arrays)


def setups(settings: Settings) -> dict[str, list[Setup]]:
    """The setups of each panel; the one of the first panel is followed over training."""
    s = settings
    return {
        "training": [Setup(s.width, 1.0, s.steps)],
        "data": [Setup(s.width, share, s.steps) for share in sorted({*s.shares, 1.0})],
        "width": [Setup(width, 1.0, s.width_steps) for width in sorted(s.widths)],
    }


def kept(setup: Setup, settings: Settings) -> list[int]:
    """Steps at which networks are compared: first and last, and more for the followed setup."""
    followed = setup == setups(settings)["training"][0]
    return sorted({0, *(settings.snapshots if followed else ()), setup.steps})


def compare(views: list[Array]) -> list[dict[str, Any]]:
    """Mean CCA of every pair of runs on the same patches: in sample, at chance, and held out."""
    moments = accumulate(views)
    rows = []
    for a, b in combinations(range(len(views)), 2):
        inside, outside = cca(moments, a, b), held_out_cca(moments, a, b)
        row: dict[str, Any] = {"a": a, "b": b, "rows": moments.rows, "rank": inside.rank}
        row |= {"cca": inside.mean, "chance": cca_chance(moments.rows, *inside.ranks)}
        rows.append(row | {"held_out": outside and outside.value})
    return rows


def summary(pairs: pd.DataFrame) -> pd.DataFrame:
    """Means over pairs, and the 95 % interval over seeds, by panel, place and side."""
    rows = []
    for key, own in pairs.groupby(["panel", "x", "trained", "side"]):
        mean, interval = mean_interval(per_seed(own, "held_out"))
        low, high = interval or (None, None)
        rows.append(
            dict(zip(("panel", "x", "trained", "side"), key))
            | {"pairs": len(own), "cca": own["cca"].mean(), "chance": own["chance"].mean()}
            | {"held_out": mean, "low": low, "high": high}
        )
    return pd.DataFrame(rows)


# What the claims are checked on: the slope over all places of a panel, one value per seed.


def growth(tables: Tables, panel: str, side: str, learned: bool = False) -> Finding:
    """Check that runs are the more alike, the further on in a panel they are.

    With `learned`, the similarity of the untrained networks of the same place is subtracted.
    """
    pairs = where(tables["pairs"], panel=panel, side=side)
    before = where(pairs, trained=False)
    compared = pairs if panel == "training" else where(pairs, trained=True)
    places = np.unique(compared["x"])
    if len(places) == 1:
        return check.unmeasured(f"Only one place in this panel: {places[0]}.")
    curves = [per_seed(where(compared, x=x), "held_out") for x in places]
    untrained = [per_seed(where(before, x=x), "held_out") for x in np.unique(before["x"])]
    values = np.subtract(curves, untrained) if learned else np.array(curves)
    what = f"of what learning adds, {said(values.mean(1), '.3f')}" if learned else "of these means"
    end = where(compared, x=places[-1])
    means, means_before = (said(map(np.mean, each), ".3f") for each in (curves, untrained))
    comment = (
        f"Held-out mean CCA of {side} at {said(places, 'd')}: {means}; untrained {means_before}. "
        f"In sample {end['cca'].mean():.3f} at the end, {end['chance'].mean():.3f} by chance. The "
        f"value is the slope {what}, from one place to the next; above 0 counts."
    )
    return check.rises(places, values.T, comment)


def said(values: Iterable[float], form: str) -> str:
    """Numbers, separated by commas."""
    return ", ".join(format(value, form) for value in values)


def figure(tables: Tables, settings: Settings) -> Figure:
    """Mean CCA of f and g over training, against the number of images, and against the width."""
    return sheet([panel(where(tables["pairs"], panel=name), name) for name in setups(settings)])


def panel(pairs: pd.DataFrame, name: str) -> Panel:
    """A panel of held-out CCA of f and g, with untrained networks and chance."""
    title, words = PANELS[name]
    trained, before = (where(pairs, trained=each) for each in (True, False))
    if name == "training":
        trained, before = pairs, pd.concat([before.assign(x=x) for x in sorted(set(pairs["x"]))])
    table = [
        lines(trained, "x", {"held_out": ""}, "side"),
        lines(before.assign(side=before["side"] + ", untrained"), "x", {"held_out": ""}, "side"),
        lines(pairs, "x", {"chance": "chance, in sample"}),
    ]
    return curves(title, pd.concat(table), "x", words, log_x=True)


PANELS = {
    "training": ("Mean CCA over training, held out", "training step"),
    "data": ("More images", "training images"),
    "width": ("Wider networks", "hidden units"),
}
# Not published: the size of patches, the numbers of images, and how often to validate. On a laptop,
# the learning rate is three times the paper's, for a shorter training.
LAPTOP = {
    "lr": 3e-4, "init": "small", "validation": 0.1, "patience": 5,
    "seeds": 10, "first_seed": 100, "width": 256, "M": 64, "patch": 16,
    "batch": 256, "steps": 1000, "snapshots": [0, 20, 70, 200, 400], "shares": [0.03, 0.1, 0.3],
    "widths": [64, 128, 256, 512, 1024], "width_steps": 700, "validate_every": 70,
}  # fmt: skip
SMOKE = LAPTOP | {
    "seeds": 3, "width": 64, "M": 8, "batch": 64, "lr": 1e-3, "steps": 200,
    "snapshots": [0, 20, 60], "shares": [0.1], "widths": [16, 64], "width_steps": 100,
    "validate_every": 50,
}  # fmt: skip
# Ten seeds, for the five pairs of the paper.
PAPER = LAPTOP | {
    "lr": 1e-4, "steps": 30_000,
    "snapshots": [0, 30, 100, 300, 1000, 3000, 10_000],
    "shares": [0.02, 0.05, 0.1, 0.3], "widths": [64, 128, 256, 512, 1024, 2048, 4096, 8192],
    "width_steps": 15_000, "validate_every": 500,
}  # fmt: skip

# One pair, measured in 4000 steps with jitter of brightness and contrast alone.
RERUN = {"f": "0.359 to 0.513", "g": "0.342 to 0.507"}


def claims(side: str) -> tuple[Claim, ...]:
    """The claims about f or g."""

    def grows(key: str, how: str, source: str, published: str = "", **kwargs: Any) -> Claim:
        says = f"The linear similarity of {side} between two runs grows {how}."
        check_of = partial(growth, side=side, panel=key.split("-")[0], **kwargs)
        return Claim(f"{key}-{side}", says, f"no number given{published}", source, check_of)

    rerun = f" ({RERUN[side]} in an independent re-run, in sample)"
    beyond = "with the width of the networks by more than that of untrained networks"
    return (
        grows("training", "over training", "Figure 3b", rerun),
        grows("data", "with the number of images", "Figure 3c"),
        grows("width", "with the width of the networks", "Figure 3d, as plotted"),
        grows("width-learned", beyond, "Figure 3d, read as a result of learning", learned=True),
    )


STUDY = Study(
    name="roeder-cpc",
    title="Two patches of an image: contrastive predictive coding",
    paper="Roeder, Metz and Kingma, ICML 2021 (arXiv 2007.00810), Section 5.2 and Figure 3",
    about=(
        "Networks learn which bottom half of an image belongs to which top half. The paper claims "
        "that two runs become more alike, up to a linear map, with training, data and width. All "
        "pairs of seeds are compared on test images that no run has seen, by mean CCA on rows that "
        "were not used to find its directions; intervals are over seeds. For comparison, the study "
        "shows untrained networks, which are alike because they see the same patches, and the "
        "level of chance. Claims are judged by the slope over all places of a curve. Wider "
        "networks are more alike even before training, so width is also judged by what learning "
        "adds; when this was decided, a longer run of four seeds had been seen. A run of the seeds "
        "0 to 4 with 700 steps had decided all but the number of images, so that this one has ten "
        "other seeds; of the networks of different width, four of them were seen first. The paper "
        "does not give its initialisation. Here the initial weights are small; with larger ones "
        "(init = he) runs first become less alike."
    ),
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    run=run,
    claims=tuple(chain.from_iterable(zip(*map(claims, SIDES)))),
    figure=figure,
    needs=(CIFAR10,),
)
