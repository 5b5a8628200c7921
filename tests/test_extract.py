"""Every stored number against a plain forward pass, one sentence at a time and without padding."""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import identikit as ik
from conftest import HANGS, close
from identikit import extract
from identikit.cli import app
from identikit.errors import InputError, MissingExtraError
from identikit.extract import _tokens

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

pytestmark = pytest.mark.long

TOL = 1e-5
WORDS = [f"w{number}" for number in range(40)]
SPECIAL = ["[UNK]", "[PAD]", "[CLS]", "[SEP]"]
VOCABULARY = len(WORDS) + len(SPECIAL)
SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
}
TEXT = {"vocab_size": VOCABULARY, "max_position_embeddings": 32, "pad_token_id": 1} | SMALL
TOKENS = {"bos_token_id": 2, "eos_token_id": 3}
VISION = {"image_size": 32, "patch_size": 8} | SMALL


@pytest.fixture(autouse=True)
def quiet_library():
    """As in a user's session, transformers' own words must not depend on us: restored after."""
    log = transformers.logging
    level = log.get_verbosity()
    log.set_verbosity_error()
    log.disable_progress_bar()
    yield
    log.set_verbosity(level)
    log.enable_progress_bar()


def shaken(model):
    """The model with every weight random, so that no bias is zero and no norm the identity."""
    torch.manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    return model.eval()


def save_tokenizer(folder: Path, *, special: bool) -> None:
    ids = {word: at for at, word in enumerate(SPECIAL + WORDS)}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(ids, "[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    # A character that is thrown away, so that a line may have no token at all.
    made.normalizer = tokenizers.normalizers.Replace("~", "")
    if special:
        made.post_processor = tokenizers.processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]"
    ).save_pretrained(folder)


def gpt2():
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=32, n_embd=16, n_layer=3, n_head=2, **TOKENS
    )
    return transformers.GPT2LMHeadModel(config)


def llama():
    config = transformers.LlamaConfig(**TEXT, **TOKENS, tie_word_embeddings=False)
    return transformers.LlamaForCausalLM(config)


def neox():
    return transformers.GPTNeoXForCausalLM(
        transformers.GPTNeoXConfig(**TEXT, **TOKENS, tie_word_embeddings=False)
    )


def bert():
    return transformers.BertForMaskedLM(transformers.BertConfig(**TEXT))


def pretrained_bert():
    return transformers.BertForPreTraining(transformers.BertConfig(**TEXT))


def roberta():
    return transformers.RobertaForMaskedLM(transformers.RobertaConfig(**TEXT))


def encoder():
    return transformers.BertModel(transformers.BertConfig(**TEXT))


def discriminator():
    return transformers.ElectraForPreTraining(transformers.ElectraConfig(**TEXT, embedding_size=16))


def scaled():
    return transformers.CohereForCausalLM(
        transformers.CohereConfig(**TEXT, **TOKENS, logit_scale=0.25)
    )


def capped():
    config = transformers.Gemma2Config(
        **TEXT, **TOKENS, head_dim=8, num_key_value_heads=1, final_logit_softcapping=2.0
    )
    return transformers.Gemma2ForCausalLM(config)


def vit():
    return transformers.ViTForImageClassification(transformers.ViTConfig(**VISION, num_labels=5))


def dino():
    return transformers.Dinov2Model(transformers.Dinov2Config(**VISION))


def clip():
    part = {"projection_dim": 8}
    config = transformers.CLIPConfig(
        text_config=TEXT | TOKENS | part, vision_config=VISION | part, **part
    )
    return transformers.CLIPModel(config)


def swin():
    config = transformers.SwinConfig(
        image_size=32, patch_size=4, embed_dim=8, depths=[1, 1], num_heads=[2, 2], window_size=4
    )
    return transformers.SwinModel(config)


def resnet():
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 12], depths=[1, 1], layer_type="basic", num_labels=5
    )
    return transformers.ResNetForImageClassification(config)


def t5():
    return transformers.T5ForConditionalGeneration(
        transformers.T5Config(
            vocab_size=VOCABULARY, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2
        )
    )


WITHOUT_SPECIAL = (gpt2, neox, scaled, capped, clip)
VISIONARY = (vit, dino, clip, swin, resnet)


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory):
    """A function that gives the folder of a model, saved once."""
    there: dict[str, Path] = {}

    def give(make) -> Path:
        name = make.__name__
        if name not in there:
            log = transformers.logging
            log.set_verbosity_error()
            log.disable_progress_bar()
            there[name] = tmp_path_factory.mktemp("models") / name
            torch.manual_seed(0)
            shaken(make()).save_pretrained(there[name])
            if make in VISIONARY:
                transformers.ViTImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(
                    there[name]
                )
            if make not in VISIONARY or make is clip:
                save_tokenizer(there[name], special=make not in WITHOUT_SPECIAL)
        return there[name]

    return give


@pytest.fixture
def sentences(rng) -> list[str]:
    return [" ".join(rng.choice(WORDS, rng.integers(1, 25))) for _ in range(50)]


@pytest.fixture
def text_file(tmp_path, sentences) -> Path:
    path = tmp_path / "sentences.txt"
    path.write_text("\n".join(sentences) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def pictures(tmp_path, rng) -> tuple[Path, np.ndarray]:
    """A folder of 7 images, in two folders, and their pixels in the order of their names."""
    from PIL import Image

    pixels = rng.integers(0, 256, size=(7, 32, 32, 3)).astype(np.uint8)
    for number, picture in enumerate(pixels):
        path = tmp_path / "pictures" / ("a" if number < 4 else "b") / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(path)
    (tmp_path / "pictures" / "notes.txt").write_text("not an image")
    return tmp_path / "pictures", pixels


def ids_of(sentence: str, make) -> list[int]:
    ids = [len(SPECIAL) + int(word[1:]) for word in sentence.split()]
    return ids if make in WITHOUT_SPECIAL else [2, *ids, 3]


def read(folder: Path, name: str) -> np.ndarray:
    return np.load(folder / f"{name}.npy", allow_pickle=False)


def plainly(folder: Path, make, sentences):
    """Hidden states and logits of each sentence by itself, by the class's own loader."""
    model = type(make()).from_pretrained(folder).eval()
    states, logits = [], []
    with torch.no_grad():
        for sentence in sentences:
            ids = torch.tensor([ids_of(sentence, make)])
            out = model(input_ids=ids, output_hidden_states=True)
            states.append([state[0].numpy() for state in out.hidden_states])
            if "logits" in out:
                logits.append(out.logits[0].numpy())
    return model, states, logits


def log_softmax(logits: np.ndarray) -> np.ndarray:
    return torch.tensor(logits, dtype=torch.float64).log_softmax(-1).numpy()


def refused(match: str, call, *arguments, **options) -> None:
    with pytest.raises(InputError, match=match):
        call(*arguments, **options)


# Text


@pytest.mark.parametrize("make", [gpt2, llama, neox, bert, roberta, pretrained_bert])
def test_every_state_is_that_of_a_plain_pass_and_f_and_g_give_the_logits(
    make, folder_of, text_file, sentences, tmp_path
):
    # BertForPreTraining has a second head, of which the masked model knows nothing.
    plain = bert if make is pretrained_bert else make
    model, states, logits = plainly(folder_of(make), plain, sentences)
    out = tmp_path / "out"
    manifest = extract.text(folder_of(make), text_file, out, batch_size=7)
    depth = len(states[0])
    assert [layer["layer"] for layer in manifest["layers"]] == list(range(depth))
    for layer in range(depth):
        expected = np.concatenate([sentence[layer] for sentence in states])
        close(read(out, f"layer_{layer:02d}"), expected, TOL, np.abs(expected).max())
    bias = read(out, "bias") if (out / "bias.npy").exists() else 0.0
    expected = log_softmax(np.concatenate(logits))
    f, g = (read(out, name).astype(np.float64) for name in "fg")
    close(log_softmax(f @ g.T + bias), expected, 10 * TOL)
    # And the library's own reading of the same files.
    loaded = ik.SoftmaxModel(f, g, None if isinstance(bias, float) else bias)
    close(loaded.log_prob(), expected, 10 * TOL)
    lengths = [len(sentence[0]) for sentence in states]
    assert manifest["rows"] == manifest["tokens"] == sum(lengths)
    assert manifest["kind"] == ("causal" if make in (gpt2, llama, neox) else "masked")
    assert manifest["model"]["class"] == type(model).__name__
    assert read(out, "groups").tolist() == np.repeat(np.arange(50), lengths).tolist()
    tokens = [ids_of(sentence, make) for sentence in sentences]
    assert read(out, "tokens").tolist() == np.concatenate(tokens).tolist()
    assert read(out, "positions").tolist() == np.concatenate([*map(np.arange, lengths)]).tolist()


def test_what_the_manifest_says_of_norms_heads_and_the_text(folder_of, text_file, tmp_path):
    manifest = extract.text(folder_of(gpt2), text_file, tmp_path / "a")
    norms = [(layer["norm"], layer["norm_module"]) for layer in manifest["layers"]]
    assert norms == [("pre norm", None)] * 3 + [("post norm", "transformer.ln_f")]
    assert manifest["f"]["what"] == "input of lm_head"
    assert manifest["f"]["norm_module"] == "transformer.ln_f"
    assert manifest["g"] == {
        "file": "g.npy",
        "labels": VOCABULARY,
        "what": "weight of lm_head",
        "bias": None,
    }
    digest = hashlib.sha256(text_file.read_bytes()).hexdigest()
    assert manifest["text"] == {"file": text_file.name, "sha256": digest, "lines": 50, "blank": 0}
    assert manifest["tokenizer"]["adds"] == []
    assert manifest["tokenizer"]["max_length"] == 32
    assert (manifest["identikit"], manifest["dtype"]) == (ik.__version__, "float32")
    assert manifest["model"]["name"] == "gpt2"
    assert "f.npy" in manifest["files"]
    assert str(tmp_path) not in json.dumps(manifest)
    manifest = extract.text(folder_of(bert), text_file, tmp_path / "b")
    assert {layer["norm"] for layer in manifest["layers"]} == {"post norm"}
    assert manifest["f"]["norm_module"] == "cls.predictions.transform.LayerNorm"
    assert manifest["g"]["bias"] == "bias.npy"
    assert manifest["tokenizer"]["adds"] == ["[CLS]", "[SEP]"]


def test_a_norm_whose_output_is_changed_in_place_is_not_what_follows(
    folder_of, text_file, tmp_path, monkeypatch
):
    usual = transformers.GPT2Model.forward

    def forward(self, *args, **kwargs):
        result = usual(self, *args, **kwargs)
        result.last_hidden_state.add_(1)
        return result

    monkeypatch.setattr(transformers.GPT2Model, "forward", forward)
    manifest = extract.text(folder_of(gpt2), text_file, tmp_path / "out", layers="last")
    assert manifest["layers"][0]["norm"] == "pre norm"


def test_a_constant_on_the_logits_is_a_part_of_g(folder_of, text_file, sentences, tmp_path):
    _, _, logits = plainly(folder_of(scaled), scaled, sentences)
    extract.text(folder_of(scaled), text_file, tmp_path / "out", layers="last")
    f, g = (read(tmp_path / "out", name).astype(np.float64) for name in "fg")
    close(f @ g.T, np.concatenate(logits), TOL, np.abs(np.concatenate(logits)).max())


def test_a_soft_cap_leaves_no_softmax_model(folder_of, text_file, sentences, tmp_path):
    manifest = extract.text(folder_of(capped), text_file, tmp_path / "out")
    assert manifest["f"] is None
    assert "more than f·g" in manifest["no_f"]
    assert not (tmp_path / "out" / "g.npy").exists()
    _, states, _ = plainly(folder_of(capped), capped, sentences)
    expected = np.concatenate([sentence[1] for sentence in states])
    close(read(tmp_path / "out", "layer_01"), expected, TOL, np.abs(expected).max())


def test_a_model_that_uses_all_its_logits_still_runs(
    folder_of, text_file, sentences, tmp_path, monkeypatch
):
    _, _, logits = plainly(folder_of(gpt2), gpt2, sentences)
    own = transformers.GPT2LMHeadModel.forward

    def forward(self, *args, **kwargs):
        out = own(self, *args, **kwargs)
        out.logits = out.logits + torch.zeros(VOCABULARY)
        return out

    monkeypatch.setattr(transformers.GPT2LMHeadModel, "forward", forward)
    extract.text(folder_of(gpt2), text_file, tmp_path / "out", layers="last")
    f, g = (read(tmp_path / "out", name).astype(np.float64) for name in "fg")
    close(log_softmax(f @ g.T), log_softmax(np.concatenate(logits)), 10 * TOL)


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (lambda _: None, "has no prediction head"),
        (lambda _: torch.nn.Linear(16, VOCABULARY), "has no prediction head"),
        (lambda model: model.bert.embeddings.dropout, "does not call its head (bert.embeddings.d"),
        (lambda model: model.bert.encoder.layer[0].attention.output.dense, "not those of its head"),
        (lambda model: model.bert.encoder.layer[0].output.dense, "not those of its head"),
    ],
)
def test_what_is_no_head_gives_no_g_and_spoils_nothing(
    head, reason, folder_of, text_file, sentences, tmp_path, monkeypatch
):
    _, states, _ = plainly(folder_of(bert), bert, sentences)
    monkeypatch.setattr(transformers.BertForMaskedLM, "get_output_embeddings", head)
    manifest = extract.text(folder_of(bert), text_file, tmp_path / "out", layers="last")
    assert reason in manifest["no_f"]
    close(read(tmp_path / "out", "layer_02"), np.concatenate([s[-1] for s in states]), TOL)


@pytest.mark.parametrize("pooling", ["mean", "first", "last"])
def test_pooled_rows_are_those_of_each_sentence(pooling, folder_of, text_file, sentences, tmp_path):
    _, states, _ = plainly(folder_of(gpt2), gpt2, sentences)
    out = tmp_path / "out"
    manifest = extract.text(folder_of(gpt2), text_file, out, pooling=pooling, batch_size=4)
    take = {"mean": lambda s: s.mean(0), "first": lambda s: s[0], "last": lambda s: s[-1]}[pooling]
    for layer in range(4):
        expected = np.stack([take(sentence[layer]) for sentence in states])
        close(read(out, f"layer_{layer:02d}"), expected, TOL, np.abs(expected).max())
    assert read(out, "groups").tolist() == list(range(50))
    assert (manifest["rows"], manifest["sentences"]) == (50, 50)
    assert not (out / "tokens.npy").exists()
    if pooling == "mean":
        assert manifest["f"] is None
        assert "mean over tokens" in manifest["no_f"]
    else:
        expected = np.stack([take(sentence[-1]) for sentence in states])
        close(read(out, "f"), expected, TOL, np.abs(expected).max())


def test_a_sentence_encoder_is_pooled_by_its_mean_and_has_no_f(
    folder_of, text_file, sentences, tmp_path
):
    _, states, _ = plainly(folder_of(encoder), encoder, sentences)
    manifest = extract.text(folder_of(encoder), text_file, tmp_path / "out")
    expected = np.stack([sentence[-1].mean(0) for sentence in states])
    close(read(tmp_path / "out", "layer_02"), expected, TOL)
    assert (manifest["kind"], manifest["pooling"]) == ("encoder", "mean")
    assert manifest["no_f"] == "the model has no prediction head"


def test_a_discriminator_is_an_encoder(folder_of, text_file, sentences, tmp_path):
    """ElectraForPreTraining: named like BertForPreTraining, but without a head over words."""
    _, states, _ = plainly(folder_of(discriminator), discriminator, sentences)
    manifest = extract.text(folder_of(discriminator), text_file, tmp_path / "out")
    assert (manifest["kind"], manifest["model"]["class"]) == ("encoder", "ElectraModel")
    expected = np.stack([sentence[-1].mean(0) for sentence in states])
    close(read(tmp_path / "out", "layer_02"), expected, TOL)


def sentence_folder(source: Path, target: Path, pooling: dict[str, object]) -> Path:
    """As sentence-transformers lays it out: the transformer in a folder of its own."""
    import shutil

    shutil.copytree(source, target / "0_Transformer")
    (target / "1_Pooling").mkdir()
    (target / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    kinds = [("Transformer", "0_Transformer"), ("Pooling", "1_Pooling"), ("Normalize", "2_N")]
    modules = [{"type": f"sentence_transformers.models.{kind}", "path": at} for kind, at in kinds]
    (target / "modules.json").write_text(json.dumps(modules))
    return target


@pytest.mark.parametrize(
    ("pooling", "chosen"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "first"),
        ({"pooling_mode_mean_tokens": True, "include_prompt": True}, "mean"),
        ({"pooling_mode_lasttoken": True}, "last"),
        ({"pooling_mode": "cls"}, "first"),
    ],
)
def test_a_sentence_encoders_own_pooling(
    pooling, chosen, folder_of, text_file, sentences, tmp_path
):
    folder = sentence_folder(folder_of(bert), tmp_path / "model", pooling)
    manifest = extract.text(folder, text_file, tmp_path / "out", layers="last")
    assert (manifest["kind"], manifest["pooling"]) == ("encoder", chosen)
    assert manifest["left_out"] == ["Normalize"]
    _, states, _ = plainly(folder_of(bert), bert, sentences)
    take = {"mean": lambda s: s.mean(0), "first": lambda s: s[0], "last": lambda s: s[-1]}[chosen]
    close(read(tmp_path / "out", "layer_02"), np.stack([take(s[-1]) for s in states]), TOL)


def test_a_sentence_encoder_with_another_pooling_needs_a_choice(folder_of, text_file, tmp_path):
    folder = sentence_folder(folder_of(bert), tmp_path / "m", {"pooling_mode_max_tokens": True})
    refused("pooling_mode_max_tokens.*asks", extract.text, folder, text_file, tmp_path / "out")
    extract.text(folder, text_file, tmp_path / "out", pooling="mean")
    (folder / "1_Pooling" / "config.json").unlink()
    refused("modules.json", extract.text, folder, text_file, tmp_path / "other")


def test_special_tokens_can_be_left_out(folder_of, text_file, sentences, tmp_path):
    out = tmp_path / "out"
    manifest = extract.text(folder_of(bert), text_file, out, special_tokens=False)
    ids = [ids_of(sentence, gpt2) for sentence in sentences]
    assert read(out, "tokens").tolist() == np.concatenate(ids).tolist()
    assert manifest["tokenizer"]["adds"] == []
    model = transformers.BertModel.from_pretrained(folder_of(bert)).eval()
    with torch.no_grad():
        expected = [model(torch.tensor([line])).last_hidden_state[0].numpy() for line in ids]
    close(read(out, "layer_02"), np.concatenate(expected), TOL)


def test_long_lines_are_cut_and_counted(folder_of, tmp_path):
    lines = [" ".join(WORDS), "w1 w2"]
    manifest = extract.text(folder_of(bert), lines, tmp_path / "out")
    assert manifest["tokenizer"]["truncated_lines"] == 1
    # [CLS], thirty words, [SEP]: the model has 32 positions.
    words = list(range(len(SPECIAL), len(SPECIAL) + 30))
    assert read(tmp_path / "out", "tokens").tolist() == [2, *words, 3, 2, 5, 6, 3]
    manifest = extract.text(folder_of(gpt2), lines, tmp_path / "five", max_length=5)
    assert np.bincount(read(tmp_path / "five", "groups")).tolist() == [5, 2]


def test_positions_of_roberta_end_before_its_table_does(folder_of, tmp_path):
    manifest = extract.text(folder_of(roberta), [" ".join(WORDS)], tmp_path / "out")
    assert manifest["tokenizer"]["max_length"] == 32 - 2
    assert manifest["rows"] == 30


def test_layers_by_number(folder_of, text_file, tmp_path):
    extract.text(folder_of(gpt2), text_file, tmp_path / "all")
    manifest = extract.text(folder_of(gpt2), text_file, tmp_path / "some", layers=[-1, 1, 1])
    assert [layer["file"] for layer in manifest["layers"]] == ["layer_01.npy", "layer_03.npy"]
    assert manifest["of_layers"] == 4
    for name in ("layer_01", "layer_03"):
        assert (read(tmp_path / "all", name) == read(tmp_path / "some", name)).all()
    call = (extract.text, folder_of(gpt2), text_file, tmp_path / "none")
    refused("no layer 4; this model has layers 0 to 3", *call, layers=[0, 4])
    refused("no layer -5", *call, layers=[-5])
    refused("layers is 'first'", *call, layers="first")
    refused(r"layers is \[\]", *call, layers=[])
    assert not (tmp_path / "none").exists()


def test_blank_lines_are_counted_but_have_no_rows(folder_of, tmp_path):
    lines = ["w1 w2", "", "  ", "w3", "~"]
    manifest = extract.text(folder_of(gpt2), lines, tmp_path / "out")
    assert read(tmp_path / "out", "groups").tolist() == [0, 0, 3]
    assert (manifest["text"]["lines"], manifest["text"]["blank"]) == (5, 2)
    assert manifest["sentences"] == 2  # one line is not blank, and yet without a token
    manifest = extract.text(folder_of(gpt2), lines, tmp_path / "limit", limit=2)
    assert (manifest["rows"], manifest["text"]["lines"]) == (2, 2)


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_compressed_text(suffix, pack, folder_of, text_file, tmp_path):
    packed = tmp_path / f"sentences.txt{suffix}"
    packed.write_bytes(pack(text_file.read_bytes()))
    extract.text(folder_of(gpt2), text_file, tmp_path / "a", layers="last")
    manifest = extract.text(folder_of(gpt2), packed, tmp_path / "b", layers="last")
    assert manifest["text"]["sha256"] == hashlib.sha256(packed.read_bytes()).hexdigest()
    assert (read(tmp_path / "a", "f") == read(tmp_path / "b", "f")).all()
    packed.write_bytes(packed.read_bytes()[:-20])
    refused("damaged", extract.text, folder_of(gpt2), packed, tmp_path / "c")


def test_small_windows_and_token_budgets_give_the_same_rows(
    folder_of, text_file, tmp_path, monkeypatch
):
    extract.text(folder_of(gpt2), text_file, tmp_path / "a")
    monkeypatch.setattr(_tokens, "WINDOW", 3)
    monkeypatch.setattr(_tokens, "BATCH_TOKENS", 30)
    extract.text(folder_of(gpt2), text_file, tmp_path / "b")
    for path in (tmp_path / "a").glob("*.npy"):
        close(np.load(tmp_path / "b" / path.name), np.load(path), TOL, 10)


def test_batches_keep_their_bounds():
    """Lengths are in twelfths of the tokens that a batch may have."""
    unit, lengths = _tokens.BATCH_TOKENS // 12, (5, 1, 20, 3, 3, 3, 3, 6)
    window = _tokens.Window([[0] * (unit * length) for length in lengths], [*range(8)])
    batches = list(window.batches(3))
    assert sorted(place for batch in batches for place in batch) == list(range(8))
    for batch in batches:
        longest = max(len(window.ids[place]) for place in batch)
        assert len(batch) == 1 or (len(batch) <= 3 and longest * len(batch) <= 12 * unit)
    assert len(batches) == 4


def test_half_precision_is_the_rounded_number_or_an_error(folder_of, text_file, tmp_path):
    extract.text(folder_of(gpt2), text_file, tmp_path / "full")
    manifest = extract.text(folder_of(gpt2), text_file, tmp_path / "half", dtype="float16")
    half = read(tmp_path / "half", "layer_01")
    assert (half == read(tmp_path / "full", "layer_01").astype(np.float16)).all()
    assert half.dtype == np.float16
    assert manifest["dtype"] == "float16"
    assert read(tmp_path / "half", "g").dtype == np.float32
    model = gpt2()
    with torch.no_grad():
        model.transformer.wte.weight.mul_(1e7)
    model.save_pretrained(tmp_path / "large")
    save_tokenizer(tmp_path / "large", special=False)
    call = (extract.text, tmp_path / "large", text_file, tmp_path / "out")
    refused("layer_00 has values up to .* too large for float16", *call, dtype="float16")


def test_weights_in_half_precision_are_run_in_full(folder_of, text_file, tmp_path):
    model = transformers.GPT2LMHeadModel.from_pretrained(folder_of(gpt2))
    model.to(torch.bfloat16).save_pretrained(tmp_path / "half")
    save_tokenizer(tmp_path / "half", special=False)
    extract.text(tmp_path / "half", text_file, tmp_path / "a")
    model.float().save_pretrained(tmp_path / "same")
    save_tokenizer(tmp_path / "same", special=False)
    extract.text(tmp_path / "same", text_file, tmp_path / "b")
    for name in ("layer_02", "f", "g"):
        assert (read(tmp_path / "a", name) == read(tmp_path / "b", name)).all()


def test_a_name_on_the_hub_is_fetched_without_pickles_or_code(
    folder_of, text_file, tmp_path, monkeypatch
):
    import huggingface_hub

    asked = {}

    def download(name, **patterns):
        asked.update(patterns, name=name)
        return str(folder_of(gpt2))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    manifest = extract.text("someone/gpt2", text_file, tmp_path / "out", layers="last")
    assert manifest["model"]["name"] == asked["name"] == "someone/gpt2"
    from huggingface_hub.utils import filter_repo_objects

    files = ["config.json", "model.safetensors", "pytorch_model.bin", "model.py", "onnx/a.json"]
    kept = filter_repo_objects(
        files,
        allow_patterns=asked["allow_patterns"],
        ignore_patterns=asked["ignore_patterns"],
    )
    assert list(kept) == ["config.json", "model.safetensors"]


def test_what_transformers_says_is_hushed_for_the_while_only(folder_of, text_file, tmp_path):
    log = transformers.logging
    log.set_verbosity_info()
    log.enable_progress_bar()
    extract.text(folder_of(gpt2), text_file, tmp_path / "out", layers="last")
    assert log.get_verbosity() == log.INFO
    assert log.is_progress_bar_enabled()


def test_progress_is_told_to_the_end(folder_of, text_file, tmp_path):
    told = []
    extract.text(
        folder_of(gpt2), text_file, tmp_path / "o", progress=lambda *step: told.append(step)
    )
    assert told[0] == ("loading the model", 0, 50)
    assert told[-1] == ("extracting", 50, 50)


# Images


def normalised(pixels: np.ndarray):
    """What the processor makes of images that have the right size already."""
    return torch.tensor((pixels / 255 - 0.5) / 0.5).permute(0, 3, 1, 2).float()


@pytest.mark.parametrize("pooling", ["none", "mean", "first", "last"])
def test_a_vision_transformers_states(pooling, folder_of, pictures, tmp_path):
    model = transformers.ViTForImageClassification.from_pretrained(folder_of(vit)).eval()
    with torch.no_grad():
        own = model.vit(normalised(pictures[1]), output_hidden_states=True)
        logits = model(normalised(pictures[1])).logits.numpy()
    # Its last hidden state, by transformers' count, is before the final norm; ours is the output.
    states = [*(state.numpy() for state in own.hidden_states[:-1]), own.last_hidden_state.numpy()]
    out = tmp_path / "out"
    manifest = extract.images(folder_of(vit), pictures[0], out, pooling=pooling, batch_size=3)
    take = {
        "none": lambda s: s.reshape(-1, 16),
        "mean": lambda s: s.mean(1),
        "first": lambda s: s[:, 0],
        "last": lambda s: s[:, -1],
    }[pooling]
    for layer, state in enumerate(states):
        close(read(out, f"layer_{layer:02d}"), take(state), TOL, np.abs(state).max())
    norms = [layer["norm"] for layer in manifest["layers"]]
    assert norms == ["pre norm", "pre norm", "post norm"]
    each = 17 if pooling == "none" else 1
    assert read(out, "groups").tolist() == np.repeat(np.arange(7), each).tolist()
    assert (manifest["kind"], manifest["rows"]) == ("vision", 7 * each)
    names = (out / "images.txt").read_text().splitlines()
    assert names == [f"{'a' if number < 4 else 'b'}/{number}.png" for number in range(7)]
    if pooling == "none":
        assert "one vector per image" in manifest["no_f"]
    else:
        f, g, bias = (read(out, name).astype(np.float64) for name in ("f", "g", "bias"))
        close(f @ g.T + bias, logits, TOL, np.abs(logits).max())
        assert manifest["f"]["what"] == "input of classifier"


def test_other_vision_models(folder_of, pictures, tmp_path):
    pixels = normalised(pictures[1])
    model = transformers.Dinov2Model.from_pretrained(folder_of(dino)).eval()
    with torch.no_grad():
        expected = model(pixels).last_hidden_state.mean(1).numpy()
    manifest = extract.images(folder_of(dino), pictures[0], tmp_path / "dino", layers="last")
    close(read(tmp_path / "dino", "layer_02"), expected, TOL, np.abs(expected).max())
    assert (manifest["pooling"], manifest["layers"][0]["norm"]) == ("mean", "post norm")
    model = transformers.CLIPModel.from_pretrained(folder_of(clip)).eval()
    with torch.no_grad():
        expected = model.vision_model(pixels, output_hidden_states=True).hidden_states[1].mean(1)
    extract.images(folder_of(clip), pictures[0], tmp_path / "clip", layers=[1])
    close(read(tmp_path / "clip", "layer_01"), expected.numpy(), TOL, float(expected.abs().max()))
    model = transformers.ResNetForImageClassification.from_pretrained(folder_of(resnet)).eval()
    with torch.no_grad():
        own = model(pixels, output_hidden_states=True)
    extract.images(folder_of(resnet), pictures[0], tmp_path / "resnet")
    for layer, state in enumerate(own.hidden_states):
        expected = state.numpy().mean((2, 3))
        close(read(tmp_path / "resnet", f"layer_{layer:02d}"), expected, TOL, expected.max())
    f, g, bias = (read(tmp_path / "resnet", name) for name in ("f", "g", "bias"))
    close(f @ g.T + bias, own.logits.numpy(), TOL, float(own.logits.abs().max()))
    manifest = extract.images(folder_of(dino), pictures[0], tmp_path / "two", limit=2)
    assert manifest["rows"] == manifest["images"]["files"] == 2


def test_the_text_half_of_a_model_of_both(folder_of, text_file, sentences, tmp_path):
    model = transformers.CLIPModel.from_pretrained(folder_of(clip)).eval()
    extract.text(folder_of(clip), text_file, tmp_path / "out", layers=[1])
    with torch.no_grad():
        states = [
            model.text_model(torch.tensor([ids_of(line, gpt2)]), output_hidden_states=True)
            for line in sentences
        ]
    expected = np.stack([state.hidden_states[1][0].mean(0).numpy() for state in states])
    close(read(tmp_path / "out", "layer_01"), expected, TOL, np.abs(expected).max())


def test_layers_of_different_resolution_have_no_common_rows(folder_of, pictures, tmp_path):
    call = (extract.images, folder_of(swin), pictures[0])
    refused("positions where .* expected", *call, tmp_path / "out", pooling="none")
    manifest = extract.images(folder_of(swin), pictures[0], tmp_path / "out")
    assert [layer["width"] for layer in manifest["layers"]] == [8, 16, 16]


def test_images_that_cannot_be_read(folder_of, pictures, tmp_path):
    call = (extract.images, folder_of(vit))
    refused("no such folder", *call, tmp_path / "nowhere", tmp_path / "out")
    (tmp_path / "empty").mkdir()
    refused("holds no images", *call, tmp_path / "empty", tmp_path / "out")
    whole = (pictures[0] / "b" / "6.png").read_bytes()
    for broken in (b"no image", whole[: len(whole) // 2]):
        (pictures[0] / "b" / "6.png").write_bytes(broken)
        refused("6.png cannot be read as an image", *call, pictures[0], tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "pictures"]
    refused(
        "no usable image processor", extract.images, folder_of(gpt2), pictures[0], tmp_path / "o"
    )


# A folder, and what becomes of it


def test_nothing_is_overwritten_unasked_nor_anything_else_when_asked(
    folder_of, text_file, tmp_path
):
    out = tmp_path / "out"
    call = (extract.text, folder_of(gpt2), text_file, out)
    extract.text(*call[1:], layers="all")
    refused("out exists already.*--force", *call)
    manifest = extract.text(*call[1:], layers="last", overwrite=True)
    assert {path.name for path in out.iterdir()} == {*manifest["files"], "manifest.json"}
    assert not (out / "layer_00.npy").exists()
    (out / "notes.txt").write_text("mine")
    refused("also holds 'notes.txt'", *call, overwrite=True)
    assert (out / "notes.txt").read_text() == "mine"
    (out / "notes.txt").unlink()
    (out / "manifest.json").unlink()
    refused("not a finished extraction", *call, overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", text_file.name]
    refused("is a file", extract.text, folder_of(gpt2), text_file, text_file)
    refused(
        "there is no directory", extract.text, folder_of(gpt2), text_file, out / "a" / "b" / "c"
    )
    (tmp_path / "empty").mkdir()
    extract.text(folder_of(gpt2), text_file, tmp_path / "empty", layers="last")
    assert oct((tmp_path / "empty").stat().st_mode) == oct(tmp_path.stat().st_mode | 0o055)


def test_a_folder_that_cannot_be_made_is_an_error(net, x, tmp_path, monkeypatch):
    def full(**_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    with pytest.raises(InputError, match=r"cannot write .*out: No space left"):
        extract.module(net, [x], ["first"], tmp_path / "out")


def test_an_error_in_the_middle_leaves_what_was_there(folder_of, text_file, tmp_path):
    out = tmp_path / "out"
    before = extract.text(folder_of(gpt2), text_file, out, layers="last")

    def stop(what: str, done: int, of: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract.text(folder_of(gpt2), text_file, out, overwrite=True, progress=stop)
    assert extract.read_manifest(out) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", text_file.name]


def test_killed_in_the_middle_nothing_looks_whole(folder_of, text_file, tmp_path):
    code = (
        "import os, signal, sys\n"
        "from identikit import extract\n"
        "def die(what, done, of):\n"
        "    if done: os.kill(os.getpid(), signal.SIGKILL)\n"
        "extract.text(sys.argv[1], sys.argv[2], sys.argv[3], batch_size=5, progress=die)\n"
    )
    out = tmp_path / "out"
    command = [sys.executable, "-c", code, str(folder_of(gpt2)), str(text_file), str(out)]
    done = subprocess.run(command, capture_output=True, timeout=HANGS)
    assert done.returncode == -signal.SIGKILL
    assert not out.exists()
    (partial,) = tmp_path.glob("out.partial-*")
    assert any(partial.iterdir())
    refused("no manifest.json", extract.read_manifest, partial)
    assert extract.text(folder_of(gpt2), text_file, out)["sentences"] == 50


def test_a_folder_is_read_only_if_it_is_whole(folder_of, text_file, tmp_path):
    out = tmp_path / "out"
    made = extract.text(folder_of(gpt2), text_file, out, layers="last")
    assert extract.read_manifest(out) == made
    refused("no such folder", extract.read_manifest, tmp_path / "nowhere")
    (out / "f.npy").write_bytes((out / "f.npy").read_bytes()[:-1])
    refused(r"f.npy has \d+ bytes instead of", extract.read_manifest, out)
    (out / "f.npy").unlink()
    refused("f.npy is missing", extract.read_manifest, out)
    (out / "manifest.json").write_text("{")
    refused("damaged", extract.read_manifest, out)
    (out / "manifest.json").write_text("[]")
    refused("lists no files", extract.read_manifest, out)


# Bad input


def test_a_missing_extra_is_named(folder_of, text_file, tmp_path, monkeypatch):
    for missing, extra in (("torch", "hf"), ("transformers", "hf")):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, missing, None)
            with pytest.raises(MissingExtraError, match=rf"pip install 'identikit\[{extra}\]'"):
                extract.text(folder_of(gpt2), text_file, tmp_path / "out")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'identikit\[torch\]'"):
        extract.module(None, [], layers=["a"])


def copy_of(folder: Path, target: Path, *names: str) -> Path:
    target.mkdir()
    for name in names:
        (target / name).write_bytes((folder / name).read_bytes())
    return target


def test_model_folders_that_are_none(folder_of, text_file, tmp_path):
    def call(match: str, folder: object, **options: object) -> None:
        refused(match, extract.text, folder, text_file, tmp_path / "out", **options)

    source = folder_of(gpt2)
    call("there is no folder ./nowhere", "./nowhere")
    call("there is no folder /no/such/model", "/no/such/model")
    call("is a file", text_file)
    (tmp_path / "a").mkdir()
    call("no config.json", tmp_path / "a")
    config = copy_of(source, tmp_path / "b", "config.json")
    call("has no weights; expected model.safetensors", config)
    (config / "pytorch_model.bin").write_bytes(b"would run code")
    call(r"only pickled weights \(pytorch_model.bin\).*save_pretrained", config)
    (config / "model.safetensors").write_bytes(b"cut")
    call("cannot be loaded", config)
    (config / "config.json").write_text('{"model_type": "unheard of"}')
    call("config.json cannot be used", config)
    (config / "config.json").write_text("{")
    call("config.json cannot be used", config)
    call("encoder-decoder", folder_of(t5))
    bare = copy_of(source, tmp_path / "c", "config.json", "model.safetensors")
    call("has no tokenizer.*--tokenizer", bare)
    call("no folder .* to take the tokenizer from", bare, tokenizer=tmp_path / "nowhere")
    extract.text(bare, text_file, tmp_path / "good", tokenizer=source, layers="last")
    (bare / "tokenizer.json").write_text("{")
    call("the tokenizer cannot be used", bare)


def test_code_of_the_folders_own_is_never_run(folder_of, text_file, tmp_path):
    source = folder_of(gpt2)
    names = [path.name for path in source.iterdir()]
    folder = copy_of(source, tmp_path / "own", *names)
    (folder / "own.py").write_text("raise SystemExit('ran')")
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.Own"}}
    (folder / "config.json").write_text(json.dumps(config))
    refused("config.json cannot be used", extract.text, folder, text_file, tmp_path / "out")


def test_weights_that_are_missing_are_not_made_up(folder_of, text_file, tmp_path):
    from safetensors.torch import load_file, save_file

    source = folder_of(bert)
    folder = copy_of(source, tmp_path / "bert", *[path.name for path in source.iterdir()])
    weights = load_file(folder / "model.safetensors")
    del weights["cls.predictions.transform.dense.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    match = "lacks 1 of the weights of BertForMaskedLM, such as cls.predictions.transform.dense"
    refused(match, extract.text, folder, text_file, tmp_path / "out")


def test_a_hub_without_a_network_says_so(text_file, tmp_path, monkeypatch):
    import huggingface_hub

    def offline(*_, **__):
        raise OSError("no route to the hub")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    match = "no folder someone/model, and the hub gave no model of that name: no route"
    refused(match, extract.text, "someone/model", text_file, tmp_path / "out")


def test_texts_that_are_none(folder_of, tmp_path):
    def call(match: str, texts: object, make=gpt2, **options: object) -> None:
        refused(match, extract.text, folder_of(make), texts, tmp_path / "out", **options)

    path = tmp_path / "text.txt"
    call("cannot be read: No such file", path)
    path.write_text("\n \n")
    call("has no sentences", path)
    call("has no sentences", [])
    path.write_bytes(b"w1 w2\nw\xff\n")
    call("not UTF-8 text after line", path)
    call("no line of the text gave a token", ["~", "~~"])
    call("max-length is 33, but the model accepts 32", ["w1"], max_length=33)
    for name in ("batch_size", "max_length", "limit"):
        call(f"{name.replace('_', '-')} is 0; expected 1", ["w1"], **{name: 0})
    call("dtype is 'int8'", ["w1"], dtype="int8")
    call("the pooling is 'max'", ["w1"], pooling="max")
    call("device 'nonsense' cannot be used", ["w1"], device="nonsense")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["text.txt"]


def test_a_tokenizer_of_another_model(folder_of, tmp_path):
    small = tmp_path / "small"
    config = transformers.GPT2Config(
        vocab_size=10, n_positions=32, n_embd=8, n_layer=1, n_head=1, **TOKENS
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(small)
    save_tokenizer(small, special=False)
    match = "gives the id 43, but the model has only 10 tokens"
    refused(match, extract.text, small, ["w39"], tmp_path / "out")


def test_models_that_do_not_fit_the_input(folder_of, text_file, tmp_path, monkeypatch):
    call = (extract.text, folder_of(gpt2), text_file, tmp_path / "out")

    def fails(self, *_, **__):
        raise ValueError("You have to specify pixel_values")

    with monkeypatch.context() as patch:
        patch.setattr(transformers.GPT2LMHeadModel, "forward", fails)
        refused("does not run on this input: You have to specify pixel_values", *call)
    own = transformers.GPT2Model.forward

    def silent(self, *args, **kwargs):
        out = own(self, *args, **kwargs)
        out.hidden_states = None
        return out

    monkeypatch.setattr(transformers.GPT2Model, "forward", silent)
    refused("gives no hidden states; use identikit.extract.module", *call)


# Any module


class Net(torch.nn.Module):
    """A batch norm and a dropout, which behave differently in training."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
        self.drop = torch.nn.Dropout(0.5)
        self.pair = Pair()
        self.twice = torch.nn.Identity()
        self.never = torch.nn.Identity()
        self.grid = Grid()

    def forward(self, x, scale=1.0):
        h = self.drop(self.first(x)) * scale
        self.pair(h)
        self.grid(h)
        return self.twice(self.twice(h))


class Pair(torch.nn.Module):
    def forward(self, x):
        return x + 1, "not a tensor"


class Grid(torch.nn.Module):
    """(items, 2, 4): more than two axes."""

    def forward(self, x):
        return torch.stack([x, 2 * x], dim=1)


@pytest.fixture
def net():
    torch.manual_seed(0)
    made = Net()
    made(torch.randn(50, 3))  # so that the running mean is not zero
    made.train()
    made.pair.eval()
    return made


@pytest.fixture
def x():
    return torch.tensor(np.random.default_rng(0).normal(size=(10, 3)), dtype=torch.float32)


def by_hand(net, x):
    net.eval()
    with torch.no_grad():
        h = net.first(x).numpy()
    net.train()
    net.pair.eval()
    return h


def hooks_of(net):
    return [hook for part in net.modules() for hook in part._forward_hooks]


@pytest.mark.parametrize("form", ["tensors", "tuples", "lists", "dicts"])
def test_layers_of_any_module(form, net, x):
    h = by_hand(net, x)
    pieces = [x[:4], x[4:8], x[8:]]
    loader = {
        "tensors": pieces,
        "tuples": [(piece, "labels") for piece in pieces],
        "lists": [[piece, torch.zeros(len(piece))] for piece in pieces],
        "dicts": [{"x": piece, "scale": 1.0} for piece in pieces],
    }[form]
    told = []
    found = extract.module(
        net, loader, ["first", "pair", "grid", "drop"], progress=lambda *step: told.append(step)
    )
    assert list(found) == ["first", "pair", "grid", "drop"]
    close(found["first"], h, 1e-6)
    close(found["drop"], h, 1e-6)
    close(found["pair"], h + 1, 1e-6)
    close(found["grid"], np.concatenate([h, 2 * h], axis=1), 1e-6)
    assert told[-1] == ("extracting, 10 rows", 3, 3)
    assert (net.training, net.first[1].training, net.pair.training) == (True, True, False)
    assert hooks_of(net) == []
    assert net(x).requires_grad


def test_pooling_and_flattening_of_any_module(net, x):
    found = extract.module(net, [x], ["grid"], pool=lambda state: state.mean(1))
    close(found["grid"], 1.5 * by_hand(net, x), 1e-6)


def test_a_loader_without_a_length(net, x):
    told = []
    generator = (piece for piece in (x[:5], x[5:]))
    extract.module(net, generator, ["first"], progress=lambda *step: told.append(step))
    assert told == [("extracting, 5 rows", 1, 0), ("extracting, 10 rows", 2, 0)]


def test_half_precision_outputs_are_stored_as_float32(x):
    found = extract.module(torch.nn.Sequential(torch.nn.Identity()), [x.bfloat16()], ["0"])
    assert found["0"].dtype == np.float32
    assert (found["0"] == x.bfloat16().float().numpy()).all()


def test_a_module_into_a_folder(net, x, tmp_path):
    net.odd = torch.nn.ModuleDict({"a/b": torch.nn.Identity(), "a_b": torch.nn.Identity()})
    forward = net.forward
    net.forward = lambda x: net.odd["a_b"](2 * net.odd["a/b"](forward(x)))
    names = ["first.1", "odd.a/b", "odd.a_b"]
    pieces = [x[:4], x[4:]]
    found = extract.module(net, pieces, names, tmp_path / "out")
    kept = extract.module(net, pieces, names)
    for name in names:
        assert isinstance(found[name], np.memmap)
        assert (found[name] == kept[name]).all()
    manifest = extract.read_manifest(tmp_path / "out")
    files = ["first.1.npy", "odd.a_b.npy", "odd.a_b_.npy"]
    assert [layer["file"] for layer in manifest["layers"]] == files
    assert (manifest["kind"], manifest["rows"]) == ("module", 10)
    refused("exists already", extract.module, net, pieces, names, tmp_path / "out")
    found = extract.module(net, pieces[:1], names[:1], tmp_path / "out", overwrite=True)
    assert len(found["first.1"]) == 4


def test_what_a_module_cannot_give(net, x, tmp_path):
    def call(match: str, loader: object, layers: object, **options: object) -> None:
        refused(match, extract.module, net, loader, layers, **options)
        assert hooks_of(net) == []
        assert net.training

    call("no layer 'frist'; it has 'first'", [x], ["first", "frist"])
    call("no layer 'zzz'; it has 'first', 'first.0'", [x], ["zzz"])
    call("expected a list of names", [x], "first")
    call("expected a list of names", [x], [])
    call("ran 2 times", [x], ["twice"])
    call("ran 0 times", [x], ["never"])
    call("gave no batches", [], ["first"])
    call("the loader gave a ndarray", [x.numpy()], ["first"])
    call("the loader gave a tuple", [()], ["first"])
    call(
        "different numbers of rows", [x], ["first", "grid"], pool=lambda s: s.flatten(0, s.ndim - 2)
    )
    call("one number per batch", [x], ["first"], pool=lambda state: state.mean())
    wide = [x, torch.ones(10, 3)]
    widths = iter([2, 3])
    call("gave 2 columns, but in batch 1 3", wide, ["first"], pool=lambda s: s[:, : next(widths)])
    call("gave no batches", [], ["first"], folder=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
    net.pair.forward = lambda _: {"state": None}
    call("returns a NoneType, not a tensor", [x], ["pair"])
    net.pair.forward = lambda _: ()
    call("returns a NoneType, not a tensor", [x], ["pair"])
    net.pair.forward = lambda state: {"state": state}
    assert extract.module(net, [x], ["pair"])["pair"].shape == (10, 4)


def test_an_error_inside_the_model_is_passed_on_and_leaves_no_hooks(net, x):
    with pytest.raises(RuntimeError, match="shapes"):
        extract.module(net, [x, x[:, :2]], ["first"])
    assert hooks_of(net) == []
    assert net.training


# The command line


def run(*arguments: object):
    return CliRunner().invoke(app, ["extract", *map(str, arguments)])


def test_the_command_says_what_it_wrote_and_what_to_type_next(folder_of, text_file, tmp_path):
    out = tmp_path / "o ut"
    done = run(folder_of(gpt2), "--text", text_file, "--layers", "1,3", "-o", out)
    assert done.exit_code == 0, done.output
    assert done.stdout == ""
    rows = extract.read_manifest(out)["rows"]
    assert f"{rows} rows (tokens of 50 sentences), 2 of 4 layers" in done.stderr
    assert "f is the input of lm_head (post norm), g its 44 rows" in done.stderr
    audit = f"identikit audit '{out}/layer_03.npy' OTHER/layer_03.npy --groups '{out}/groups.npy'"
    assert audit in done.stderr
    assert f"identikit models '{out}' OTHER" in done.stderr
    done = run(folder_of(gpt2), "--text", text_file, "-o", out)
    assert done.exit_code == 2
    assert "exists already" in done.stderr
    assert "Traceback" not in done.output
    done = run(
        folder_of(gpt2), "--text", text_file, "-o", out, "--force", "--quiet", "--max-length", 4
    )
    assert (done.exit_code, done.output) == (0, "")
    assert extract.read_manifest(out)["tokenizer"]["max_length"] == 4


def test_the_command_with_json_prints_the_manifest(folder_of, text_file, pictures, tmp_path):
    options = ["--text", text_file, "--limit", 5, "--dtype", "float16", "--no-special-tokens"]
    done = run(folder_of(bert), *options, "-o", tmp_path / "a", "--json", "-q", "--layers", "last")
    assert json.loads(done.stdout) == extract.read_manifest(tmp_path / "a")
    done = run(folder_of(encoder), *options, "-o", tmp_path / "b")
    assert "(5 sentences)" in done.stderr
    assert "no f and g: the model has no prediction head" in done.stderr
    assert "identikit models" not in done.stderr
    done = run(folder_of(vit), "--images", pictures[0], "-o", tmp_path / "c", "--pooling", "first")
    assert "7 rows (7 images), 3 of 3 layers" in done.stderr
    long = tmp_path / "long.txt"
    long.write_text(" ".join(WORDS))
    done = run(folder_of(gpt2), "--text", long, "-o", tmp_path / "d")
    assert "lines cut to 32 tokens: 1" in done.stderr
    folder = sentence_folder(folder_of(bert), tmp_path / "m", {"pooling_mode": "mean"})
    done = run(folder, "--text", text_file, "-o", tmp_path / "e")
    assert "after pooling is left out: Normalize" in done.stderr


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ([], "give either --text FILE or --images DIR"),
        (["--text", "a", "--images", "b"], "give either --text FILE or --images DIR"),
        (["--images", "b", "--max-length", "3"], "are for --text"),
        (["--text", "a", "--layers", "0,x"], "--layers is '0,x'; expected all, last or numbers"),
    ],
)
def test_wrong_calls_of_the_command(options, match, tmp_path):
    done = run("model", *options, "-o", tmp_path / "out")
    assert done.exit_code == 2
    assert match in done.stderr


def test_the_command_in_a_shell_keeps_transformers_quiet(folder_of, text_file, tmp_path):
    command = [
        sys.executable,
        "-m",
        "identikit",
        "extract",
        str(folder_of(gpt2)),
        "--layers",
        "last",
    ]
    done = subprocess.run(
        [*command, "--text", str(text_file), "-o", str(tmp_path / "out"), "--quiet"],
        capture_output=True,
        text=True,
        timeout=HANGS,
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_asking_for_extract_loads_neither_torch_nor_transformers():
    code = (
        "import sys, identikit.extract, identikit.cli\n"
        "print([name for name in ('torch', 'transformers', 'PIL') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
