"""Train many seeds: encoders, objectives, and training that can be interrupted and resumed."""

from identikit.errors import require

require("torch", "torch", "learning")

from identikit.learn._a2c import A2CRun, a2c, n_step_returns  # noqa: E402
from identikit.learn._actor_critic import ActorCritic, PixelEncoder  # noqa: E402
from identikit.learn._aninfonce import (  # noqa: E402
    Concentrations,
    aninfonce,
    aninfonce_ensemble,
)
from identikit.learn._attention import Attention, rational_forward_loss  # noqa: E402
from identikit.learn._batches import Batches, fresh, shuffled  # noqa: E402
from identikit.learn._best_posterior import BestPosterior, best_posterior  # noqa: E402
from identikit.learn._bilipschitz import BiLipschitz, bilipschitz  # noqa: E402
from identikit.learn._curiosity import ICM, Transition  # noqa: E402
from identikit.learn._decode import greedy, next_tokens, sequence_loss  # noqa: E402
from identikit.learn._decoder import Decoder  # noqa: E402
from identikit.learn._environments import environment  # noqa: E402
from identikit.learn._linear_start import linear_start  # noqa: E402
from identikit.learn._modules import MLP, LogBilinear, Lookup, OneHot, SoftmaxNet  # noqa: E402
from identikit.learn._objectives import (  # noqa: E402
    OBJECTIVES,
    autoregressive,
    diet,
    infonce,
    masked,
    nce,
    negative_sampling,
    npair,
    nplm,
    scores,
    supervised,
)
from identikit.learn._perturbations import (  # noqa: E402
    AfterStep,
    Shuffling,
    weight_entropy,
    weight_reinitialization,
    weight_shuffling,
)
from identikit.learn._resnet import ResNet  # noqa: E402
from identikit.learn._run import Run, rows  # noqa: E402
from identikit.learn._sequences import LSTM, Transformer  # noqa: E402
from identikit.learn._spherical import Normalised, Tempered, case_net  # noqa: E402
from identikit.learn._train import train  # noqa: E402
from identikit.learn._vae import (  # noqa: E402
    Beta,
    codes,
    decoder_jacobian,
    gaussian_kl,
    log_normal,
    negative_elbo,
    posterior,
    prior_curvature,
    vae,
    with_noise,
)

__all__ = [
    "ICM",
    "LSTM",
    "MLP",
    "OBJECTIVES",
    "A2CRun",
    "ActorCritic",
    "AfterStep",
    "Attention",
    "Batches",
    "BestPosterior",
    "Beta",
    "BiLipschitz",
    "Concentrations",
    "Decoder",
    "LogBilinear",
    "Lookup",
    "Normalised",
    "OneHot",
    "PixelEncoder",
    "ResNet",
    "Run",
    "Shuffling",
    "SoftmaxNet",
    "Tempered",
    "Transformer",
    "Transition",
    "a2c",
    "aninfonce",
    "aninfonce_ensemble",
    "autoregressive",
    "best_posterior",
    "bilipschitz",
    "case_net",
    "codes",
    "decoder_jacobian",
    "diet",
    "environment",
    "fresh",
    "gaussian_kl",
    "greedy",
    "infonce",
    "linear_start",
    "log_normal",
    "masked",
    "n_step_returns",
    "nce",
    "negative_elbo",
    "negative_sampling",
    "next_tokens",
    "npair",
    "nplm",
    "posterior",
    "prior_curvature",
    "rational_forward_loss",
    "rows",
    "scores",
    "sequence_loss",
    "shuffled",
    "supervised",
    "train",
    "vae",
    "weight_entropy",
    "weight_reinitialization",
    "weight_shuffling",
    "with_noise",
]
