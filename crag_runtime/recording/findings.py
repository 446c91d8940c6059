"""Web findings as evidence of this run and as memories in quarantine, under one id and with one text: pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crag_runtime.evidence import Evidence, Origin
from crag_runtime.searchers.normal import TEXT_CHARS, asked_query
from kb.addresses import canonical_url, host_of, registrable
from kb.ids import embed_hash, web_id
from kb.model import Kind, Memory, Passage, SourceClass, Standing
from kb.passages import embed_text
from kb.trust import TrustPolicy, prior
from kb.words.shortened import shortened

if TYPE_CHECKING:
    from crag_runtime.evidence import Finding
    from kb.history import AnswerId
    from kb.model import Instant, Json, MemoryId, Scope

TEXT_BYTES = 8_192  # as long as a note may be; longer texts belong in files
REASON = "found on the web: waits for corroboration or verification"
WEB_PRIOR = TrustPolicy(confidence=0.5, quarantined=True, strength=1)


def finding_id(finding: Finding, *, tenant: str, scope: Scope) -> MemoryId:
    """Return the id that a finding has as evidence and will have as a memory."""
    return web_id(tenant, _url(finding), kept_text(finding), scope)


def kept_text(finding: Finding) -> str:
    """Return the text that is read and kept: all of it, or its start up to the end of a sentence."""
    return shortened(_storable(finding.text), chars=TEXT_CHARS, octets=TEXT_BYTES)


def finding_memory(
    finding: Finding,
    *,
    tenant: str,
    scope: Scope,
    query: str,
    provider: str,
    answer_id: AnswerId,
    policy: TrustPolicy,
    now: Instant,
) -> Memory:
    """Return the memory that a finding becomes: quarantined, with where, when and by what question it was found.

    Args:
        finding: normalised.
        tenant: whose.
        scope: whose inside the tenant.
        query: that found it.
        provider: that was asked.
        answer_id: of the answer it was found for.
        policy: of the class `web`.
        now: when it was fetched.
    """
    url, text, title = _url(finding), kept_text(finding), _storable(finding.title)
    metadata: dict[str, Json] = {
        "url": url,
        "fetched_at": now,
        "query": asked_query(query),
        "provider": provider,
        "answer_id": answer_id,
    }
    if finding.published is not None:
        metadata["published"] = finding.published
    return Memory(
        id=finding_id(finding, tenant=tenant, scope=scope),
        tenant=tenant,
        kind=Kind.WEB,
        source_class=SourceClass.WEB,
        source=url,
        text=text,
        trust=prior(policy, now),
        standing=Standing.QUARANTINED if policy.quarantined else Standing.ACTIVE,
        standing_reason=REASON if policy.quarantined else "",
        passage=Passage(title=title, end=len(text)),
        scope=scope,
        embed_hash=embed_hash(embed_text(title, (), text)),
        valid_from=_valid_from(finding, now),
        created_at=now,
        updated_at=now,
        metadata=metadata,
    )


def as_evidence(
    finding: Finding, *, id_: str, now: Instant, score: float = 0.0, policy: TrustPolicy = WEB_PRIOR
) -> Evidence:
    """Return a finding as evidence of this run: unverified, as confident as its class is at first.

    Args:
        finding: normalised.
        id_: from `finding_id`.
        now: when it was fetched.
        score: rank of the search in [0, 1].
        policy: of the class `web`.
    """
    url = _url(finding)
    return Evidence(
        id=id_,
        origin=Origin.WEB,
        text=kept_text(finding),
        title=_storable(finding.title),
        source=url,
        url=url,
        source_class=SourceClass.WEB,
        root=registrable(host_of(url)),
        dated=finding.published,
        fetched=now,
        verified=False,
        confidence=policy.confidence,
        rev=0,
        score=score,
    )


def _url(finding: Finding) -> str:
    return canonical_url(finding.url) or _storable(finding.url)


def _valid_from(finding: Finding, now: Instant) -> Instant:
    """Return since when it holds: its publication, unless the page claims to come from the future."""
    return now if finding.published is None else min(finding.published, now)


def _storable(text: str) -> str:
    """Return `text` as any database takes it."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
