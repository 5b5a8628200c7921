"""The members of the family: what each is, on the function that makes its (f, g, bias)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.family.members import Parts, member
from identikit.sources.array import as_array
from identikit.sources.checks import numeric_eps


def _arrays(**given: tuple[ArrayLike, str]) -> list[Array]:
    """The arrays in float64, if axes of one letter have one size throughout."""
    out, sizes = [], dict[str, tuple[int, str]]()
    for name, (value, letters) in given.items():
        array = as_array(value, name)
        numeric_eps(array.dtype, name)
        axes = letters.split()
        wanted = f"{name} has shape {array.shape}; expected ({', '.join(axes)})"
        if array.ndim != len(axes):
            raise InputError(f"{wanted}, so {len(axes)} axes and not {array.ndim}")
        for axis, size in zip(axes, array.shape):
            first, where = sizes.setdefault(axis, (size, name))
            if size != first:
                raise InputError(f"{wanted}, and {axis} is {first} in {where}: is one transposed?")
        array = array.astype(np.float64)
        if not np.isfinite(array).all():
            raise InputError(f"{name} has NaN or infinity in it; leave those rows out")
        out.append(array)
    return out


def _unit(rows: Array, name: str) -> Array:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    if not norms.all():
        raise InputError(
            f"row {int(norms.argmin())} of {name} is zero, which has no direction; a cosine needs "
            "rows other than zero: leave it out"
        )
    unit: Array = rows / norms
    return unit


def _positive(temperature: float) -> float:
    temperature = float(temperature)
    if not 0 < temperature < math.inf:
        raise InputError(f"temperature is {temperature}; expected a number above zero")
    return temperature


_ROEDER = "Roeder, Metz and Kingma 2021"


# Decorators apply from the bottom up, and so does the order of the list.
@member(
    name="two-tower",
    title="two towers with a dot product: DPR, retrieval, recommendation",
    f="the query tower",
    g="the item tower",
    candidates="the items of the batch, or sampled ones",
    layer="outputs of both towers",
    group="linear",
    diversity="M independent differences of item vectors over all sets that are drawn",
    remarks="With the logQ correction the scores are those of the softmax over the whole "
    "catalogue. Without it they estimate log p/q: still a member given S, and an item bias absorbs "
    "log q.",
    reference="Karpukhin et al. 2020 (DPR)",
    aliases=("dpr", "dual-encoder", "two-towers", "infonce-dot"),
)
@member(
    name="n-pair",
    title="multi-class N-pair loss, one network on both sides",
    f="f(x), the embedding of the anchor",
    g="f(y), of the candidate: the same network",
    candidates="the y of the batch, one a class",
    layer="the embedding in the dot product",
    group="orthogonal",
    diversity="M independent differences, and embeddings that span R^M affinely: then "
    "(A − A⁻ᵀ) f(x) = c for all x forces A orthogonal and c = 0",
    remarks="The loss is the softmax up to a constant logarithm. Where texts speak of a triplet "
    "loss as a member, this is the one that is meant.",
    reference=f"{_ROEDER}, appendix D.6; Sohn 2016",
    aliases=("npairs", "multi-class-n-pair"),
)
@member(
    name="quickthought",
    title="QuickThought: which sentence comes from this context",
    f="the sentence encoder, f(s)",
    g="the second encoder, g(s_cand)",
    candidates="one sentence of the true context and others, drawn at random",
    layer="outputs of both encoders",
    group="linear",
    diversity="M independent differences of g over all sets that are drawn; two sentences a set "
    "are enough",
    remarks="Downstream use joins [f; g], so A acts on the first half and A⁻ᵀ with the shift c on "
    "the second.",
    reference=f"{_ROEDER}, appendix D.5; Logeswaran and Lee 2018",
    aliases=("quickthoughts",),
)
@member(
    name="gpt",
    title="autoregressive language model: GPT-2, LLaMA, LSTM",
    f="the decoder's state at a position, after the last normalisation",
    g="the token's row of the output embedding (in GPT-2 it is the input embedding as well)",
    candidates="the vocabulary",
    layer="state after the final LayerNorm (ln_f) or RMSNorm",
    group="linear",
    diversity="M independent differences of token embeddings; a vocabulary far larger than M makes "
    "it easy",
    remarks="Earlier layers are not covered, nor is the state before the last normalisation. After "
    "a LayerNorm the centred states have rank M − 1 at most, so the null direction must not be "
    "whitened; RMSNorm loses none. Either puts the states on a quadric, which narrows A further: "
    "maps D'QD⁻¹ with diagonal D and D' remain. Tied embeddings narrow the functions, not the "
    "group. Models of different width are outside the theorem. All this holds "
    "after prefixes that occur in the data; for others see off-support.",
    reference=f"{_ROEDER}, appendix D.3; Radford et al. 2019; Touvron et al. 2023",
    aliases=("gpt2", "gpt3", "llama", "lstm", "causal-lm", "autoregressive"),
)
@member(
    name="supervised",
    title="classifier, softmax head without a bias",
    f="the features before the logits",
    g="w_y, the row of the last weight matrix that belongs to label y",
    candidates="the K labels, the same for every x",
    layer="penultimate features",
    group="linear",
    diversity="M independent differences of the w_y, so K ≥ M + 1 labels at least",
    remarks="A ResNet-50 on ImageNet (M = 2048, K = 1000) fails this, and so does CIFAR-10 with "
    "M ≥ 10: there only the part of f in the span of the differences of w_y is identified. Labels "
    "that x determines with certainty have no best finite weights, and identify nothing.",
    reference=f"{_ROEDER}, appendix D.1",
    aliases=("classifier", "classification", "softmax"),
)
def dot_product(f: ArrayLike, g: ArrayLike) -> Parts:
    """The score is f(x)ᵀ g(y) as it stands.

    Parameters
    ----------
    f : array (n, M)
    g : array (K, M)
    """
    f, g = _arrays(f=(f, "n M"), g=(g, "K M"))
    return f, g, None


# Decorators apply from the bottom up, and so does the order of the list.
@member(
    name="xlnet",
    title="XLNet: permutation language model",
    f="the two-stream state g_θ(x_{z<t}, z_t) of a context and a position",
    g="the token's embedding, with a bias for each token",
    candidates="the vocabulary",
    layer="query-stream state in the dot product",
    group="affine",
    diversity="M independent differences of token embeddings; a vocabulary far larger than M makes "
    "it easy",
    remarks="Each pair of a context and a position is one x. Without the token bias the group is "
    "linear, as for gpt. Named as a member in the paper, without a reduction of its own.",
    reference=f"{_ROEDER}, section 4; Yang et al. 2019",
    aliases=("permutation-lm",),
)
@member(
    name="bert",
    title="masked language model: BERT, RoBERTa",
    f="the output of the prediction head's transform (dense, GELU, LayerNorm) at a masked position",
    g="the token's embedding, with a bias for each token",
    candidates="the vocabulary, at masked positions",
    layer="output of the head's transform, not last_hidden_state",
    group="affine",
    diversity="M independent differences of token embeddings; a vocabulary far larger than M makes "
    "it easy",
    remarks="last_hidden_state lies one non-linear layer earlier and is not identified. The "
    "likelihood factorises over masked tokens only approximately. The next-sentence head has two "
    "labels and is not diverse.",
    reference=f"{_ROEDER}, appendix D.4; Devlin et al. 2019; Liu et al. 2019 (RoBERTa)",
    aliases=("mlm", "roberta", "multiberts", "masked-lm"),
)
@member(
    name="supervised-bias",
    title="classifier, softmax head with a bias",
    f="the features before the logits; with a 1 appended, [f; 1]",
    g="w_y; with the bias appended, [w_y; b_y]",
    candidates="the K labels, the same for every x",
    layer="penultimate features",
    group="affine",
    diversity="M independent differences of the w_y (K ≥ M + 1) for the linear part; K ≥ M + 2 in "
    "general position for the pair with the 1 appended",
    remarks="A shift of f is made up for by the bias, so centring f loses nothing here, while "
    "without a bias it would hide a difference.",
    reference=f"{_ROEDER}, appendix D.1",
    aliases=("classifier-bias", "softmax-bias"),
)
def dot_product_with_bias(f: ArrayLike, g: ArrayLike, bias: ArrayLike) -> Parts:
    """The score is f(x)ᵀ g(y) + b_y.

    Parameters
    ----------
    f : array (n, M)
    g : array (K, M)
        As PyTorch's Linear stores its weight.
    bias : array (K,)
    """
    f, g, bias = _arrays(f=(f, "n M"), g=(g, "K M"), bias=(bias, "K"))
    return f, g, bias


@member(
    name="diet",
    title="DIET: a label for each instance, softmax over all",
    f="the features; at unit norm in the cases C1 and C2",
    g="β w_i, the row of the head that belongs to instance i; w_i at unit norm in C1 and C3",
    candidates="the N instances, the same for every x",
    layer="features before the head",
    group="linear",
    diversity="M independent differences of the w_i, so more than M classes with vectors in no "
    "common hyperplane; in C3 so many that no quadric but the sphere holds them all, M(M + 3)/2",
    remarks="Neither side normalised is case C4, and its group the one above. Unit features leave "
    "A orthogonal, with a shift of the w_i if those are free (C2) and none if they are not (C1). "
    "Unit w_i alone leave an orthogonal A times κ/β (C3). Instances of one class have the same w_i "
    "at the optimum. A bias takes up unequal numbers of images a label; a head without one cannot.",
    reference="Reizinger et al. 2025; Ibrahim, Balestriero and Bottou 2024",
    aliases=("instance-discrimination", "datum-index"),
)
def diet(
    features: ArrayLike, weights: ArrayLike, case: str = "C4", temperature: float = 1.0
) -> Parts:
    """The score is β w_iᵀ f(x), with f, w, both or neither at unit norm.

    Parameters
    ----------
    features : array (n, M)
    weights : array (K, M)
        The head's, a row an instance.
    case : {"C1", "C2", "C3", "C4"}
        Whether both are normalised (C1), only the features (C2), only the weights (C3), or neither.
    temperature : float
        1/β.
    """
    f, g = _arrays(features=(features, "n M"), weights=(weights, "K M"))
    if case not in ("C1", "C2", "C3", "C4"):
        raise InputError(f"there is no case {case!r}; choose C1, C2, C3 or C4")
    beta = 1 / _positive(temperature)
    f = _unit(f, "features") if case in ("C1", "C2") else f
    return f, beta * (_unit(g, "weights") if case in ("C1", "C3") else g), None


@member(
    name="cpc",
    title="contrastive predictive coding (CPC)",
    f="W_k c_t, the prediction for k steps ahead",
    g="z_{t+k}, the encoding of that step",
    candidates="one sample that follows the context, and others from the proposal",
    layer="W_k c_t and z; c_t only if W_k has full column rank",
    group="linear",
    diversity="M independent differences of z over all sets that are drawn; two candidates a set "
    "are enough",
    remarks="A step k has its own A. Where z is shared by all steps, so is A⁻ᵀ, and with it A. If "
    "c_t is wider than z it is not identified.",
    reference=f"{_ROEDER}, appendix D.2; van den Oord, Li and Vinyals 2018",
    aliases=("contrastive-predictive-coding",),
)
def cpc(contexts: ArrayLike, weights: ArrayLike, encodings: ArrayLike) -> Parts:
    """The score is zᵀ W_k c, for one number of steps k.

    Parameters
    ----------
    contexts : array (n, C)
        Row i is c_t of the i-th context.
    weights : array (M, C)
        W_k.
    encodings : array (K, M)
        Row j is the encoding z of the j-th candidate.
    """
    contexts, weights, encodings = _arrays(
        contexts=(contexts, "n C"), weights=(weights, "M C"), encodings=(encodings, "K M")
    )
    return contexts @ weights.T, encodings, None


@member(
    name="nplm",
    title="neural probabilistic language model, log-bilinear (NPLM)",
    f="q̂(h) = Σ_i C_i r_{w_i}, over the words of the context",
    g="q_w, with a bias b_w for each word",
    candidates="the vocabulary, or noise words sampled from it",
    layer="predicted vector q̂(h) and target vectors q_w",
    group="affine",
    diversity="M independent differences of the q_w; a vocabulary far larger than M makes it easy",
    remarks="The bias cannot be absorbed into q_w itself; append it: [q̂; 1] and [q_w; b_w]. "
    "Noise-contrastive estimation and negative sampling fix the scores absolutely, and then c = 0.",
    reference=f"{_ROEDER}, appendix D.7; Mnih and Teh 2012",
    aliases=("log-bilinear", "lbl"),
)
def nplm(
    context_vectors: ArrayLike, context_weights: ArrayLike, targets: ArrayLike, bias: ArrayLike
) -> Parts:
    """The score is (Σ_i C_i r_{w_i})ᵀ q_w + b_w.

    Parameters
    ----------
    context_vectors : array (n, C, D)
        The r of the C words of each context.
    context_weights : array (C, M, D)
        A matrix for each place in the context.
    targets : array (K, M)
        Row w is q_w.
    bias : array (K,)
    """
    vectors, weights, targets, bias = _arrays(
        context_vectors=(context_vectors, "n C D"),
        context_weights=(context_weights, "C M D"),
        targets=(targets, "K M"),
        bias=(bias, "K"),
    )
    return np.tensordot(vectors, weights, axes=([1, 2], [0, 2])), targets, bias


# Decorators apply from the bottom up, and so does the order of the list.
@member(
    name="infonce-learned",
    title="InfoNCE on the sphere, temperature learned",
    f="z/‖z‖ · τ^(−1/2)",
    g="the same, of the candidate",
    candidates="the positive partner, and others of the batch",
    layer="normalised output of the encoder",
    group="orthogonal",
    diversity="M independent differences over all batches; the sphere makes A orthogonal once "
    "there are M(M + 1)/2 points in general position, and then c = 0",
    remarks="The temperature is identified with the vectors: 1/τ is the concentration κ of "
    "p(z⁺|z) ∝ exp(κ zᵀz⁺). If the latents of a pair vary by different amounts, no τ fits them "
    "all, and the optimum is no rotation of them: aninfonce has one concentration each.",
    reference="Zimmermann et al. 2021; Wang and Isola 2020",
    aliases=("infonce-temperature", "infonce-learnable"),
)
@member(
    name="infonce-fixed",
    title="InfoNCE on the sphere, temperature fixed",
    f="z/‖z‖ · τ^(−1/2)",
    g="the same, of the candidate",
    candidates="the positive partner, and others of the batch",
    layer="normalised output of the encoder",
    group="orthogonal",
    diversity="as infonce-learned, and pairs whose concentration is 1/τ: only then has any encoder "
    "the distribution of the data",
    remarks="Two runs of one distribution differ by a rotation, whatever τ. That the encoder is a "
    "rotation of the true latents needs κ = 1/τ; at another τ the best fit distorts them, and may "
    "drop those that vary much within a pair.",
    reference="Zimmermann et al. 2021; Rusak et al. 2025",
    aliases=("infonce-tau",),
)
@member(
    name="simclr",
    title="SimCLR: InfoNCE with cosine and temperature",
    f="z/‖z‖ · τ^(−1/2), of the projection z",
    g="the same, of the candidate's projection",
    candidates="the 2N − 1 other views of the batch",
    layer="normalised output of the projection head, not h before it",
    group="orthogonal",
    diversity="M independent differences over all batches; the sphere makes A orthogonal once "
    "there are M(M + 1)/2 points in general position, and then c = 0",
    remarks="The points lie on a sphere of radius τ^(−1/2), so equal distributions have equal "
    "temperatures. The layer that downstream tasks use, before the projection head, is not "
    "covered. InfoNCE with a plain dot product is two-tower.",
    reference="Chen et al. 2020; van den Oord, Li and Vinyals 2018",
    aliases=("infonce", "nt-xent", "cosine-infonce"),
)
def cosine(projections: ArrayLike, candidates: ArrayLike, temperature: float) -> Parts:
    """The score is the cosine over τ.

    Parameters
    ----------
    projections : array (n, M)
        The outputs of the projection head; their norms do not matter.
    candidates : array (K, M)
        Those of the candidates. A view is no candidate of its own: say so in the model's S.
    temperature : float
        τ.
    """
    f, g = _arrays(projections=(projections, "n M"), candidates=(candidates, "K M"))
    radius = _positive(temperature) ** -0.5
    return _unit(f, "projections") * radius, _unit(g, "candidates") * radius, None


@member(
    name="aninfonce",
    title="AnInfoNCE: contrastive, one concentration per latent",
    f="z/‖z‖, of the projection z",
    g="Λ̂ times the same, of the candidate's projection, with a bias −½ f'ᵀΛ̂f'",
    candidates="the 2N − 1 other views of the batch, or hard negatives of each x",
    layer="normalised output of the projection head",
    group="block-orthogonal",
    diversity="M independent differences over all batches, and M(M + 1)/2 points of the sphere in "
    "general position, which make A orthogonal; entries of Λ̂ that differ, for axes",
    remarks="−½(f − f')ᵀΛ̂(f − f') multiplied out: the term of f alone drops out. The sphere makes "
    "A orthogonal, and g = Λ̂f with a diagonal Λ̂ lets it turn latents of equal concentration only "
    "(`concentration_blocks` says which). On data whose positives vary by Λ the optimum is Λ̂ = Λ, "
    "in another order; with hard negatives around x it is Λ⁺ − Λ⁻. Λ̂ = I/τ is simclr.",
    reference="Rusak et al. 2025",
    aliases=("anisotropic-infonce",),
)
def anisotropic(projections: ArrayLike, candidates: ArrayLike, concentrations: ArrayLike) -> Parts:
    """The score is −½(f − f')ᵀΛ̂(f − f') = fᵀΛ̂f' − ½f'ᵀΛ̂f' − ½fᵀΛ̂f, less the last term.

    Parameters
    ----------
    projections : array (n, M)
        The outputs of the projection head; their norms do not matter.
    candidates : array (K, M)
        Those of the candidates. A view is no candidate of its own: say so in the model's S.
    concentrations : array (M,)
        The diagonal of Λ̂.
    """
    f, g, concentrations = _arrays(
        projections=(projections, "n M"),
        candidates=(candidates, "K M"),
        concentrations=(concentrations, "M"),
    )
    if not (concentrations > 0).all():
        raise InputError(f"concentrations are {concentrations.tolist()}; all must be above zero")
    f, g = _unit(f, "projections"), _unit(g, "candidates")
    return f, g * concentrations, -np.square(g) @ concentrations / 2


@member(
    name="clip",
    title="CLIP: images and texts, loss in both directions",
    f="the image embedding at unit norm",
    g="the text embedding at unit norm, times exp(logit_scale)",
    candidates="the batch, from images to texts and from texts to images",
    layer="normalised, projected embeddings of both towers",
    group="orthogonal",
    diversity="M independent differences over all batches of two or more, on both sides",
    remarks="The softmax over texts leaves a shift c of g free, the one over images does not; "
    "together they force c = 0, and unit norm one orthogonal Q for both towers. Duplicates in a "
    "batch break the condition that the candidates are just what may follow x.",
    reference="Radford et al. 2021",
    aliases=("openclip",),
)
def clip(images: ArrayLike, texts: ArrayLike, logit_scale: float) -> Parts:
    """The score is the cosine times exp(logit_scale).

    Parameters
    ----------
    images : array (n, M)
    texts : array (K, M)
        Their norms do not matter.
    logit_scale : float
        The logarithm of the scale, as the weights of such models store it.
    """
    f, g = _arrays(images=(images, "n M"), texts=(texts, "K M"))
    logit_scale = float(logit_scale)
    if not abs(logit_scale) < math.log(np.finfo(np.float64).max):
        raise InputError(
            f"logit_scale is {logit_scale}; expected the logarithm of the factor on the cosine, "
            "such as 4.6 for a factor of 100"
        )
    return _unit(f, "images"), _unit(g, "texts") * math.exp(logit_scale), None


@member(
    name="prototypical",
    title="softmax of −‖f − g‖²: prototypical networks, NCA",
    f="2 f(x); with a 1 appended, [2f; 1]",
    g="the prototype g; with its norm appended, [g; −‖g‖²]",
    candidates="the classes, or those of the episode",
    layer="the embedding whose distances are taken",
    group="rigid",
    diversity="M independent differences of prototypes, over all episodes, and so many prototypes "
    "that no quadric holds them all",
    remarks="A member once −‖f − g‖² is multiplied out: −‖f‖² depends on x only and drops out, "
    "−‖g‖² is a bias. That the bias is tied to g is what leaves rigid motions only.",
    reference="Snell, Swersky and Zemel 2017; Goldberger et al. 2004 (NCA)",
    aliases=("protonet", "protonets", "prototypical-networks", "nca"),
)
def prototypical(embeddings: ArrayLike, prototypes: ArrayLike) -> Parts:
    """The score is −‖f − g‖² = 2fᵀg − ‖g‖² − ‖f‖², less the last term.

    Parameters
    ----------
    embeddings : array (n, M)
    prototypes : array (K, M)
    """
    f, g = _arrays(embeddings=(embeddings, "n M"), prototypes=(prototypes, "K M"))
    return 2 * f, g, -np.square(g).sum(axis=1)
