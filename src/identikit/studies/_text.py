"""Text as sentences: from files, packed or not, folders or archives; and of a made-up grammar."""

from __future__ import annotations

import gzip
import io
import lzma
import re
import tarfile
import zlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import accumulate, chain, groupby, islice, product
from pathlib import Path
from random import Random
from typing import IO, Any, cast

from identikit.errors import InputError

# Lines that are looked at to find out whether empty lines separate paragraphs.
AHEAD = 1000
# Space after a full stop, question or exclamation mark, possibly followed by a closing mark.
_END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"'”’)]))(?<!\bMr\.)(?<!\bMrs\.)(?<!\bDr\.)\s+")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


def words_of(sentence: str) -> list[str]:
    """Lower-case words without punctuation.

    >>> words_of("It's 5 o'clock, Mr. <unk> !")
    ["it's", '5', "o'clock", 'mr', 'unk']
    """
    return _WORD.findall(sentence.lower())


def read_sentences(path: Path, max_words: int | None = None) -> list[str]:
    """Sentences of a text file (.txt, .gz, .xz), a folder of such files, or a .tar archive.

    Reading stops after `max_words` words.
    """
    found, count = [], 0
    try:
        # Closed, because it may be left before its end with a file open.
        with closing(_sentences(path)) as sentences:
            for sentence in sentences:
                found.append(sentence)
                count += len(sentence.split())
                if max_words is not None and count >= max_words:
                    break
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text; convert it or give another file") from error
    except (EOFError, OSError, lzma.LZMAError, zlib.error, tarfile.TarError) as error:
        raise InputError(f"cannot read {path}: {error}; give a sound copy of it") from error
    if not found:
        raise InputError(f"{path} holds no text")
    return found


def _sentences(path: Path) -> Generator[str]:
    if path.is_dir():
        for file in sorted(path.iterdir()):
            if file.is_file() and not file.name.startswith("."):
                yield from _sentences(file)
        return
    with _opened(path) as raw:
        if ".tar" in path.suffixes:
            # Members are read where they lie, never unpacked into the file system.
            with tarfile.open(fileobj=raw, mode="r|") as archive:
                for member in archive:
                    text = member.isreg() and member.name.endswith(".txt")
                    if text and (book := archive.extractfile(member)) is not None:
                        yield from _split(_lines(book.read()))
        else:
            with io.TextIOWrapper(raw, encoding="utf-8") as lines:
                yield from _split(lines)


def _opened(path: Path) -> IO[bytes]:
    # Types of the standard library do not say that a GzipFile is an IO[bytes].
    opened: Any = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    return cast("IO[bytes]", opened(path, "rb"))


def _lines(raw: bytes) -> Iterable[str]:
    try:
        return io.StringIO(raw.decode("utf-8"))
    except UnicodeDecodeError:
        # A book from before UTF-8. Every byte is a character there, so this cannot fail.
        return io.StringIO(raw.decode("latin-1"))


def _split(lines: Iterable[str]) -> Iterator[str]:
    """The lines; if some of the first are empty, the sentences of the paragraphs between them."""
    lines = iter(lines)
    first = list(islice(lines, AHEAD))
    stripped = (line.strip() for line in chain(first, lines))
    if all(line.strip() for line in first):
        yield from filter(None, stripped)
        return
    for full, paragraph in groupby(stripped, key=bool):
        if full:
            yield from _END.split(" ".join(paragraph))


#: The default number of words of the made-up text.
WORDS = 200_000
TOPICS = 6
#: How much likelier a word is in a sentence of its own topic.
PREFERENCE = 8

CONTENT = {"noun": 200, "verb": 120, "adjective": 90, "adverb": 50, "name": 30}
FUNCTION = {
    "article": ("the", "a", "this", "every"),
    "preposition": ("in", "on", "near", "with", "from", "under"),
    "conjunction": ("and", "but", "while"),
}
# What each part of a sentence may be replaced by; the first choices are the likelier ones.
RULES = {
    "sentence": ("clause .", "clause .", "clause .", "clause , conjunction clause ."),
    "clause": ("subject verb object", "subject verb object place", "subject adverb verb object"),
    "subject": ("article noun", "article noun", "article adjective noun", "name"),
    "object": ("article noun", "article noun", "article adjective noun", "name"),
    "place": ("preposition article noun", "preposition name"),
}


def grammar(max_words: int | None = None) -> list[str]:
    """Sentences of about 500 made-up words, one topic each, with frequencies by Zipf's law.

    The text is the same everywhere and has `max_words` words, full stops and commas included;
    200,000 by default. A longer text begins with the shorter one.
    """
    rng = Random(0)
    made_up = ["".join(letters) for letters in product(*2 * ("bdfgklmnprstvz", "aeiou"))]
    rng.shuffle(made_up)
    words: dict[str, Sequence[str]] = {**FUNCTION}
    words |= {part: [made_up.pop() for _ in range(n)] for part, n in CONTENT.items()}

    def weight(part: str, rank: int, topic: int) -> float:
        preferred = part in CONTENT and rank % TOPICS == topic
        return (PREFERENCE if preferred else 1) / (rank + 1)

    odds = {
        (part, topic): list(accumulate(weight(part, rank, topic) for rank in range(len(own))))
        for part, own in words.items()
        for topic in range(TOPICS)
    }

    def expand(part: str, topic: int) -> list[str]:
        if part in RULES:
            return [
                word for each in rng.choice(RULES[part]).split() for word in expand(each, topic)
            ]
        if part in words:
            return rng.choices(words[part], cum_weights=odds[part, topic])
        return [part]

    sentences, left = [], WORDS if max_words is None else max_words
    while left > 0:
        sentence = expand("sentence", rng.randrange(TOPICS))
        sentences.append(" ".join(sentence))
        left -= len(sentence)
    return sentences
