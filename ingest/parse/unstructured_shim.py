"""The one place that loads `unstructured`, made fit for offline use before it is.

As shipped it phones home on import and on every call, prints a banner, guesses languages, and downloads a spaCy model
into site-packages. Here: no telemetry, no banner, and a blank spaCy pipeline with sentence ends only (same elements,
five times faster). The pipeline is replaced through a private function; a test fails when it moves.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

_QUIET = ("DO_NOT_TRACK", "SCARF_NO_ANALYTICS", "UNSTRUCTURED_DISABLE_NOTICE")
MAX_LENGTH = 10**8  # characters spaCy may be given at once; our own limits are lower
NO_DETECTION: list[str] = [""]  # `languages=` that turns language detection off


@lru_cache(1)
def prepare() -> ModuleType:
    """Make `unstructured` quiet and offline, once per process; return its tokenizing module."""
    for name in _QUIET:
        os.environ[name] = "1"
    from unstructured.nlp import tokenize  # noqa: PLC0415 - loaded when first needed

    if not hasattr(tokenize, "_get_nlp"):
        raise AttributeError("unstructured no longer has nlp.tokenize._get_nlp: the offline pipeline cannot be put in")
    tokenize._get_nlp = _blank_pipeline  # noqa: SLF001 - the reason this file exists
    return tokenize


@lru_cache(1)
def _blank_pipeline() -> Any:  # noqa: ANN401 - the vendor's object
    import spacy  # noqa: PLC0415 - loaded when first needed

    pipeline = spacy.blank("xx")
    pipeline.add_pipe("sentencizer")
    pipeline.max_length = MAX_LENGTH
    return pipeline


def partitioner(name: str) -> Callable[..., list[Any]]:
    """Return `partition_<name>` of `unstructured`, e.g. "docx"."""
    prepare()
    import importlib  # noqa: PLC0415 - loaded when first needed

    module = importlib.import_module(f"unstructured.partition.{name}")
    partition: Callable[..., list[Any]] = getattr(module, f"partition_{name}")
    return partition
