"""Small language models of aⁿbⁿ, trained in several regimes, compared on and off its support."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from identikit._linalg import Array
from identikit.auditing import audit_models
from identikit.family import SoftmaxModel
from identikit.studies._columns import where
from identikit.studies._study import Record, Settings, Tables, per_seed
from identikit.studies._torch import Tensor, learn, nn, torch
from identikit.worlds import Language

if TYPE_CHECKING:
    import pandas as pd


TRANSFORMER, LSTM, DECODER = "transformer", "lstm", "decoder"
ML, ADVERSARIAL, ORACLE = "ml", "adversarial", "oracle"
REGIMES = (ML, ADVERSARIAL, ORACLE)
#: The oracle without a loss on the first new token, as in the released code.
RELEASED = "released"
ON, OFF = "on the support", "off the support"
#: A model whose loss is at most this far above the floor, in nats per sequence, counts as at it.
SLACK = 0.02


def build(architecture: str, s: Settings) -> learn.SoftmaxNet:
    """A language model f(x)ᵀg(y); `inner` is the width of the MLP or (LSTM) of a token's vector."""
    at = s.architectures.index(architecture)
    width, layers, heads, inner = (s[key][at] for key in ("widths", "layers", "heads", "inner"))
    kinds: dict[str, Callable[[], nn.Module]] = {
        TRANSFORMER: partial(learn.Transformer, 5, width, layers, heads, None, hidden=inner),
        LSTM: partial(learn.LSTM, 5, width, layers, inner),
        DECODER: partial(learn.Decoder, 5, width, layers, heads, inner),
    }
    return learn.SoftmaxNet(kinds[architecture](), learn.Lookup(5, width))


def both_losses(net: learn.SoftmaxNet, x: Tensor, y: Tensor, *completed: Tensor) -> Tensor:
    """The loss of the language and, with equal weight, that of completed prompts, if any."""
    loss = learn.sequence_loss(net, x, y)
    return loss + learn.sequence_loss(net, *completed) if completed else loss


def teach(architecture: str, regime: str, folder: str, settings: Settings) -> Record:
    """Train all seeds of one architecture in one regime (a unit of work).

    The record has one row per seed, with losses and scores of completions of prompts on and off
    the support, and the arrays f (seeds, prefixes on the support and prompts off it, M) and g
    (seeds, 5, M).
    """
    s, at = settings, settings.architectures.index(architecture)
    language, pad = Language("anbn", s.longest), 4
    prompts, floor = language.prompts(s.prompt), language.floor()
    known = learn.next_tokens(torch.from_numpy(language.encode(language.strings)), pad)
    taught: tuple[Tensor, ...] = ()
    if regime != ML:
        by = ADVERSARIAL if regime == ADVERSARIAL else ORACLE
        whole = [prompt + language.completion(prompt, by) for prompt in prompts.outside]
        # SOS and the letters are given; as released, so is the first new token.
        given = 1 + s.prompt + (regime == RELEASED)
        taught = learn.next_tokens(torch.from_numpy(language.encode(whole)), pad, given)
    some = learn.shuffled(taught, min(s.batch, len(prompts.outside))) if taught else None
    run = learn.train(
        partial(build, architecture, s), both_losses,
        lambda step, seed: known if some is None else (*known, *some(step, seed)),
        s.steps[at], seeds=range(s.first_seed, s.first_seed + s.seeds), lr=s.lr[at],
        weight_decay=0.01, schedule="cosine", warmup=s.steps[at] // 10, clip=1.0, folder=folder,
        together=True if s.stack and architecture != LSTM else None,
    )  # fmt: skip
    nets = {seed: run.net(seed) for seed in run.seeds}
    rows = []
    for seed, net in nets.items():
        loss = float(learn.sequence_loss(net, *known))
        row = {"architecture": architecture, "regime": regime, "seed": seed, "loss": loss}
        row |= {"excess": loss - floor.value, "reached": floor.reached(loss, SLACK)}
        row |= {"completion_loss": float(learn.sequence_loss(net, *taught)) if taught else None}
        for place, given_prompts in (("off", prompts.outside), ("on", prompts.inside)):
            shares = behaviour(net, language, given_prompts, s.new_tokens)
            row |= {f"{place}: {name}": share for name, share in shares.items()}
        row["at once"] = float(np.mean([language.rules(each)["R1"] for each in prompts.outside]))
        rows.append(row)
    places = [*language.prefixes, *prompts.outside]
    f = np.stack([states(net, language, places) for net in nets.values()])
    return Record(rows, {"f": f, "g": np.stack(list(run.unembed().values()))})


def behaviour(
    net: learn.SoftmaxNet, language: Language, prompts: Sequence[str], longest: int
) -> dict[str, float]:
    """The shares of greedy completions of prompts that satisfy each rule."""
    given = torch.from_numpy(language.encode(prompts, end=False))
    new, finished = learn.greedy(net, given, longest, language.tokens["EOS"])
    return language.shares(prompts, [language.decode(row) for row in new.numpy()], finished)


def states(net: learn.SoftmaxNet, language: Language, prefixes: Sequence[str]) -> Array:
    """f after each prefix, (n, M); the PAD that follows is ignored."""
    tokens = torch.from_numpy(language.encode(prefixes, end=False))
    f: Array = net.f(tokens)[range(len(prefixes)), [len(prefix) for prefix in prefixes]].numpy()
    return f


def compare(architecture: str, taught: dict[str, dict[str, Array]], settings: Settings) -> Record:
    """Compare seeds of maximum likelihood, and regimes of one seed (a unit of work).

    `taught` has the arrays of `teach` by regime. The record has one row per pair and slice of the
    inputs.
    """
    language = Language("anbn", settings.longest)
    off, first = language.prompts(settings.prompt).outside, settings.first_seed
    slices, seeds = [ON] * len(language.prefixes) + [OFF] * len(off), range(settings.seeds)
    models = {
        regime: [SoftmaxModel(own["f"][i], own["g"][i], name=f"{regime} {i}") for i in seeds]
        for regime, own in taught.items()
    }
    sets = [("regimes", [models[regime][i] for regime in REGIMES]) for i in seeds]
    if settings.seeds > 1:
        sets.append(("seeds", models[ML]))
    rows = []
    for kind, each in sets:
        audit = audit_models(each, slices=slices)
        for pair in audit.pairs:
            (a, i), (b, j) = (name.split() for name in (pair.a, pair.b))
            row: dict[str, Any] = {"architecture": architecture, "kind": kind, "pair": f"{a}, {b}"}
            row |= {"a": first + int(i), "b": first + int(j)}
            row |= {"rank": audit.models[0].diversity.rank, "width": models[ML][0].M}
            for part in pair.slices:
                found = {"slice": part.name, "kl": part.kl, "tv": part.tv}
                found |= {"logit gap": part.logit_gap, "finding": part.finding}
                rows.append(row | found)
    return Record(rows)


def wide(tables: Tables, architecture: str, column: str, every: bool = False) -> pd.DataFrame:
    """A row per seed, a column per regime, for all seeds or those with every loss at its floor."""
    models = where(tables["models"], architecture=architecture, regime=REGIMES)
    if not every:
        models = models[models.groupby("seed")["reached"].transform("all").astype(bool)]
    return models.pivot(index="seed", columns="regime", values=column).reindex(columns=REGIMES)


def counted(tables: Tables, architecture: str) -> str:
    """A sentence on which seeds a check uses."""
    kept, of = (len(wide(tables, architecture, "loss", every)) for every in (False, True))
    return f" {kept} of {of} seeds have all regimes within {SLACK} nat of the floor and count."


def apart(
    tables: Tables, architecture: str, kind: str, place: str, column: str = "tv"
) -> list[float]:
    """A distance of pairs on a slice, one value per seed, for models at the floor."""
    kept = tuple(wide(tables, architecture, "loss").index)
    own = {"architecture": architecture, "slice": place, "kind": kind}
    pairs = where(tables["pairs"], **own, a=kept, b=kept)
    if kind == "seeds":
        return per_seed(pairs, column)
    return list(pairs.groupby("a")[column].mean())


# One ReLU network with two sets of weights: equal as a function, unequal in fine-tuning.

#: Inputs, their entries, and hidden units.
ROWS, ENTRIES, HIDDEN = 512, 10, 64
#: A fine-tuning whose error exceeds this, which is above every initial error, has diverged.
DIVERGED = 1e3


def network(alpha: float = 1.0) -> nn.Sequential:
    """10-64-1 with the activation relu(αx)/α, which is relu(x) for every α > 0."""

    class ScaledReLU(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(alpha * x) / alpha

    return nn.Sequential(nn.Linear(ENTRIES, HIDDEN), ScaledReLU(), nn.Linear(HIDDEN, 1))


def rescale(net: nn.Sequential, alpha: float) -> None:
    """W₁ and b₁ times α, W₂ over α: as relu(αx) = α relu(x), the same function."""
    for name, factor in (("0.weight", alpha), ("0.bias", alpha), ("2.weight", 1 / alpha)):
        net.get_parameter(name).data.mul_(factor)


def tune(seed: int, settings: Settings) -> Record:
    """Pre-train a network, then fine-tune copies that compute the same function (a unit of work).

    A copy has its weights rescaled by α or, as a control, the activation relu(αx)/α. The target
    changes from sin 2x₀ + x₁ to cos 2x₂ + x₁. Every step uses all rows.
    """
    torch.manual_seed(seed)
    x = torch.randn(ROWS, ENTRIES)
    net = network()
    before, after = torch.sin(2 * x[:, 0]) + x[:, 1], torch.cos(2 * x[:, 2]) + x[:, 1]
    _fit(net, x, before, torch.optim.Adam(net.parameters(), 3e-3), settings.pretrain)
    descents: dict[str, Callable[..., torch.optim.Optimizer]] = {
        "SGD": partial(torch.optim.SGD, lr=1e-2),
        "Adam": partial(torch.optim.Adam, lr=1e-3),
    }
    rows = []
    for alpha, scaled, name in product(settings.alphas, ("weights", "activation"), descents):
        own = network(alpha if scaled == "activation" else 1.0)
        own.load_state_dict(net.state_dict())
        if scaled == "weights":
            rescale(own, alpha)
        row = {"seed": seed, "alpha": alpha, "scaled": scaled, "by": name}
        row["apart"] = (own(x) - net(x)).abs().max().item()
        row["mse"] = _fit(own, x, after, descents[name](own.parameters()), settings.finetune)
        rows.append(row | {"diverged": not row["mse"] < DIVERGED})
    return Record(rows)


def _fit(net: nn.Module, x: Tensor, y: Tensor, descent: torch.optim.Optimizer, steps: int) -> float:
    """Train for the given number of steps, and return the error after them."""
    for _ in range(steps):
        descent.zero_grad()
        torch.autograd.backward((net(x)[:, 0] - y).square().mean())
        descent.step()
    error: float = (net(x)[:, 0] - y).square().mean().item()
    return error
