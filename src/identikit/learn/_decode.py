"""Greedy completions of a language model, and the labels and loss to train it on completions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from identikit.errors import InputError
from identikit.learn._modules import SoftmaxNet
from identikit.learn._objectives import IGNORE, scores, supervised

__all__ = ["greedy", "next_tokens", "sequence_loss"]


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
