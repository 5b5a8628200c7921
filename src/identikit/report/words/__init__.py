"""The sentences of all results, in one place; the numbers and findings in them are the results'.

A function here takes a result and returns what is said of it. `show`, where a function takes it,
decides how a name appears in a sentence: shortened, or set apart from right-to-left script.
"""

from identikit.report.words._audit import (
    RUNGS,
    UNRELATED,
    compose,
    headline,
    layers,
    layers_headline,
    pair,
    reductions,
    sentence,
    standing,
)
from identikit.report.words._batches import (
    batches,
    batches_headline,
    batches_skipped,
    few_controls,
    most_left_first,
)
from identikit.report.words._components import components, components_headline, similarity
from identikit.report.words._factors import (
    ALIGNED,
    CHANCE,
    chance_level,
    factors,
    factors_headline,
    left_out,
    part_value,
    score,
)
from identikit.report.words._models import by_slice, model_pair, models, models_headline
from identikit.report.words._near import near, near_headline, shares_axes

__all__ = [
    "ALIGNED",
    "CHANCE",
    "RUNGS",
    "UNRELATED",
    "batches",
    "batches_headline",
    "batches_skipped",
    "by_slice",
    "chance_level",
    "components",
    "components_headline",
    "compose",
    "factors",
    "factors_headline",
    "few_controls",
    "headline",
    "layers",
    "layers_headline",
    "left_out",
    "model_pair",
    "models",
    "models_headline",
    "most_left_first",
    "near",
    "near_headline",
    "pair",
    "part_value",
    "reductions",
    "score",
    "sentence",
    "shares_axes",
    "similarity",
    "standing",
]
