"""What a language model writes after a prompt, and how it is taught to."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from identikit.errors import InputError
from identikit.learn._modules import SoftmaxNet
from identikit.learn._objectives import IGNORE, scores, supervised


def next_tokens(
    tokens: Tensor, pad: int, prompt: int | Sequence[int] | Tensor = 1
) -> tuple[Tensor, Tensor]:
    """Inputs and labels of `supervised` with a loss on all that follows the prompt.

    The label at the prompt's last token is the first new one: it is learned too, and with it, say,
    that a prompt may already be complete. PAD is no label.

    Parameters
    ----------
    tokens : Tensor
        (n, T), each row a prompt, what follows it, and PAD.
    pad : int
        The token of PAD.
    prompt : int or (n,) ints
        Tokens that are given and not to be predicted, SOS included; 1 is the plain language model.

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
            f"a prompt has at least 1 token and fewer than the {tokens.shape[-1]} of its row; got "
            f"{int(given.min())} to {int(given.max())}"
        )
    labels = tokens[..., 1:].clone()
    labels[(torch.arange(1, tokens.shape[-1]) < given) | (labels == pad)] = IGNORE
    return tokens[..., :-1], labels


def sequence_loss(net: SoftmaxNet, x: Tensor, y: Tensor) -> Tensor:
    """Nats a sequence: as `supervised`, but the sum over a sequence's labels.

    Its floor is the entropy of the sequences.

    Parameters
    ----------
    net : SoftmaxNet
        f takes (n, T) tokens to (n, T, M).
    x, y : Tensor
        Inputs and labels, as by `next_tokens`.
    """
    return supervised(net, x, y) * (y != IGNORE).sum() / len(y)


@torch.no_grad()
def greedy(net: SoftmaxNet, prompts: Tensor, longest: int, stop: int) -> tuple[Tensor, Tensor]:
    """The likeliest next token, again and again, until `stop` or `longest` new tokens.

    Parameters
    ----------
    net : SoftmaxNet
        f takes (n, T) tokens to (n, T, M), each position seeing only those before it.
    prompts : Tensor
        (n, T), of one length.
    longest : int
        The most new tokens.
    stop : int
        The token that ends a completion.

    Returns
    -------
    new : Tensor
        (n, at most longest): the new tokens; what follows a `stop` is `stop` again.
    finished : Tensor
        (n,): whether a `stop` was written.
    """
    if longest < 1:
        raise InputError(f"a completion has at least 1 new token, not {longest}")
    was_training = net.training
    net.eval()
    tokens, finished = prompts, torch.zeros(len(prompts), dtype=torch.bool)
    while tokens.shape[-1] < prompts.shape[-1] + longest and not finished.all():
        # Only what still goes on is computed.
        going = ~finished
        likeliest = scores(net, net.f(tokens[going])[:, -1]).argmax(-1)
        new = torch.full((len(prompts),), stop)
        new[going] = likeliest
        finished = finished | (new == stop)
        tokens = torch.cat([tokens, new[:, None]], -1)
    net.train(was_training)
    return tokens[:, prompts.shape[-1] :], finished
