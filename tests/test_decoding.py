"""Language models without positions and of the present kind, and what they write."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from scipy.special import log_softmax

from conftest import close
from identikit.errors import InputError

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from identikit.learn import (  # noqa: E402
    LSTM,
    Decoder,
    Lookup,
    SoftmaxNet,
    Transformer,
    autoregressive,
    greedy,
    next_tokens,
    shuffled,
    supervised,
    train,
)
from identikit.learn._sequences import turned  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread(seed: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    yield
    torch.set_num_threads(before)


def spread(net: nn.Module) -> nn.Module:
    """The same network with weights large enough that everything shows."""
    for parameter in net.parameters():
        nn.init.normal_(parameter, std=0.5)
    return net.double()


# Encoders


def test_without_positions_only_the_mask_tells_the_order() -> None:
    """One block: the last state does not change if earlier tokens change places."""
    tokens = torch.tensor([[1, 2, 3, 4, 5]])
    swapped = torch.tensor([[3, 1, 4, 2, 5]])
    bare = spread(Transformer(9, 8, 1, 2, context=None))
    close(bare(tokens)[:, -1].detach(), bare(swapped)[:, -1].detach(), 1e-12)
    assert (bare(tokens)[:, 0] - bare(swapped)[:, 0]).abs().max() > 1e-3
    placed = spread(Transformer(9, 8, 1, 2, context=5))
    assert (placed(tokens)[:, -1] - placed(swapped)[:, -1]).abs().max() > 1e-3
    # A second block sees states that know how many came before them.
    deep = spread(Transformer(9, 8, 2, 2, context=None))
    assert (deep(tokens)[:, -1] - deep(swapped)[:, -1]).abs().max() > 1e-3
    assert bare(torch.zeros(1, 100).long()).shape == (1, 100, 8)


def test_widths_of_parts() -> None:
    assert Transformer(5, 10, 1, 5, None, hidden=256).blocks[0].up.weight.shape == (256, 10)
    assert LSTM(5, 32, embedding=16).lstm.weight_ih_l0.shape == (4 * 32, 16)
    assert Decoder(5, 12, 1, 2).blocks[0].gate.weight.shape == (32, 12)
    assert not list(Decoder(5, 12, 1, 2).buffers())


def test_a_turn_keeps_lengths_and_scores_depend_on_the_distance_only() -> None:
    query, key = torch.randn(2, 1, 6, dtype=torch.float64).expand(2, 9, 6)
    close(turned(query).norm(dim=-1), query.norm(dim=-1), 1e-12)
    scores = turned(query) @ turned(key).T
    for distance in range(-8, 9):
        along = scores.diagonal(distance)
        close(along, along[:1].expand_as(along), 1e-12)
    assert scores[0].std() > 1e-2


def test_decoder_is_llama() -> None:
    """The same weights in transformers' LlamaModel give the same states."""
    transformers = pytest.importorskip("transformers")
    net = spread(Decoder(13, 8, 2, 2, hidden=12))
    config = transformers.LlamaConfig(
        vocab_size=13,
        hidden_size=8,
        intermediate_size=12,
        num_hidden_layers=2,
        num_attention_heads=2,
        rms_norm_eps=torch.finfo(torch.float64).eps,
        attn_implementation="eager",
    )
    llama = transformers.LlamaModel(config).double().eval()
    weights = {"embed_tokens.weight": net.tokens.weight, "norm.weight": net.norm.weight}
    for i, block in enumerate(net.blocks):
        parts = zip("qkv", block.query_key_value.weight.split(8))
        weights |= {f"layers.{i}.self_attn.{name}_proj.weight": part for name, part in parts}
        for theirs, ours in (
            ("self_attn.o_proj", block.out),
            ("mlp.gate_proj", block.gate),
            ("mlp.up_proj", block.up),
            ("mlp.down_proj", block.down),
            ("input_layernorm", block.norm_1),
            ("post_attention_layernorm", block.norm_2),
        ):
            weights[f"layers.{i}.{theirs}.weight"] = ours.weight
    llama.load_state_dict({name: tensor.detach() for name, tensor in weights.items()})
    tokens = torch.randint(13, (3, 7))
    with torch.no_grad():
        close(net(tokens), llama(tokens).last_hidden_state, 1e-5)


def test_decoders_of_several_seeds_train_as_a_stack() -> None:
    tokens = torch.randint(5, (32, 9))

    def build() -> SoftmaxNet:
        return SoftmaxNet(Decoder(5, 8, 1, 2), Lookup(5, 8))

    call = (build, autoregressive, shuffled((tokens,), 16), 5)
    stack, single = (train(*call, seeds=range(2), together=way) for way in (True, False))
    for name, tensor in stack.weights[5].items():
        close(tensor, single.weights[5][name], 1e-4)


def test_a_width_that_cannot_turn() -> None:
    with pytest.raises(InputError, match=r"15 cannot be split into 5 heads.*multiple of 10"):
        Decoder(5, 15, 1, 5)


# Completions


def test_the_first_new_token_is_learned_and_the_prompt_is_not() -> None:
    """The loss is that of what follows the prompt, by hand."""
    net = SoftmaxNet(Transformer(6, 8, 1, 2, None), Lookup(6, 8))
    tokens = torch.tensor([[2, 0, 1, 1, 3], [2, 1, 3, 4, 4], [2, 0, 0, 3, 4]])
    with torch.no_grad():
        logits = net.f(tokens[:, :-1]) @ net.g().T
    logs = log_softmax(logits.double().numpy(), axis=-1)
    wanted = [(0, 1, 1), (0, 2, 1), (0, 3, 3), (1, 1, 3), (2, 1, 0), (2, 2, 3)]
    expected = -np.mean([logs[place] for place in wanted])
    close(supervised(net, *next_tokens(tokens, 4, prompt=2)).item(), expected, 1e-6)
    own = next_tokens(tokens, 4, prompt=torch.tensor([3, 2, 1]))[1]
    assert own.tolist() == [[-100, -100, 1, 3], [-100, 3, -100, -100], [0, 0, 3, -100]]
    # Without PAD and with a prompt of SOS it is the plain language model.
    close(
        supervised(net, *next_tokens(tokens[:1], 4)).item(),
        autoregressive(net, tokens[:1]).item(),
        1e-6,
    )


@pytest.mark.parametrize("prompt", [0, 5, [1, 5]])
def test_a_prompt_leaves_something_to_predict(prompt: object) -> None:
    with pytest.raises(InputError, match="fewer than the 5 of its row"):
        next_tokens(torch.zeros(2, 5).long(), 4, prompt)


class Counting(nn.Module):
    """Writes 1 until there are as many as 0, then 3: logits by hand, as f with g = I."""

    def forward(self, tokens: Tensor) -> Tensor:
        gap = (tokens == 0).cumsum(-1) - (tokens == 1).cumsum(-1)
        likeliest = torch.where(gap > 0, 1, torch.where(gap == 0, 3, 0))
        return nn.functional.one_hot(likeliest, 4).float()


def test_greedy_stops_where_the_model_does() -> None:
    net = SoftmaxNet(Counting(), Lookup(4, 4))
    net.g.weight.data = torch.eye(4)
    prompts = torch.tensor([[2, 0, 0, 0], [2, 0, 1, 0], [2, 0, 1, 2], [2, 1, 1, 1]])
    new, finished = greedy(net, prompts, 10, stop=3)
    assert new.tolist() == [[1, 1, 1, 3], [1, 3, 3, 3], [3, 3, 3, 3], [0, 0, 0, 3]]
    assert finished.all()
    new, finished = greedy(net, prompts, 2, stop=3)
    assert new.tolist() == [[1, 1], [1, 3], [3, 3], [0, 0]]
    assert finished.tolist() == [False, True, True, False]
    with pytest.raises(InputError, match="at least 1 new token, not 0"):
        greedy(net, prompts, 0, stop=3)


@pytest.mark.parametrize("f", [lambda: LSTM(5, 8), lambda: Decoder(5, 8, 2, 2)])
def test_greedy_is_the_likeliest_token_one_row_at_a_time(f) -> None:
    net = SoftmaxNet(spread(f()), spread(Lookup(5, 8))).train()
    prompts = torch.randint(5, (20, 4))
    new, finished = greedy(net, prompts, 6, stop=3)
    assert net.training
    for prompt, own, done in zip(prompts.tolist(), new.tolist(), finished.tolist()):
        row = list(prompt)
        while len(row) < 10 and 3 not in row[4:]:
            with torch.no_grad():
                row.append(int((net.f(torch.tensor([row]))[0, -1] @ net.g().T).argmax()))
        written = row[4:]
        assert written == own[: len(written)]
        assert done == (3 in written)
        assert set(own[len(written) :]) <= {3}
