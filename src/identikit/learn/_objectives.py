"""Objectives, one for each member of the family: scores, candidate set, log-softmax.

Each is a mean loss over a batch, ``objective(net, *batch)``. They differ in what x, y and the
candidate set S are, and share `scores` and `log_likelihood`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from identikit.errors import InputError
from identikit.learn._modules import SoftmaxNet

__all__ = [
    "OBJECTIVES",
    "autoregressive",
    "diet",
    "greedy",
    "infonce",
    "masked",
    "nce",
    "negative_sampling",
    "next_tokens",
    "npair",
    "nplm",
    "scores",
    "sequence_loss",
    "supervised",
]

Objective = Callable[..., Tensor]

#: The label of a position that does not count in the loss.
IGNORE = -100


def scores(net: SoftmaxNet, f: Tensor, labels: Tensor | None = None) -> Tensor:
    """f(x)ᵀ g(y) + bias(y) for all labels (n, K), or for some labels per row (n, s)."""
    if labels is None:
        logits: Tensor = f @ net.unembeddings().transpose(-1, -2)
        return logits if net.bias is None else logits + net.bias
    logits = (net.g(labels) @ f.unsqueeze(-1)).squeeze(-1)
    return logits if net.bias is None else logits + net.bias[labels]


def log_likelihood(logits: Tensor, right: Tensor) -> Tensor:
    """log p(y|x, S) of the right candidate; 0 where the label is IGNORE."""
    counted = right != IGNORE
    chosen = torch.where(counted, right, 0).unsqueeze(-1)
    return torch.where(counted, logits.log_softmax(-1).gather(-1, chosen).squeeze(-1), 0)


def supervised(net: SoftmaxNet, x: Tensor, y: Tensor) -> Tensor:
    """Classification: S is all K labels.

    x may be sequences with a label at each position; positions with the label −100 are ignored.

    Parameters
    ----------
    net : SoftmaxNet
        With a g that has a set of labels (`Lookup`, `OneHot`).
    x, y : Tensor
        Inputs (n, ...), labels (n,).
    """
    logits = scores(net, net.f(x))
    return -log_likelihood(logits, y).sum() / (y != IGNORE).sum().clamp(min=1)


def diet(net: SoftmaxNet, x: Tensor, instance: Tensor) -> Tensor:
    """DIET: the label is the instance of the data that x is a view of, and S is all instances.

    Parameters
    ----------
    net : SoftmaxNet
        With a g that has a set of labels, one per instance; see `case_net`.
    x, instance : Tensor
        Inputs (n, ...), numbers of instances (n,).
    """
    return supervised(net, x, instance)


def infonce(net: SoftmaxNet, x: Tensor, y: Tensor) -> Tensor:
    """InfoNCE, and with it CPC and QuickThought: S is all y of a batch, y_i the right one.

    Parameters
    ----------
    net : SoftmaxNet
        Without a bias.
    x, y : Tensor
        Pairs (n, ...), (n, ...), in which no y occurs twice.
    """
    return _in_batch(net.f(x), net.g(y))


def npair(net: SoftmaxNet, x: Tensor, y: Tensor) -> Tensor:
    """Multi-class N-pair: as `infonce`, with f on both sides."""
    return _in_batch(net.f(x), net.f(y))


def _in_batch(f: Tensor, g: Tensor) -> Tensor:
    return -log_likelihood(f @ g.transpose(-1, -2), torch.arange(len(f))).mean()


def autoregressive(net: SoftmaxNet, tokens: Tensor) -> Tensor:
    """Language model: x is the text before a token, S the vocabulary.

    Parameters
    ----------
    net : SoftmaxNet
        f takes (n, T) tokens to (n, T, M), each position seeing only itself and earlier ones.
    tokens : Tensor
        (n, T + 1).
    """
    return supervised(net, tokens[..., :-1], tokens[..., 1:])


def masked(net: SoftmaxNet, tokens: Tensor, targets: Tensor) -> Tensor:
    """Masked language model: x is the corrupted text at a masked position, S the vocabulary.

    Parameters
    ----------
    net : SoftmaxNet
        f takes (n, T) tokens to (n, T, M).
    tokens : Tensor
        (n, T), with the masked ones replaced.
    targets : Tensor
        (n, T): the original token where masked, −100 elsewhere.
    """
    return supervised(net, tokens, targets)


def nplm(net: SoftmaxNet, context: Tensor, word: Tensor) -> Tensor:
    """Neural probabilistic language model with the full softmax: S is the vocabulary.

    Parameters
    ----------
    net : SoftmaxNet
        f such as `LogBilinear`.
    context, word : Tensor
        Context words (n, c) and the word to predict (n,).
    """
    return supervised(net, context, word)


def nce(net: SoftmaxNet, context: Tensor, word: Tensor, noise: Tensor, log_noise: Tensor) -> Tensor:
    """Noise-contrastive estimation: is a word from the data, or one of k drawn from the noise?

    −log σ(Δ(w)) − Σ_j log σ(−Δ(w_j)) with Δ(w) = s(w, h) − log(k p_noise(w)): at the optimum the
    score itself is log p(w|h), so that the gauge has no free constant.

    Parameters
    ----------
    net : SoftmaxNet
        As for `nplm`.
    context, word, noise : Tensor
        Context words (n, c), right words (n,), noise words (n, k).
    log_noise : Tensor
        log p_noise of every word, (V,).
    """
    words = torch.cat([word.unsqueeze(-1), noise], -1)
    k = noise.shape[-1]
    odds = scores(net, net.f(context), words) - log_noise[words] - torch.log(torch.tensor(k))
    return -(_from_data(odds) + k * _from_noise(odds)).mean()


def negative_sampling(net: SoftmaxNet, context: Tensor, word: Tensor, noise: Tensor) -> Tensor:
    """Negative sampling: −log σ(s(w, h)) − mean_j log σ(−s(w_j, h)).

    At the optimum the score is log p(w|h) − log p_noise(w).

    Parameters
    ----------
    net : SoftmaxNet
        As for `nplm`.
    context, word, noise : Tensor
        Context words (n, c), right words (n,), noise words (n, k).
    """
    logits = scores(net, net.f(context), torch.cat([word.unsqueeze(-1), noise], -1))
    return -(_from_data(logits) + _from_noise(logits)).mean()


# Two candidates, "data" and "noise", with scores Δ and 0: log-softmax is log σ(±Δ).
def _from_data(odds: Tensor) -> Tensor:
    return functional.logsigmoid(odds[..., 0])


def _from_noise(odds: Tensor) -> Tensor:
    return functional.logsigmoid(-odds[..., 1:]).mean(-1)


OBJECTIVES: dict[str, Objective] = {
    "supervised": supervised,
    "diet": diet,
    "infonce": infonce,
    "cpc": infonce,
    "quickthought": infonce,
    "npair": npair,
    "autoregressive": autoregressive,
    "masked": masked,
    "nplm": nplm,
    "nce": nce,
    "negative_sampling": negative_sampling,
}


def next_tokens(
    tokens: Tensor, pad: int, prompt: int | Sequence[int] | Tensor = 1
) -> tuple[Tensor, Tensor]:
    """Inputs and labels for `supervised`, with a loss on everything that follows the prompt.

    The label at the prompt's last token is the first new token, so that the model also learns, for
    example, that a prompt may already be complete. PAD is never a label.

    Parameters
    ----------
    tokens : Tensor
        (n, T); each row is a prompt, its completion, and PAD.
    pad : int
        The token of PAD.
    prompt : int or (n,) ints
        The number of given tokens, which are not predicted, including SOS; 1 is a plain language
        model.

    Examples
    --------
    >>> import torch
    >>> next_tokens(torch.tensor([[2, 0, 1, 3], [2, 1, 3, 4]]), pad=4, prompt=2)
    (tensor([[2, 0, 1],
            [2, 1, 3]]), tensor([[-100,    1,    3],
            [-100,    3, -100]]))
    """
    given = torch.as_tensor(prompt).reshape(-1, 1)
    if given.min() < 1 or given.max() >= tokens.shape[-1]:
        raise InputError(
            f"a prompt must have at least 1 token, and fewer than the {tokens.shape[-1]} of its "
            f"row; got {int(given.min())} to {int(given.max())}"
        )
    labels = tokens[..., 1:].clone()
    labels[(torch.arange(1, tokens.shape[-1]) < given) | (labels == pad)] = IGNORE
    return tokens[..., :-1], labels


def sequence_loss(net: SoftmaxNet, x: Tensor, y: Tensor) -> Tensor:
    """The loss in nats per sequence: as `supervised`, but summed over the labels of a sequence.

    It cannot fall below the entropy of the sequences.

    Parameters
    ----------
    net : SoftmaxNet
        f takes (n, T) tokens to (n, T, M).
    x, y : Tensor
        Inputs and labels, as `next_tokens` returns them.
    """
    return supervised(net, x, y) * (y != IGNORE).sum() / len(y)


@torch.no_grad()
def greedy(net: SoftmaxNet, prompts: Tensor, longest: int, stop: int) -> tuple[Tensor, Tensor]:
    """Append the likeliest next token repeatedly, until `stop` or `longest` new tokens.

    Parameters
    ----------
    net : SoftmaxNet
        f takes (n, T) tokens to (n, T, M), each position seeing only itself and earlier ones.
    prompts : Tensor
        (n, T), all of the same length.
    longest : int
        The largest number of new tokens.
    stop : int
        The token that ends a completion.

    Returns
    -------
    new : Tensor
        (n, at most longest): the new tokens; after a `stop`, the rest of the row is `stop` too.
    finished : Tensor
        (n,): whether `stop` was reached.
    """
    if longest < 1:
        raise InputError(f"a completion has at least 1 new token, not {longest}")
    was_training = net.training
    net.eval()
    tokens, finished = prompts, torch.zeros(len(prompts), dtype=torch.bool)
    while tokens.shape[-1] < prompts.shape[-1] + longest and not finished.all():
        # Only unfinished rows are computed.
        going = ~finished
        likeliest = scores(net, net.f(tokens[going])[:, -1]).argmax(-1)
        new = torch.full((len(prompts),), stop)
        new[going] = likeliest
        finished = finished | (new == stop)
        tokens = torch.cat([tokens, new[:, None]], -1)
    net.train(was_training)
    return tokens[:, prompts.shape[-1] :], finished
