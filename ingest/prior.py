"""What a document is worth before any evidence, and which hash tells that this has changed. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kb.ids import digest
from kb.model import SourceClass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.front_matter import Governed
    from kb.model import Json
    from kb.trust import TrustPolicy

_GIVEN = 24  # hex characters of the fingerprint's parts: what was given, what the file says, the prior they make
_FRONT = 24
_PRIOR = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What the caller of a run says about all its documents; what is not said is None or empty."""

    trust: SourceClass = SourceClass.DOCUMENT
    confidence: float | None = None
    verified: bool | None = None
    metadata: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentPrior:
    """Source class, trust policy and metadata of one document, all voices heard."""

    source_class: SourceClass
    policy: TrustPolicy
    title: str
    metadata: Mapping[str, Json]
    is_vouched: bool = False  # an owner said what it is worth: its source's reputation takes nothing from that


def document_prior(
    policies: Mapping[SourceClass, TrustPolicy], given: Given, sidecar: Governed, front: Governed
) -> DocumentPrior:
    """Return the prior of a document: the caller's word over the sidecar's over the front matter's over the class's.

    `verified: true` makes a document curated; `false` takes the verification, and with it the hold, away.
    """
    voices = (given, sidecar, front)
    verified = next((v.verified for v in voices if v.verified is not None), None)
    confidence = next((v.confidence for v in voices if v.confidence is not None), None)
    source_class = SourceClass.CURATED if verified else given.trust
    policy = policies[source_class]
    if verified is not None:
        policy = replace(policy, verified=verified, hold_days=policy.hold_days if verified else 0.0)
    if confidence is not None:
        policy = replace(policy, confidence=confidence)
    metadata: dict[str, Json] = {**front.rest, **sidecar.rest, **given.metadata}
    tags: list[Json] = list(dict.fromkeys((*front.tags, *sidecar.tags)))
    if tags:
        metadata.setdefault("tags", tags)
    return DocumentPrior(
        source_class=source_class,
        policy=policy,
        title=sidecar.title or front.title or "",
        metadata=metadata,
        is_vouched=bool(verified) or confidence is not None or source_class is SourceClass.CURATED,
    )


def metadata_fingerprint(given_part: str, front_matter: Mapping[str, Json], prior: DocumentPrior) -> str:
    """Return the metadata hash of a document, in three parts that can be compared on their own.

    The first can be told without reading the file, so an unread file is known to be unchanged when its bytes and this
    part are. The last tells whether trust must start anew, or only words around it have changed.
    """
    front_part = digest(_canonical(front_matter))[:_FRONT]
    prior_part = digest(_canonical((prior.source_class.value, _worth(prior.policy))))[:_PRIOR]
    return given_part + front_part + prior_part


def given_part(policies: Mapping[SourceClass, TrustPolicy], given: Given, sidecar: Governed) -> str:
    """Return the part of the fingerprint that can be told without reading the file."""
    used = {c.value: _worth(p) for c, p in policies.items() if c in (SourceClass.CURATED, SourceClass.DOCUMENT)}
    voices = (given.trust.value, given.confidence, given.verified, dict(given.metadata))
    beside = (sidecar.confidence, sidecar.verified, sidecar.title, sidecar.tags, dict(sidecar.rest))
    return digest(_canonical((used, voices, beside)))[:_GIVEN]


def is_given_alike(fingerprint: str, part: str) -> bool:
    """Return whether a stored metadata hash begins with this part."""
    return fingerprint[:_GIVEN] == part


def is_prior_alike(one: str, other: str) -> bool:
    """Return whether two metadata hashes stand for the same prior trust."""
    return one[-_PRIOR:] == other[-_PRIOR:]


def _worth(policy: TrustPolicy) -> tuple[float, bool]:
    """Return what a policy says of a document. How fast trust fades says nothing of it: evidence must outlive that."""
    return policy.confidence, policy.verified


def _canonical(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
