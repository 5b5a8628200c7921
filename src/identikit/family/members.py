"""Which models belong to the softmax family p(y|x, S) ∝ exp(f(x)ᵀ g(y) + bias(y)), and which not.

The theory is about two vectors and their dot product. The entry of a member says where these
vectors are in a given architecture, and which group of transformations equal distributions leave
undetermined. A new member is one entry in `_members`; its head, the function that turns the
network's outputs into (f, g, bias), is one of `_heads`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches

from identikit.errors import InputError
from identikit.family._members import GAUGES, MEMBERS, Member

__all__ = ["GAUGES", "MEMBERS", "NON_MEMBERS", "Member", "NonMember", "find"]


@dataclass(frozen=True)
class NonMember:
    """A model outside the family, the reason, and the closest statement that is true."""

    name: str
    title: str
    reason: str
    what_holds_instead: str
    reference: str
    aliases: tuple[str, ...] = ()


_MEASURE = "Whether runs are linked all the same is a question for `identikit audit`."

_NON_MEMBERS = (
    NonMember(
        name="word2vec",
        title="word2vec, skip-gram with negative sampling (SGNS)",
        reason="Each pair of words has its own sigmoid; no softmax over candidates.",
        what_holds_instead="The sigmoid fixes the score itself, so f' = A f and g' = A⁻ᵀ g "
        "without any shift, if both sets of vectors span the space. At the optimum the score is "
        "PMI − log k; if M is far below the rank of the PMI, it is a weighted low-rank fit.",
        reference="Mikolov et al. 2013; Levy and Goldberg 2014",
        aliases=("sgns", "skip-gram", "negative-sampling", "binary-nce"),
    ),
    NonMember(
        name="siglip",
        title="SigLIP: images and texts, a sigmoid for each pair",
        reason="Each pair has its own sigmoid σ(fᵀg + b); no softmax over candidates.",
        what_holds_instead="For a given b the sigmoid fixes fᵀg itself, so f' = A f and "
        "g' = A⁻ᵀ g without any shift, if both sets of vectors span the space.",
        reference="Zhai et al. 2023",
        aliases=("siglip2",),
    ),
    NonMember(
        name="triplet",
        title="triplet loss with a hinge, and other margin losses",
        reason="The hinge is not a likelihood: there is no p(y|x, S) that two runs could share.",
        what_holds_instead="The logistic triplet loss with dot products is n-pair with two "
        f"candidates, and a member. {_MEASURE}",
        reference="Schroff, Kalenichenko and Philbin 2015",
        aliases=("triplet-hinge", "triplet-loss", "margin"),
    ),
    NonMember(
        name="byol",
        title="BYOL: predict the output of a slowly moving copy",
        reason="No candidates and no normalisation over them, so no p(y|x, S).",
        what_holds_instead=f"Nothing from this family. {_MEASURE}",
        reference="Grill et al. 2020",
    ),
    NonMember(
        name="vicreg",
        title="VICReg, Barlow Twins: losses on covariances",
        reason="The loss is on moments of a batch; it has no candidates and no p(y|x, S).",
        what_holds_instead=f"Nothing from this family. {_MEASURE}",
        reference="Bardes, Ponce and LeCun 2022; Zbontar et al. 2021 (Barlow Twins)",
        aliases=("barlow-twins", "barlow"),
    ),
    NonMember(
        name="mae",
        title="masked autoencoder (MAE)",
        reason="A non-linear decoder and a squared error instead of a softmax over candidates.",
        what_holds_instead="Another theory: if the decoder is nearly an isometry, the code is "
        "identified up to a rigid motion and an error that grows with the distortion.",
        reference="He et al. 2022; Nelson et al. 2026, arXiv 2603.11970",
        aliases=("masked-autoencoder",),
    ),
    NonMember(
        name="dino",
        title="DINO: match a teacher's softmax over prototypes",
        reason="The form is right, but the targets come from each run's own teacher, so two "
        "perfect runs need not share one distribution.",
        what_holds_instead="Two runs whose distributions over the same prototypes do agree "
        f"are linked as in supervised. {_MEASURE}",
        reference="Caron et al. 2021",
    ),
    NonMember(
        name="gemma2",
        title="language models with soft-capped logits: Gemma 2",
        reason="cap · tanh(z / cap) stands between the dot product z and the softmax.",
        what_holds_instead="Approximately what holds for gpt, as long as the logits are small "
        "relative to the cap.",
        reference="Gemma Team 2024",
        aliases=("soft-cap",),
    ),
    NonMember(
        name="ima-vae",
        title="VAE with a nearly deterministic decoder (IMA)",
        reason="No classifier, no candidates and no auxiliary variable: only p(x) is fitted, "
        "so there are no labels whose diversity could help.",
        what_holds_instead="An inductive bias in place of variability: as γ² grows, the ELBO "
        "is lowered by C_IMA of the decoder (`ik.ima_contrast`), which favours orthogonal columns "
        "of its Jacobian. If the mixing has such columns (a Möbius map) and the sources are not "
        "Gaussian, codes match them up to permutation and sign if the range of the prior is "
        "right, and up to a scale for each if it is not. With Gaussian sources a rotation remains; "
        "with a mixing that has other columns, nothing is identified.",
        reference="Gresele et al. 2021; Reizinger et al. 2022",
        aliases=("vae", "ima", "beta-vae", "independent-mechanism-analysis"),
    ),
    NonMember(
        name="off-support",
        title="next-token models after prompts that never occur in the data",
        reason="The form is right, but two perfect runs need not share p(y|x) there: where "
        "p(prompt) = 0 the distribution of the data does not determine what follows.",
        what_holds_instead="On prefixes that occur, everything that holds for gpt; if the "
        "vocabulary has fewer than M + 1 tokens, diversity fails and only centred logits are "
        "identified. Off the support nothing is identified, and after prompts of probability ε a "
        "KL divergence of order ε determines nothing. Compare runs on both with "
        "`identikit models A B --slice labels.npy`.",
        reference="Reizinger et al. 2024, arXiv 2405.01964",
        aliases=("rule-extrapolation", "out-of-support", "ood-prompts"),
    ),
)

NON_MEMBERS = {entry.name: entry for entry in _NON_MEMBERS}


def find(name: str) -> Member | NonMember:
    """The entry with this name or alias; case, spaces and hyphens do not matter.

    >>> find("GPT-2").name, find("ProtoNet").name, find("word2vec").name
    ('gpt', 'prototypical', 'word2vec')
    """
    entries: list[Member | NonMember] = [*MEMBERS.values(), *NON_MEMBERS.values()]
    known = {_key(word): entry for entry in entries for word in (entry.name, *entry.aliases)}
    key = _key(name)
    if key in known:
        return known[key]
    # The name may be that of a checkpoint, such as meta-llama/Llama-3.2-1B.
    parts = re.split(r"[\W_]+", name.lower())
    close = [word for word in known if any(part.startswith(word) for part in parts)]
    close += get_close_matches(key, known)
    meant = dict.fromkeys(known[word].name for word in close)
    hint = f"did you mean {' or '.join(meant)}? " if meant else ""
    raise InputError(f"no model is called {name!r} here; {hint}`identikit family` lists them all")


def _key(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))
