"""Load a Hugging Face model from its folder: only safetensors, and no code of the model's own."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from identikit.errors import InputError, require

PURPOSE = "extracting from a Hugging Face model"
# Files to download from the hub: no pickles, no code, no copies for other frameworks.
_FETCHED = ["*.json", "*.txt", "*.model", "*.safetensors", "*.tiktoken"]
_LEFT_ON_THE_HUB = ["onnx/*", "*/*.safetensors"]
_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_TOKENIZER_FILES = ("*token*", "*vocab*", "merges.txt", "*.model", "tekken.json")
# The errors that transformers raises for a folder whose contents do not fit together.
_UNUSABLE = (OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorError)
# The names of poolings in sentence-transformers, as switches or as one word.
_POOLINGS = {
    "pooling_mode_cls_token": "first",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_lasttoken": "last",
    "cls": "first",
    "mean": "mean",
    "lasttoken": "last",
}


@dataclass(frozen=True)
class Loaded:
    """A model that is ready to run.

    `kind` is causal, masked, encoder (text, without a prediction head) or vision; `pooling` is the
    pooling that the folder of a sentence encoder specifies, and `left_out` names the modules that
    would follow it; `head` says whether the class has a head to read g from.
    """

    name: str
    folder: Path
    kind: str
    model: Any
    pooling: str | None
    left_out: list[str]
    head: bool


def load(name: str | os.PathLike[str], media: str, device: str | None) -> Loaded:
    """Load a model from a folder or from the hub, in float32 and in evaluation mode.

    `media` is what the model is run on, "text" or "images". Without a `device` the model runs on
    the first GPU, if there is one.
    """
    torch, transformers = require("torch", "hf", PURPOSE), require("transformers", "hf", PURPOSE)
    label, folder = locate(name)
    pooling, left_out = None, list[str]()
    sentences = (folder / "modules.json").is_file()
    if sentences:
        folder, pooling, left_out = _sentence_encoder(folder)
    _check_files(folder)
    config = _pretrained(transformers.AutoConfig, folder, f"{folder}: config.json cannot be used")
    if getattr(config, "is_encoder_decoder", False):
        raise InputError(
            f"{label} is an encoder-decoder ({config.model_type}); extract reads causal and masked "
            "language models, sentence encoders and vision models: use identikit.extract.module "
            "for this one"
        )
    for kind in ["encoder"] if sentences else _kinds(config, media, transformers):
        model, missing = _weights(folder, config, kind, transformers)
        if not missing:
            break
    if missing:
        raise InputError(
            f"{folder} lacks {len(missing)} of the weights of {type(model).__name__}, such as "
            f"{min(missing)}, which would be random; give the folder of the complete model"
        )
    # A joint model of images and text, such as CLIP, has one part for each.
    half = {"text": "text_model", "images": "vision_model"}[media]
    part = getattr(model, half, model) if kind == "encoder" else model
    part.config.use_cache = False
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        part = part.to(device).eval()
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"the device {device!r} cannot be used: {_first(error)}") from error
    head = kind in ("causal", "masked", "classifier")
    kind = "vision" if media == "images" else kind
    return Loaded(label, folder, kind, part, pooling, left_out, head)


def load_tokenizer(folder: Path) -> Any:
    transformers = require("transformers", "hf", PURPOSE)
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder} to take the tokenizer from")
    # Without this check transformers makes an empty tokenizer, which gives no tokens at all.
    if not any(next(folder.glob(pattern), None) for pattern in _TOKENIZER_FILES):
        raise InputError(
            f"{folder} has no tokenizer (tokenizer.json, vocab.txt or tokenizer.model); copy its "
            "files there, or name a folder that has them with --tokenizer"
        )
    return _pretrained(
        transformers.AutoTokenizer, folder, f"{folder}: the tokenizer cannot be used"
    )


def load_processor(folder: Path) -> Any:
    """Load the image processor of a folder, with Pillow, which works the same everywhere."""
    transformers = require("transformers", "hf", PURPOSE)
    unusable = (
        f"{folder} has no usable image processor (preprocessor_config.json), so it is not a "
        "vision model, or not a complete one"
    )
    return _pretrained(transformers.AutoImageProcessor, folder, unusable, backend="pil")


def _pretrained(auto: Any, folder: Path, unusable: str, **options: Any) -> Any:
    """Call `from_pretrained` of a transformers class, silently and without the model's code.

    `unusable` is the beginning of the error message if this fails.
    """
    with hushed():
        try:
            return auto.from_pretrained(
                folder, trust_remote_code=False, local_files_only=True, **options
            )
        except _UNUSABLE as error:
            raise InputError(f"{unusable}: {_first(error)}") from error


def locate(name: str | os.PathLike[str]) -> tuple[str, Path]:
    """The name of a model and its folder, downloaded from the hub if necessary."""
    path = Path(name)
    if path.is_dir():
        return path.resolve().name, path
    text = os.fspath(name)
    if path.exists():
        raise InputError(f"{text} is a file; give the folder that holds config.json and weights")
    if not re.fullmatch(r"\w[\w.-]*(/[\w.-]+)?", text):
        raise InputError(f"there is no folder {text}; give the folder of a model")
    hub = require("huggingface_hub", "hf", PURPOSE)
    try:
        fetched = hub.snapshot_download(
            text, allow_patterns=_FETCHED, ignore_patterns=_LEFT_ON_THE_HUB
        )
    except (OSError, ValueError) as error:
        raise InputError(
            f"there is no folder {text}, and the hub gave no model of that name: {_first(error)}"
        ) from error
    return text, Path(fetched)


@contextmanager
def hushed() -> Iterator[None]:
    """Silence the progress bars and logs of transformers; our own errors say what matters."""
    log = require("transformers", "hf", PURPOSE).logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()


def _check_files(folder: Path) -> None:
    if not (folder / "config.json").is_file():
        raise InputError(f"{folder} has no config.json, so it is not a Hugging Face model")
    if any(folder.glob("*.safetensors")):
        return
    pickled = sorted(path.name for path in folder.iterdir() if path.suffix in _PICKLED)
    if not pickled:
        raise InputError(f"{folder} has no weights; expected model.safetensors beside config.json")
    raise InputError(
        f"{folder} has only pickled weights ({pickled[0]}), which are never loaded, because that "
        "can run code; if you trust their source, convert them once: "
        'python -c "from transformers import AutoModelForCausalLM as M; M.from_pretrained('
        f"'{folder}').save_pretrained('{folder}')\" "
        "(AutoModelForMaskedLM for models like BERT, AutoModel for those without a prediction head)"
    )


def _kinds(config: Any, media: str, transformers: Any) -> list[str]:
    """What the model may be, the most likely kind first, judged by the class it was saved from."""
    saved = (getattr(config, "architectures", None) or [""])[0]
    auto = transformers.models.auto.modeling_auto
    if media == "images":
        classifiers = auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES
        return ["classifier" if saved == classifiers.get(config.model_type) else "encoder"]
    if saved == auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(config.model_type):
        return ["causal"]
    masked = auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES.get(config.model_type)
    if masked is not None and saved == masked:
        return ["masked"]
    # Most pre-training classes have a masked model's head and one more; a discriminator does not.
    return ["masked", "encoder"] if masked and saved.endswith("ForPreTraining") else ["encoder"]


def _weights(folder: Path, config: Any, kind: str, transformers: Any) -> tuple[Any, list[str]]:
    """The model, and the names of its weights that the folder lacks."""
    classes = {
        "causal": transformers.AutoModelForCausalLM,
        "masked": transformers.AutoModelForMaskedLM,
        "classifier": transformers.AutoModelForImageClassification,
        "encoder": transformers.AutoModel,
    }
    model, info = _pretrained(
        classes[kind],
        folder,
        f"the model in {folder} cannot be loaded",
        config=config,
        dtype="float32",
        use_safetensors=True,
        output_loading_info=True,
    )
    # A pooler comes after the last hidden state, so it is not needed.
    return model, [key for key in info["missing_keys"] if "pooler" not in key]


def _sentence_encoder(folder: Path) -> tuple[Path, str, list[str]]:
    """The folder of a sentence encoder's transformer, its pooling, and the modules after it."""
    try:
        parts = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
        at = {part["type"].rsplit(".", 1)[-1]: folder / part["path"] for part in parts}
        settings = json.loads((at["Pooling"] / "config.json").read_text(encoding="utf-8"))
        asked = [settings.get("pooling_mode"), *(key for key, on in settings.items() if on is True)]
        modes = [str(key) for key in asked if str(key).startswith(("pooling_mode_", *_POOLINGS))]
        inner = at["Transformer"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{folder} is a sentence encoder whose modules.json, or the pooling it names, cannot "
            f"be read: {type(error).__name__} {error}"
        ) from error
    pooling = "+".join(_POOLINGS.get(mode, mode) for mode in modes)
    return inner, pooling, [name for name in at if name not in ("Transformer", "Pooling")]


def _first(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
