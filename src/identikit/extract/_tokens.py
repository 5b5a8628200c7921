"""From sentences to batches of token ids, each batch of sentences of about the same length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from identikit.errors import InputError, require
from identikit.extract._load import PURPOSE

#: The number of lines that are tokenised and sorted by length at a time.
WINDOW = 2048
#: The most tokens of a batch, with padding; it bounds the memory, however long the lines are.
BATCH_TOKENS = 4096


@dataclass(frozen=True)
class Window:
    """Consecutive sentences that have tokens: their token ids and their line numbers."""

    ids: list[list[int]]
    lines: list[int]

    def batches(self, size: int) -> Iterator[list[int]]:
        """Batches of positions in this window, the shortest sentences first."""
        batch: list[int] = []
        for place in sorted(range(len(self.ids)), key=lambda place: len(self.ids[place])):
            full = len(batch) == size or (len(batch) + 1) * len(self.ids[place]) > BATCH_TOKENS
            if batch and full:
                yield batch
                batch = []
            batch.append(place)
        if batch:
            yield batch


class Encoder:
    """A tokenizer with its settings.

    The model limits the length of a line and the token ids. Lines are truncated to `max_length`
    tokens; None stands for the most that the model accepts.
    """

    def __init__(
        self, tokenizer: Any, model: Any, max_length: int | None, special_tokens: bool
    ) -> None:
        limit = _longest(tokenizer, model)
        if max_length is not None and limit is not None and max_length > limit:
            raise InputError(f"max-length is {max_length}, but the model accepts {limit} tokens")
        self.max_length = max_length or limit
        #: The number of lines that were truncated so far.
        self.truncated = 0
        self._tokenizer, self._special = tokenizer, special_tokens
        self._vocabulary = model.get_input_embeddings().num_embeddings
        self._pad = tokenizer.pad_token_id or 0

    def windows(self, lines: Iterable[tuple[int, str]]) -> Iterator[Window]:
        """The token ids of all lines, some lines at a time; lines without tokens are left out."""
        rest = iter(lines)
        while some := list(islice(rest, WINDOW)):
            encoded = self.encode([line for _, line in some])
            kept = [(ids, number) for ids, (number, _) in zip(encoded, some) if ids]
            if kept:
                yield Window([ids for ids, _ in kept], [number for _, number in kept])

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        ids = self._call(lines)["input_ids"]
        if self.max_length is not None:
            long = [at for at, line in enumerate(ids) if len(line) > self.max_length]
            self.truncated += len(long)
            # The tokenizer truncates, because it knows where its special tokens go.
            for at in long:
                cut = self._call([lines[at]], truncation=True, max_length=self.max_length)
                ids[at] = cut["input_ids"][0]
        largest = max((max(line, default=0) for line in ids), default=0)
        if largest >= self._vocabulary:
            raise InputError(
                f"the tokenizer gives the id {largest}, but the model has only "
                f"{self._vocabulary} tokens; the two do not belong together"
            )
        encoded: list[list[int]] = ids
        return encoded

    def inputs(self, ids: Sequence[Sequence[int]]) -> dict[str, Any]:
        """The inputs of the model: the ids, padded on the right, and the attention mask."""
        torch = require("torch", "hf", PURPOSE)
        longest = max(map(len, ids))
        padded = [[*line, *[self._pad] * (longest - len(line))] for line in ids]
        mask = [[1] * len(line) + [0] * (longest - len(line)) for line in ids]
        return {"input_ids": torch.tensor(padded), "attention_mask": torch.tensor(mask)}

    def describe(self) -> dict[str, Any]:
        shown = self._call(["a"], return_special_tokens_mask=True)
        pairs = zip(shown["input_ids"][0], shown["special_tokens_mask"][0])
        added = [token for token, special in pairs if special] if self._special else []
        return {
            "class": type(self._tokenizer).__name__,
            "adds": self._tokenizer.convert_ids_to_tokens(added),
            "max_length": self.max_length,
            "truncated_lines": self.truncated,
        }

    def _call(self, lines: Sequence[str], **settings: Any) -> Any:
        return self._tokenizer(
            list(lines),
            add_special_tokens=self._special,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,
            **settings,
        )


def _longest(tokenizer: Any, model: Any) -> int | None:
    """The largest number of tokens that the model accepts; None if it is not known."""
    limits = [tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", None)]
    for name, module in model.named_modules():
        # RoBERTa and similar models count positions from the padding index on.
        if (
            name.endswith("position_embeddings")
            and getattr(module, "padding_idx", None) is not None
        ):
            limits.append(module.num_embeddings - module.padding_idx - 1)
    # A tokenizer without a limit reports 10^30.
    known = [limit for limit in limits if limit is not None and 0 < limit < 10**9]
    return min(known) if known else None
