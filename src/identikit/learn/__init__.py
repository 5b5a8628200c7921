# ruff: noqa: F403
"""Train many seeds: encoders, objectives, and training that can be interrupted and resumed."""

from identikit.errors import require

require("torch", "torch", "learning")

from identikit.learn._a2c import *  # noqa: E402
from identikit.learn._agent import *  # noqa: E402
from identikit.learn._aninfonce import *  # noqa: E402
from identikit.learn._batches import *  # noqa: E402
from identikit.learn._bilipschitz import *  # noqa: E402
from identikit.learn._modules import *  # noqa: E402
from identikit.learn._objectives import *  # noqa: E402
from identikit.learn._perturbations import *  # noqa: E402
from identikit.learn._run import *  # noqa: E402
from identikit.learn._sequences import *  # noqa: E402
from identikit.learn._spherical import *  # noqa: E402
from identikit.learn._train import *  # noqa: E402
from identikit.learn._vae import *  # noqa: E402
