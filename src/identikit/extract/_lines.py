"""Read sentences from a text file with one per line, plain or compressed, or from strings."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import os
import zlib
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from identikit.errors import InputError

_OPENERS = {".gz": gzip.open, ".xz": lzma.open}


class Lines:
    """The sentences of a text, each with its line number.

    The text, a file in UTF-8 (optionally .gz or .xz) or a sequence of sentences, is read once on
    construction, up to `limit` lines, so that errors in it are reported early.
    """

    def __init__(self, texts: str | os.PathLike[str] | Sequence[str], limit: int | None) -> None:
        self._path = Path(texts) if isinstance(texts, str | os.PathLike) else None
        self._texts: Sequence[str] = () if isinstance(texts, str | os.PathLike) else texts
        self._limit = limit
        self._label = "the text" if self._path is None else str(self._path)
        digest = hashlib.sha256()
        self.lines = self.sentences = 0
        for line in self._all():
            self.lines += 1
            self.sentences += bool(line.strip())
            digest.update(line.encode() + b"\n")
        if not self.sentences:
            raise InputError(f"{self._label} has no sentences; expected one per line")
        self._digest = digest.hexdigest()

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Pairs (line number from 0, sentence); blank lines are counted but skipped."""
        return ((at, line) for at, line in enumerate(self._all()) if line.strip())

    def describe(self) -> dict[str, Any]:
        """What was read, for the manifest; the digest of a file is the one `sha256sum` prints."""
        found: dict[str, Any] = {"file": None, "sha256": self._digest}
        if self._path is not None:
            with self._path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            found = {"file": self._path.name, "sha256": digest}
        return found | {"lines": self.lines, "blank": self.lines - self.sentences}

    def _all(self) -> Iterator[str]:
        return islice(self._texts if self._path is None else _read(self._path), self._limit)


def _read(path: Path) -> Iterator[str]:
    opener: Any = _OPENERS.get(path.suffix.lower(), open)
    done = 0
    try:
        with opener(path, "rt", encoding="utf-8-sig") as file:
            for line in file:
                yield line.rstrip("\n")
                done += 1
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8 text after line {done} ({error.reason}); re-save it as UTF-8"
        ) from error
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise InputError(f"{path} is damaged after line {done}: {error}") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
