"""Learning many seeds: encoders, objectives, and a training that can be stopped and resumed."""

from identikit.errors import require

require("torch", "torch", "learning")

from identikit.learn._batches import Batches, fresh, shuffled  # noqa: E402
from identikit.learn._bilipschitz import BiLipschitz, bilipschitz  # noqa: E402
from identikit.learn._modules import MLP, LogBilinear, Lookup, OneHot, SoftmaxNet  # noqa: E402
from identikit.learn._objectives import (  # noqa: E402
    OBJECTIVES,
    autoregressive,
    infonce,
    masked,
    nce,
    negative_sampling,
    npair,
    nplm,
    supervised,
)
from identikit.learn._resnet import ResNet  # noqa: E402
from identikit.learn._run import Run  # noqa: E402
from identikit.learn._sequences import LSTM, Transformer  # noqa: E402
from identikit.learn._train import train  # noqa: E402

__all__ = [
    "LSTM",
    "MLP",
    "OBJECTIVES",
    "Batches",
    "BiLipschitz",
    "LogBilinear",
    "Lookup",
    "OneHot",
    "ResNet",
    "Run",
    "SoftmaxNet",
    "Transformer",
    "autoregressive",
    "bilipschitz",
    "fresh",
    "infonce",
    "masked",
    "nce",
    "negative_sampling",
    "npair",
    "nplm",
    "shuffled",
    "supervised",
    "train",
]
