"""The members of the family: what each is, what is identified, and which head it has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from identikit.family import _heads

#: How two models with the same distribution may still differ. A is any invertible matrix, Q an
#: orthogonal one. (The ladder has no rung for `orthogonal`; the next one is `rigid`. It has none
#: for `block-orthogonal` either: use `permutation` if all blocks have one entry, else `rigid`.)
GAUGES = {
    "linear": "f' = A f and g' = A⁻ᵀ g + c",
    "affine": "f' = A f + a and g' = A⁻ᵀ g + c; the bias becomes b − aᵀA⁻ᵀg + const",
    "orthogonal": "f' = Q f and g' = Q g, no shift",
    "rigid": "f' = Q f + a and g' = Q g + a",
    "block-orthogonal": "f' = Q f and g' = Q g, no shift, Q a signed permutation but for rotations "
    "inside blocks of equal concentration",
}


@dataclass(frozen=True)
class Member:
    """A model of the family: where its f, g and candidate set S are, and what is identified.

    `layer` is identified up to the transformations `group`, a key of `GAUGES`, if the condition
    `diversity` holds. `head` maps the arrays that a network returns to (f, g, bias or None);
    `aliases` are other names, and names of models of this kind.
    """

    name: str
    title: str
    f: str
    g: str
    candidates: str
    layer: str
    group: str
    diversity: str
    remarks: str
    reference: str
    aliases: tuple[str, ...]
    head: Callable[..., _heads.Parts]


_ROEDER = "Roeder, Metz and Kingma 2021"
_VOCABULARY = "a vocabulary far larger than M makes it easy"
_TOKENS = f"M independent differences of token embeddings; {_VOCABULARY}"
_SPHERE = (
    "M independent differences over all batches; the sphere makes A orthogonal once there are "
    "M(M + 1)/2 points in general position, and then c = 0"
)

_MEMBERS = (
    Member(
        name="supervised",
        title="classifier, softmax head without a bias",
        f="the features before the logits",
        g="w_y, the row of the last weight matrix that belongs to label y",
        candidates="the K labels, the same for every x",
        layer="penultimate features",
        group="linear",
        diversity="M independent differences of the w_y, so K ≥ M + 1 labels at least",
        remarks="A ResNet-50 on ImageNet (M = 2048, K = 1000) fails this, and so does CIFAR-10 "
        "with M ≥ 10: there only the part of f in the span of the differences of w_y is "
        "identified. Labels that x determines with certainty have no best finite weights, and "
        "identify nothing.",
        reference=f"{_ROEDER}, appendix D.1",
        aliases=("classifier", "classification", "softmax"),
        head=_heads.dot_product,
    ),
    Member(
        name="gpt",
        title="autoregressive language model: GPT-2, LLaMA, LSTM",
        f="the decoder's state at a position, after the last normalisation",
        g="the token's row of the output embedding (in GPT-2 it is the input embedding as well)",
        candidates="the vocabulary",
        layer="state after the final LayerNorm (ln_f) or RMSNorm",
        group="linear",
        diversity=_TOKENS,
        remarks="Earlier layers are not covered, nor is the state before the last normalisation. "
        "After a LayerNorm the centred states have rank M − 1 at most, so the null direction must "
        "not be whitened; RMSNorm loses none. Either puts the states on a quadric, which narrows A "
        "further: maps D'QD⁻¹ with diagonal D and D' remain. Tied embeddings narrow the functions, "
        "not the group. Models of different width are outside the theorem. All this holds after "
        "prefixes that occur in the data; for others see off-support.",
        reference=f"{_ROEDER}, appendix D.3; Radford et al. 2019; Touvron et al. 2023",
        aliases=("gpt2", "gpt3", "llama", "lstm", "causal-lm", "autoregressive"),
        head=_heads.dot_product,
    ),
    Member(
        name="quickthought",
        title="QuickThought: which sentence comes from this context",
        f="the sentence encoder, f(s)",
        g="the second encoder, g(s_cand)",
        candidates="one sentence of the true context and others, drawn at random",
        layer="outputs of both encoders",
        group="linear",
        diversity="M independent differences of g over all sets that are drawn; two sentences per "
        "set are enough",
        remarks="Downstream use joins [f; g], so A acts on the first half and A⁻ᵀ with the shift c "
        "on the second.",
        reference=f"{_ROEDER}, appendix D.5; Logeswaran and Lee 2018",
        aliases=("quickthoughts",),
        head=_heads.dot_product,
    ),
    Member(
        name="n-pair",
        title="multi-class N-pair loss, one network on both sides",
        f="f(x), the embedding of the anchor",
        g="f(y), of the candidate: the same network",
        candidates="the y of the batch, one per class",
        layer="the embedding in the dot product",
        group="orthogonal",
        diversity="M independent differences, and embeddings that span R^M affinely: then "
        "(A − A⁻ᵀ) f(x) = c for all x forces A orthogonal and c = 0",
        remarks="The loss is the softmax up to a constant logarithm. Texts that name a triplet "
        "loss as a member mean this one.",
        reference=f"{_ROEDER}, appendix D.6; Sohn 2016",
        aliases=("npairs", "multi-class-n-pair"),
        head=_heads.dot_product,
    ),
    Member(
        name="two-tower",
        title="two towers with a dot product: DPR, retrieval, recommendation",
        f="the query tower",
        g="the item tower",
        candidates="the items of the batch, or sampled ones",
        layer="outputs of both towers",
        group="linear",
        diversity="M independent differences of item vectors over all sets that are drawn",
        remarks="With the logQ correction the scores are those of the softmax over the whole "
        "catalogue. Without it they estimate log p/q: still a member given S, and an item bias "
        "absorbs log q.",
        reference="Karpukhin et al. 2020 (DPR)",
        aliases=("dpr", "dual-encoder", "two-towers", "infonce-dot"),
        head=_heads.dot_product,
    ),
    Member(
        name="supervised-bias",
        title="classifier, softmax head with a bias",
        f="the features before the logits; with a 1 appended, [f; 1]",
        g="w_y; with the bias appended, [w_y; b_y]",
        candidates="the K labels, the same for every x",
        layer="penultimate features",
        group="affine",
        diversity="M independent differences of the w_y (K ≥ M + 1) for the linear part; K ≥ M + 2 "
        "in general position for the pair with the 1 appended",
        remarks="The bias compensates for a shift of f, so centring f loses nothing here, while "
        "without a bias it would hide a difference.",
        reference=f"{_ROEDER}, appendix D.1",
        aliases=("classifier-bias", "softmax-bias"),
        head=_heads.dot_product_with_bias,
    ),
    Member(
        name="bert",
        title="masked language model: BERT, RoBERTa",
        f="the output of the prediction head's transform (dense, GELU, LayerNorm) at a masked "
        "position",
        g="the token's embedding, with a bias for each token",
        candidates="the vocabulary, at masked positions",
        layer="output of the head's transform, not last_hidden_state",
        group="affine",
        diversity=_TOKENS,
        remarks="last_hidden_state lies one non-linear layer earlier and is not identified. The "
        "likelihood factorises over masked tokens only approximately. The next-sentence head has "
        "two labels and is not diverse.",
        reference=f"{_ROEDER}, appendix D.4; Devlin et al. 2019; Liu et al. 2019 (RoBERTa)",
        aliases=("mlm", "roberta", "multiberts", "masked-lm"),
        head=_heads.dot_product_with_bias,
    ),
    Member(
        name="xlnet",
        title="XLNet: permutation language model",
        f="the two-stream state g_θ(x_{z<t}, z_t) of a context and a position",
        g="the token's embedding, with a bias for each token",
        candidates="the vocabulary",
        layer="query-stream state in the dot product",
        group="affine",
        diversity=_TOKENS,
        remarks="Each pair of a context and a position is one x. Without the token bias the group "
        "is linear, as for gpt. The paper names it as a member without giving the reduction.",
        reference=f"{_ROEDER}, section 4; Yang et al. 2019",
        aliases=("permutation-lm",),
        head=_heads.dot_product_with_bias,
    ),
    Member(
        name="diet",
        title="DIET: a label for each instance, softmax over all",
        f="the features; at unit norm in the cases C1 and C2",
        g="β w_i, the row of the head that belongs to instance i; w_i at unit norm in C1 and C3",
        candidates="the N instances, the same for every x",
        layer="features before the head",
        group="linear",
        diversity="M independent differences of the w_i, so more than M classes whose vectors do "
        "not lie in a common hyperplane; in C3 at least M(M + 3)/2 classes, so that the sphere is "
        "the only quadric through all vectors",
        remarks="Without normalisation this is case C4, whose group is the one above. With unit "
        "features A is orthogonal, with a shift of the w_i if those are free (C2) and without one "
        "if they have unit norm too (C1). With only w_i at unit norm, A is κ/β times an orthogonal "
        "matrix (C3). Instances of one class have the same w_i at the optimum. A bias absorbs "
        "unequal numbers of images per label; a head without one cannot.",
        reference="Reizinger et al. 2025; Ibrahim, Balestriero and Bottou 2024",
        aliases=("instance-discrimination", "datum-index"),
        head=_heads.diet,
    ),
    Member(
        name="cpc",
        title="contrastive predictive coding (CPC)",
        f="W_k c_t, the prediction for k steps ahead",
        g="z_{t+k}, the encoding of that step",
        candidates="one sample that follows the context, and others from the proposal",
        layer="W_k c_t and z; c_t only if W_k has full column rank",
        group="linear",
        diversity="M independent differences of z over all sets that are drawn; two candidates per "
        "set are enough",
        remarks="Each step k has its own A. If all steps share z, they share A⁻ᵀ and therefore A. "
        "If c_t is wider than z it is not identified.",
        reference=f"{_ROEDER}, appendix D.2; van den Oord, Li and Vinyals 2018",
        aliases=("contrastive-predictive-coding",),
        head=_heads.cpc,
    ),
    Member(
        name="nplm",
        title="neural probabilistic language model, log-bilinear (NPLM)",
        f="q̂(h) = Σ_i C_i r_{w_i}, over the words of the context",
        g="q_w, with a bias b_w for each word",
        candidates="the vocabulary, or noise words sampled from it",
        layer="predicted vector q̂(h) and target vectors q_w",
        group="affine",
        diversity=f"M independent differences of the q_w; {_VOCABULARY}",
        remarks="The bias cannot be absorbed into q_w itself; append it: [q̂; 1] and [q_w; b_w]. "
        "Noise-contrastive estimation and negative sampling fix the scores absolutely, and then c "
        "= 0.",
        reference=f"{_ROEDER}, appendix D.7; Mnih and Teh 2012",
        aliases=("log-bilinear", "lbl"),
        head=_heads.nplm,
    ),
    Member(
        name="simclr",
        title="SimCLR: InfoNCE with cosine and temperature",
        f="z/‖z‖ · τ^(−1/2), of the projection z",
        g="the same, of the candidate's projection",
        candidates="the 2N − 1 other views of the batch",
        layer="normalised output of the projection head, not h before it",
        group="orthogonal",
        diversity=_SPHERE,
        remarks="The points lie on a sphere of radius τ^(−1/2), so equal distributions have equal "
        "temperatures. The layer that downstream tasks use, before the projection head, is not "
        "covered. InfoNCE with a plain dot product is two-tower.",
        reference="Chen et al. 2020; van den Oord, Li and Vinyals 2018",
        aliases=("infonce", "nt-xent", "cosine-infonce"),
        head=_heads.cosine,
    ),
    Member(
        name="infonce-fixed",
        title="InfoNCE on the sphere, temperature fixed",
        f="z/‖z‖ · τ^(−1/2)",
        g="the same, of the candidate",
        candidates="the positive partner, and others of the batch",
        layer="normalised output of the encoder",
        group="orthogonal",
        diversity="as infonce-learned, and pairs whose concentration is 1/τ: only then can an "
        "encoder match the distribution of the data",
        remarks="Two runs with the same distribution differ by a rotation for any τ. The encoder "
        "is a rotation of the true latents only if κ = 1/τ; at another τ the best fit distorts "
        "them, and may drop those that vary much within a pair.",
        reference="Zimmermann et al. 2021; Rusak et al. 2025",
        aliases=("infonce-tau",),
        head=_heads.cosine,
    ),
    Member(
        name="infonce-learned",
        title="InfoNCE on the sphere, temperature learned",
        f="z/‖z‖ · τ^(−1/2)",
        g="the same, of the candidate",
        candidates="the positive partner, and others of the batch",
        layer="normalised output of the encoder",
        group="orthogonal",
        diversity=_SPHERE,
        remarks="The temperature is identified too: 1/τ is the concentration κ of "
        "p(z⁺|z) ∝ exp(κ zᵀz⁺). If the latents of a pair vary by different amounts, no τ fits them "
        "all, and the optimum is not a rotation of them; aninfonce has one concentration for each.",
        reference="Zimmermann et al. 2021; Wang and Isola 2020",
        aliases=("infonce-temperature", "infonce-learnable"),
        head=_heads.cosine,
    ),
    Member(
        name="aninfonce",
        title="AnInfoNCE: contrastive, one concentration per latent",
        f="z/‖z‖, of the projection z",
        g="Λ̂ times the same, of the candidate's projection, with a bias −½ f'ᵀΛ̂f'",
        candidates="the 2N − 1 other views of the batch, or hard negatives of each x",
        layer="normalised output of the projection head",
        group="block-orthogonal",
        diversity="M independent differences over all batches, and M(M + 1)/2 points of the sphere "
        "in general position, which make A orthogonal; different entries of Λ̂ to identify axes",
        remarks="When −½(f − f')ᵀΛ̂(f − f') is multiplied out, the term of f alone drops out. The "
        "sphere makes A orthogonal, and g = Λ̂f with a diagonal Λ̂ lets it rotate only latents of "
        "equal concentration (`concentration_blocks` says which). On data whose positives vary by "
        "Λ the optimum is Λ̂ = Λ up to order; with hard negatives around x it is Λ⁺ − Λ⁻. With "
        "Λ̂ = I/τ this is simclr.",
        reference="Rusak et al. 2025",
        aliases=("anisotropic-infonce",),
        head=_heads.anisotropic,
    ),
    Member(
        name="clip",
        title="CLIP: images and texts, loss in both directions",
        f="the image embedding at unit norm",
        g="the text embedding at unit norm, times exp(logit_scale)",
        candidates="the batch, from images to texts and from texts to images",
        layer="normalised, projected embeddings of both towers",
        group="orthogonal",
        diversity="M independent differences over all batches of two or more, on both sides",
        remarks="The softmax over texts leaves a shift c of g free, but the one over images does "
        "not: together they force c = 0, and the unit norms force the same orthogonal Q for both "
        "towers. Duplicates in a batch violate the condition that the candidates are exactly the "
        "possible partners of x.",
        reference="Radford et al. 2021",
        aliases=("openclip",),
        head=_heads.clip,
    ),
    Member(
        name="prototypical",
        title="softmax of −‖f − g‖²: prototypical networks, NCA",
        f="2 f(x); with a 1 appended, [2f; 1]",
        g="the prototype g; with its norm appended, [g; −‖g‖²]",
        candidates="the classes, or those of the episode",
        layer="the embedding whose distances are taken",
        group="rigid",
        diversity="M independent differences of prototypes, over all episodes, and enough "
        "prototypes that no quadric contains them all",
        remarks="It is a member once −‖f − g‖² is multiplied out: −‖f‖² depends on x only and "
        "drops out, and −‖g‖² is a bias. Because the bias is tied to g, only rigid motions remain.",
        reference="Snell, Swersky and Zemel 2017; Goldberger et al. 2004 (NCA)",
        aliases=("protonet", "protonets", "prototypical-networks", "nca"),
        head=_heads.prototypical,
    ),
)

MEMBERS = {entry.name: entry for entry in _MEMBERS}
