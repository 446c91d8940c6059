"""Answer-keys: an answered question as a way back to the memories that answered it. Never evidence, never in a prompt.

The key's text is the question alone, so that nothing a model said is ever indexed.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from kb.ids import answer_key_id, embed_hash
from kb.model import Kind, Memory, SourceClass, Standing
from kb.passages import embed_text
from kb.trust import prior

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crag_runtime.recording.learned import Learned
    from kb.trust import TrustPolicy

SOURCE = "answer://key"
REASON = "an answer-key: leads to the memories that were cited, is none itself"
MAX_QUESTION = 2_000  # characters: longer questions are hardly asked twice


def normalised(question: str) -> str:
    """Return a question without case, width, blanks and final punctuation."""
    folded = re.sub(r"\s+", " ", unicodedata.normalize("NFKC", question)).strip().casefold()
    return folded.rstrip("?!.。 ")


def answer_key(learned: Learned, policies: Mapping[SourceClass, TrustPolicy]) -> Memory | None:
    """Return the key memory of an answered question; None for one too long to be asked again."""
    text = str(learned.report.get("question") or learned.question)  # self-contained
    if len(text) > MAX_QUESTION:
        return None
    return Memory(
        id=answer_key_id(learned.tenant, normalised(text), scope=learned.scope),
        tenant=learned.tenant,
        kind=Kind.ANSWER,
        source_class=SourceClass.ANSWER,
        source=SOURCE,
        text=text,
        trust=prior(policies[SourceClass.ANSWER], learned.at),
        standing=Standing.QUARANTINED,
        standing_reason=REASON,
        scope=learned.scope,
        embed_hash=embed_hash(embed_text("", (), text)),
        valid_from=learned.at,
        created_at=learned.at,
        updated_at=learned.at,
    )


def leads(key: Memory) -> bool:
    """Return whether a key may lead anywhere: what governance has set aside says so in its reason."""
    return key.standing is Standing.QUARANTINED and key.standing_reason in ("", REASON)
