"""Made-up text that needs no file: sentences of a small random grammar, the same everywhere."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from itertools import accumulate, product
from random import Random

#: The default number of words.
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


class _Lexicon:
    """The words of each part of speech, and their probabilities under a topic."""

    def __init__(self, rng: Random) -> None:
        syllables = ["".join(pair) for pair in product("bdfgklmnprstvz", "aeiou")]
        made_up = ["".join(pair) for pair in product(syllables, syllables)]
        rng.shuffle(made_up)
        self.words = {part: list(words) for part, words in FUNCTION.items()}
        self.words |= {part: [made_up.pop() for _ in range(n)] for part, n in CONTENT.items()}
        self.odds = {
            (part, topic): _odds(words, topic if part in CONTENT else None)
            for part, words in self.words.items()
            for topic in range(TOPICS)
        }

    def pick(self, part: str, topic: int, rng: Random) -> str:
        odds = self.odds[part, topic]
        return self.words[part][bisect(odds, rng.random() * odds[-1])]


def _odds(words: Sequence[str], topic: int | None) -> list[float]:
    """Cumulative weights 1/rank, by Zipf's law, larger for the words of the topic."""
    return list(
        accumulate(
            (PREFERENCE if rank % TOPICS == topic else 1) / (rank + 1) for rank in range(len(words))
        )
    )


def grammar(max_words: int | None = None) -> list[str]:
    """Sentences of about 500 made-up words, one topic each, with frequencies by Zipf's law.

    The text has `max_words` words, full stops and commas included; 200,000 by default. A longer
    text begins with the shorter one.
    """
    rng = Random(0)
    lexicon = _Lexicon(rng)
    sentences, left = [], WORDS if max_words is None else max_words
    while left > 0:
        sentence = _expand("sentence", rng.randrange(TOPICS), lexicon, rng)
        sentences.append(" ".join(sentence))
        left -= len(sentence)
    return sentences


def _expand(part: str, topic: int, lexicon: _Lexicon, rng: Random) -> list[str]:
    if part in RULES:
        chosen = rng.choice(RULES[part])
        return [word for each in chosen.split() for word in _expand(each, topic, lexicon, rng)]
    return [lexicon.pick(part, topic, rng) if part in lexicon.words else part]
