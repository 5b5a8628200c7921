"""The data that studies read: a folder, a text file, or a stand-in; nothing is downloaded."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.studies._text import grammar, read_sentences, words_of
from identikit.studies._torch import Tensor, torch

VARIABLE = "IDENTIKIT_DATA"
IMAGES, TEXT = "digits", "grammar"
STAND_INS = {
    IMAGES: "scikit-learn's handwritten digits as 32×32 colour images",
    TEXT: "sentences of a small random grammar",
}


@dataclass(frozen=True)
class Need:
    """A file or folder, and what it should contain, that a study needs in the data folder.

    `stand_in` names what can replace it, "digits" or "grammar". If it is `optional`, the study also
    runs without it, does something else or less, and says so.
    """

    file: str
    contains: str
    stand_in: str | None = None
    optional: bool = False


CIFAR10 = Need(
    "cifar10_20k.npz",
    "CIFAR-10: x_train and x_test (n, 32, 32, 3) uint8, y_train and y_test (n,), names (10,)",
    IMAGES,
)
CORPORA = {
    "enwik8": Need("text/enwik8_clean_20M.txt.xz", "Wikipedia, one paragraph per line", TEXT),
    "lm1b": Need(
        "text/lm1b_sample",
        "a folder of .gz files of the Billion Word corpus, one sentence per line",
        TEXT,
    ),
    "gutenberg": Need("text/gutenberg.tar.xz", "an archive of books as .txt", TEXT),
    "wikitext2": Need("text/wikitext2", "a folder of WikiText-2 as .txt.gz", TEXT),
    "tinyshakespeare": Need("text/tinyshakespeare.txt.gz", "plays of Shakespeare", TEXT),
}


class Images(NamedTuple):
    """Training and test images (n, 32, 32, 3) uint8, labels (n,) from 0, and the labels' names."""

    x_train: NDArray[np.uint8]
    y_train: NDArray[np.int64]
    x_test: NDArray[np.uint8]
    y_test: NDArray[np.int64]
    names: list[str]


@dataclass(frozen=True)
class Data:
    """The source of a study's data.

    Parameters
    ----------
    given : str, path or None
        A folder, a text file (.txt, .gz, .xz, .tar.xz), or the name of a stand-in: "digits" or
        "grammar" ("./digits" is a folder). If None, the folder in the environment variable
        IDENTIKIT_DATA, if it is set.
    """

    given: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        # Read the variable now, so that worker processes started later use the same folder.
        if self.given is None:
            object.__setattr__(self, "given", os.environ.get(VARIABLE) or None)

    @property
    def stand_in(self) -> str | None:
        """The name of the stand-in, or None if the data is a folder or a file."""
        return self.given if isinstance(self.given, str) and self.given in STAND_INS else None

    def locate(self, need: Need) -> Path | None:
        """The path of a needed file, or None if its stand-in is used; an error without either."""
        if self.stands_in(need):
            return None
        if self.given is None:
            why = f"no data folder is given, neither with --data nor in {VARIABLE}"
        elif self.stand_in is not None:
            why = f"{self.stand_in!r} ({STAND_INS[self.stand_in]}) does not stand in for it"
        else:
            path = Path(self.given)
            if path.is_file() and need.stand_in == TEXT:
                return path
            if (found := self.find(need)) is not None:
                return found
            why = f"{path} does not have it" if path.is_dir() else f"{path} is not a folder"
        remedies = ["name the folder that has it with --data DIR"]
        if need.stand_in == TEXT:
            remedies.append("give any text with --data FILE.txt")
        if need.stand_in is not None:
            remedies.append(f"try the stand-in --data {need.stand_in}")
        raise InputError(
            f"{need.file} is needed ({need.contains}), but {why}: {', or '.join(remedies)}; "
            "nothing is downloaded"
        )

    def find(self, need: Need) -> Path | None:
        """The path of a file in the data folder, or None if it is not there."""
        if self.given is None or self.stand_in is not None:
            return None
        path = Path(self.given) / need.file
        return path if path.exists() else None

    def stands_in(self, need: Need) -> bool:
        """Whether the data is the stand-in for this file."""
        return self.stand_in is not None and self.stand_in == need.stand_in

    def check(self, needs: Sequence[Need]) -> dict[str, str]:
        """The source of each needed file, with its name and size; an error if one is missing."""
        found = {}
        for need in needs:
            path = self.find(need) if need.optional else self.locate(need)
            if path is None and need.optional and not self.stands_in(need):
                found[need.file] = "absent"
            elif path is None:
                found[need.file] = f"stand-in {self.stand_in}"
            else:
                files = [path] if path.is_file() else [*path.rglob("*")]
                size = sum(file.stat().st_size for file in files if file.is_file())
                # Not the full path: the data may have moved when a study is resumed.
                found[need.file] = f"{path.name}, {size} bytes"
        return found

    def images(self) -> Images:
        """CIFAR-10, or the digits that stand in for it."""
        path = self.locate(CIFAR10)
        return _digits() if path is None else _cifar10(path)

    def text(self, prefer: str = "enwik8", max_words: int | None = None) -> list[str]:
        """The sentences of a text in order; if the text has no empty lines, its lines.

        `prefer` is one of `CORPORA`, unless the data is a text file, which is read instead. Reading
        stops after `max_words` words.
        """
        if prefer not in CORPORA:
            raise InputError(f"there is no text {prefer!r}; choose from {', '.join(CORPORA)}")
        path = self.locate(CORPORA[prefer])
        return grammar(max_words) if path is None else read_sentences(path, max_words)

    def words(self, prefer: str = "enwik8", max_words: int | None = None) -> list[list[str]]:
        """The sentences of `text`, as lower-case words without punctuation."""
        return [found for line in self.text(prefer, max_words) if (found := words_of(line))]


def read_arrays(path: Path, names: Sequence[str], contains: str) -> dict[str, Any]:
    """Arrays of an .npz file by name; if one is missing, the error says what it should contain."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in names}
    except (KeyError, ValueError, OSError, EOFError, BadZipFile) as error:
        raise InputError(
            f"{path} is damaged or of another kind ({error}); expected {contains}"
        ) from error


def pixels(images: NDArray[np.uint8], side: int) -> Tensor:
    """Images as (n, 3, side, side) from −1 to 1; averaged over squares if side is below 32."""
    x = torch.from_numpy(images).permute(0, 3, 1, 2) / 127.5 - 1
    return torch.nn.functional.avg_pool2d(x, 32 // side)


@lru_cache(maxsize=1)
def _cifar10(path: Path) -> Images:
    arrays = read_arrays(path, Images._fields, CIFAR10.contains)
    for part in ("train", "test"):
        x, y = arrays[f"x_{part}"], arrays[f"y_{part}"]
        if x.dtype != np.uint8 or x.shape[1:] != (32, 32, 3) or y.shape != x.shape[:1]:
            raise InputError(
                f"{path}: x_{part} is {x.dtype} {x.shape} and y_{part} {y.shape}; "
                f"expected {CIFAR10.contains}"
            )
    labels = {name: arrays[name].astype(np.int64) for name in ("y_train", "y_test")}
    return Images(**arrays | labels | {"names": [str(name) for name in arrays["names"]]})


@lru_cache(maxsize=1)
def _digits() -> Images:
    from sklearn.datasets import load_digits

    digits = load_digits()
    grey = (digits.images * (255 / 16)).round().astype(np.uint8)
    x: NDArray[Any] = np.repeat(np.kron(grey, np.ones((1, 4, 4), np.uint8))[..., None], 3, axis=-1)
    y = digits.target.astype(np.int64)
    test = np.arange(len(x)) % 5 == 4
    return Images(x[~test], y[~test], x[test], y[test], [str(name) for name in range(10)])
