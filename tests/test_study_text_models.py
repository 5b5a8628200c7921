"""Text of roeder-gpt2 and nelson-pairs as windows of tokens, and the GPT-2s of the latter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import close
from identikit.errors import InputError
from identikit.studies import Data, Settings
from identikit.studies import roeder_gpt2 as study

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("tokenizers")

from identikit.learn import autoregressive  # noqa: E402
from identikit.studies import _text_models as models  # noqa: E402


def test_f_times_g_are_the_logits_of_gpt2() -> None:
    net = models.gpt2(50, 32, 3, 12)
    own = transformers.GPT2LMHeadModel(net.f.transformer.config).eval()
    own.transformer.load_state_dict(net.f.transformer.state_dict())
    tokens = torch.randint(50, (4, 12), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = own(tokens, output_hidden_states=True, labels=tokens)
        f = net.eval().f(tokens)
        close((f @ net.g().T).numpy(), expected.logits.numpy(), 1e-5)
        close(float(autoregressive(net, tokens)), float(expected.loss), 1e-5)
        for back in (1, 2, 3):
            state = expected.hidden_states[-1 - back].numpy()
            close(net.f.states(tokens, back).numpy(), state, 1e-5)
    # One tensor, so that training changes both.
    assert net.g.weight is net.f.transformer.wte.weight
    assert not any(isinstance(m, torch.nn.Dropout) and m.p for m in net.modules())


def test_a_width_that_has_no_heads_is_refused() -> None:
    with pytest.raises(InputError, match="multiple of 16"):
        models.gpt2(50, 40, 1, 8)


def settings(**changes: Any) -> Settings:
    return Settings(study.STUDY.presets["smoke"] | changes)


def test_windows_follow_each_other_and_held_out_text_comes_last() -> None:
    s = settings(max_words=3000, context=8, windows=12, batch=4)
    record = models.tokens(s, Data("grammar"))
    train, test = record.arrays["train"], record.arrays["test"]
    assert train.shape[1] == 9
    assert test.shape == (12, 9)
    assert (train[1:, 0] == train[:-1, -1]).all()
    assert record.rows[0]["vocabulary"] == 500
    assert max(train.max(), test.max()) < 500
    again = models.tokens(s, Data("grammar"))
    assert all((again.arrays[name] == record.arrays[name]).all() for name in record.arrays)


def test_a_text_shorter_than_a_batch_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "short.txt"
    file.write_text("one two three\nfour five six\n" * 5)
    with pytest.raises(InputError, match="too few for a batch of 16 windows of 16"):
        models.tokens(settings(), Data(file))


def test_the_weights_of_a_record_are_those_of_the_training(tmp_path: Path) -> None:
    s = settings(
        blocks=2, steps=20, trained_layers=[0, 1, 2], windows=40, max_words=10_000, vocabulary=400
    )
    text = models.tokens(s, Data("grammar"))
    vocabulary = text.rows[0]["vocabulary"]
    record = models.learn(16, 3, tmp_path, text.arrays, vocabulary, s)
    back = models.restored((16, 3, record), vocabulary, s)
    windows = text.arrays["test"]
    model = back.model(3, torch.from_numpy(windows[:, :-1]))
    right = model.log_prob()[np.arange(model.n), windows[:, 1:].ravel()]
    # The training validated on all whole batches of the same windows.
    whole = len(windows) // s.batch * s.batch * s.context
    close(-right[:whole].mean(), record.rows[-1]["validation"], 1e-5)
    assert record.rows[-1]["step"] == 20
    at = models.states(back, 20, 0, windows[:, :-1])
    close(at, model.f, 1e-5)
    assert np.abs(models.states(back, 0, 0, windows[:, :-1]) - at).max() > 0.01


def test_real_text_has_windows(data_dir: Path) -> None:
    record = models.tokens(settings(max_words=20_000, vocabulary=600), Data(data_dir))
    assert record.rows[0]["vocabulary"] == 600
    train = record.arrays["train"]
    # Tokens are pieces of words, and the frequent ones whole words: one to three a word.
    assert 19_000 < train[:, 1:].size < 60_000
    assert len(record.arrays["test"]) >= models.FEWEST
