from dataclasses import replace

from ingest.blocks import Chunk
from ingest.prior import DocumentPrior
from ingest.version import Rules, due_for_renewal, ended, next_version
from kb.model import FOREVER, Document, DocumentId, Fingerprint, SourceClass, Standing
from kb.trust import DAY_MS, TrustPolicy, effective

POLICY = TrustPolicy(confidence=0.9)
PRIOR = DocumentPrior(source_class=SourceClass.DOCUMENT, policy=POLICY, title="", metadata={})
RULES = Rules(prior=PRIOR, reset=False, gate=0.7)
DAY = DAY_MS


def doc(version: int = 1, title: str = "Guide") -> Document:
    fingerprint = Fingerprint(raw="r", content=str(version), metadata="m", pipeline="p")
    return Document(
        id=DocumentId("d"), tenant="t", root="docs", source="file://docs/a.md", version=version,
        fingerprint=fingerprint, title=title,
    )  # fmt: skip


def chunks(*texts: str) -> list[Chunk]:
    return [
        Chunk(text=t, heading_path=("Guide",), start=10 * n, end=10 * n + 9, page=None, tokens=3)
        for n, t in enumerate(texts)
    ]


def store(change, known=None):
    """Apply a change as the ledger would."""
    after = dict(known or {})
    for memory in (*change.added, *change.changed, *change.superseded):
        after[memory.id] = memory
    return after


def by_text(known):
    return {m.text: m for m in known.values()}


def test_a_first_version_adds_every_passage_in_order():
    change = next_version(doc(), chunks("one", "two"), {}, RULES, 100)
    assert [m.text for m in change.added] == ["one", "two"]
    assert change.document.memory_ids == tuple(m.id for m in change.added)
    assert {m.standing for m in change.added} == {Standing.ACTIVE}
    assert not change.is_switch
    assert len(change.texts) == 2


def test_editing_one_passage_keeps_every_other_id_and_embeds_one():
    known = store(next_version(doc(), chunks("one", "two", "three"), {}, RULES, 100))
    change = next_version(doc(2), chunks("one", "TWO", "three"), known, RULES, 200)
    assert [m.text for m in change.added] == ["TWO"]
    assert [m.text for m in change.superseded] == ["two"]
    assert change.unchanged == 2
    assert len(change.texts) == 1
    assert change.is_switch


def test_an_unchanged_document_changes_nothing():
    known = store(next_version(doc(), chunks("one", "two"), {}, RULES, 100))
    change = next_version(doc(), chunks("one", "two"), known, RULES, 200)
    assert (change.added, change.changed, change.superseded, change.unchanged) == ((), (), (), 2)
    assert change.texts == {}


def test_evidence_survives_edits_elsewhere_in_the_file():
    known = store(next_version(doc(), chunks("one", "two"), {}, RULES, 100))
    one = by_text(known)["one"]
    known[one.id] = replace(one, trust=replace(one.trust, confidence=0.99, strength=9.0), rev=2)
    after = store(next_version(doc(2), chunks("zero", "one"), known, RULES, 200), known)
    assert by_text(after)["one"].trust == known[one.id].trust
    assert by_text(after)["one"].id == one.id


def test_the_same_passage_twice_is_two_memories():
    change = next_version(doc(), chunks("same", "same"), {}, RULES, 100)
    assert len({m.id for m in change.added}) == 2


def test_a_passage_that_returns_is_brought_back_active_and_renewed():
    first = store(next_version(doc(), chunks("one", "two"), {}, RULES, 0))
    second = store(next_version(doc(2), chunks("one"), first, RULES, DAY), first)
    assert by_text(second)["two"].standing is Standing.SUPERSEDED
    change = next_version(doc(3), chunks("one", "two"), second, RULES, 40 * DAY)
    back = by_text(store(change, second))["two"]
    assert change.revived == {back.id}
    assert (back.standing, back.valid_from, back.valid_to) == (Standing.ACTIVE, 0, FOREVER)  # its past stays
    assert effective(back.trust, 40 * DAY, POLICY.half_life) == 0.9


def test_a_quarantined_passage_stays_quarantined_through_loss_and_return():
    known = store(next_version(doc(), chunks("bad"), {}, RULES, 0))
    bad = by_text(known)["bad"]
    known[bad.id] = replace(bad, standing=Standing.QUARANTINED, standing_reason="poison", rev=2)
    gone = store(next_version(doc(2), chunks("good"), known, RULES, 1), known)
    back = store(next_version(doc(3), chunks("bad"), gone, RULES, 2), gone)
    assert by_text(back)["bad"].standing is Standing.QUARANTINED
    assert by_text(back)["bad"].standing_reason == "poison"


def test_a_new_prior_starts_trust_anew_and_a_new_title_does_not():
    known = store(next_version(doc(), chunks("one"), {}, RULES, 0))
    low = replace(POLICY, confidence=0.6)
    rules = Rules(prior=replace(PRIOR, policy=low), reset=True, gate=0.7)
    (lowered,) = next_version(doc(), chunks("one"), known, rules, DAY).changed
    assert (lowered.trust.confidence, lowered.trust.anchor) == (0.6, DAY)
    (titled,) = next_version(doc(title="Manual"), chunks("one"), known, RULES, 1).changed
    assert titled.trust == by_text(known)["one"].trust
    assert titled.embed_hash != by_text(known)["one"].embed_hash
    assert titled.id == by_text(known)["one"].id


def test_every_change_takes_the_next_revision():
    known = store(next_version(doc(), chunks("one", "two"), {}, RULES, 0))
    change = next_version(doc(2), chunks("new", "one"), known, RULES, 1)
    assert all(m.rev == known[m.id].rev + 1 for m in (*change.changed, *change.superseded))


def test_replacing_what_was_verified_is_reported():
    known = store(next_version(doc(), chunks("one"), {}, RULES, 0))
    one = by_text(known)["one"]
    known[one.id] = replace(one, trust=replace(one.trust, verified=True, verified_at=5), rev=2)
    assert next_version(doc(2), chunks("ONE"), known, RULES, 9).reverify == 1


def test_the_end_of_validity_never_precedes_its_beginning():
    (one,) = next_version(doc(), chunks("one"), {}, RULES, 100).added
    assert ended(one, 50, "clock went back").valid_to == 100


def test_renewal_comes_only_when_half_the_time_to_the_gate_is_gone():
    (one,) = next_version(doc(), chunks("one"), {}, RULES, 0).added
    policies = {SourceClass.DOCUMENT: POLICY}
    assert due_for_renewal([one], policies, 0.7, 5 * DAY) == []
    (renewed,) = due_for_renewal([one], policies, 0.7, 6 * DAY)
    assert effective(renewed.trust, 6 * DAY, POLICY.half_life) == 0.9
    assert renewed.rev == one.rev + 1
    quarantined = replace(one, standing=Standing.QUARANTINED)
    assert due_for_renewal([quarantined], policies, 0.7, 9 * DAY) == []
