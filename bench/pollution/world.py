"""Worlds: facts with true and false values, and passages that say one of them, the other, or neither.

A world is anything that gives these; simulator, reader and policies know nothing else of it. W1 is made of RGB's
English and Chinese counterfactual sets; the fixture is forty facts of our own, for machines without RGB.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

FIXTURE = Path(__file__).with_name("fixture.jsonl")
RGB = Path(__file__).parents[2].parent / "shared" / "datasets" / "RGB"
DEV_BELOW = 4  # of ten: facts whose hash ends lower are for development


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One fact of a world.

    Args:
        id: stable.
        language: en or zh.
        question: what is asked.
        true: spellings of the value that is true, or true in the end.
        false: spellings of the value that is false, or was true before.
        says_true: passages that give the true value and not the false one.
        says_false: passages that give the false value and not the true one.
        says_neither: passages on the subject that give none.
    """

    id: str
    language: str
    question: str
    true: tuple[str, ...]
    false: tuple[str, ...]
    says_true: tuple[str, ...]
    says_false: tuple[str, ...]
    says_neither: tuple[str, ...]

    @property
    def is_dev(self) -> bool:
        """Whether the fact may be looked at while parameters are chosen."""
        return int(hashlib.sha256(self.id.encode()).hexdigest(), 16) % 10 < DEV_BELOW


@cache
def folded(text: str) -> str:
    """Return a text as values are looked for in it: NFKC, case and white space folded."""
    return re.sub(r"\s+", " ", unicodedata.normalize("NFKC", text).casefold()).strip()


def value_of(text: str, fact: Fact) -> str | None:
    """Return "true" or "false", whichever of a fact's values a text gives; None for neither or both."""
    body = folded(text)
    is_true = any(folded(v) in body for v in fact.true)
    is_false = any(folded(v) in body for v in fact.false)
    return None if is_true is is_false else "true" if is_true else "false"


def rgb(folder: Path = RGB) -> list[Fact]:
    """Return the usable facts of RGB's en_fact and zh_fact, in the order of their files.

    Raises:
        FileNotFoundError: the data set is not there; it is not ours to ship.
    """
    found: list[Fact] = []
    for language in ("en", "zh"):
        for line in (folder / f"{language}_fact.json").read_text(encoding="utf-8").splitlines():
            if line.strip():
                found += _of_rgb(json.loads(line), language)
    return found


def fixture() -> list[Fact]:
    """Return the forty facts that the product ships."""
    rows = [json.loads(line) for line in FIXTURE.read_text(encoding="utf-8").splitlines() if line.strip()]
    return [
        Fact(
            id=row["id"],
            language=row["language"],
            question=row["question"],
            true=tuple(row["true"]),
            false=tuple(row["false"]),
            says_true=tuple(row["says_true"]),
            says_false=tuple(row["says_false"]),
            says_neither=tuple(row["says_neither"]),
        )
        for row in rows
    ]


def _of_rgb(row: dict[str, Any], language: str) -> Iterator[Fact]:
    true, false = tuple(_flat(row["answer"])), tuple(_flat(row["fakeanswer"]))
    if any(folded(a) in folded(b) or folded(b) in folded(a) for a in true for b in false):
        return
    bare = Fact(
        id=f"{language}{row['id']}",
        language=language,
        question=row["query"],
        true=true,
        false=false,
        says_true=(),
        says_false=(),
        says_neither=(),
    )
    says_true = _saying(row["positive"], bare, "true")
    says_false = _saying(row["positive_wrong"], bare, "false")
    if says_true and says_false:
        neither = tuple(
            p for p in row["negative"] if not any(folded(v) in folded(p) for v in (*bare.true, *bare.false))
        )
        yield Fact(
            id=bare.id,
            language=language,
            question=bare.question,
            true=true,
            false=false,
            says_true=says_true,
            says_false=says_false,
            says_neither=neither,
        )


def _saying(passages: Sequence[str], fact: Fact, value: str) -> tuple[str, ...]:
    return tuple(p for p in passages if value_of(p, fact) == value)


def _flat(value: object) -> Iterable[str]:
    if isinstance(value, list):
        for part in value:
            yield from _flat(part)
    else:
        yield str(value)
