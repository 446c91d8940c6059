"""Laws of vouching: a person's word is never a check's, confidence moves by evidence alone, no hold grows shorter."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from governance.vouching import WITNESSES, disavowed, vouched, why_not
from kb.evidence_rules import applied
from kb.history import EvidenceEvent, EvidenceKind
from kb.independence import root_mark
from kb.model import SourceClass, Standing
from kb.trust import DAY_MS, after_evidence, effective, prior
from kb.vouching import AGAINST, FOR, VOUCHED, WITNESS_BYTES, check_witness, known_as, roots_of, vouchers, with_vouchers
from tests.disputing import FORTY, POLICIES, policy, said
from tests.stores import T0

ROOTS = st.lists(st.text(st.characters(exclude_characters="+:"), min_size=1, max_size=90), max_size=12, unique=True)
WORDS = ("verification", "rejection", "for", "against", "vouched", "agreement", "feedback")
HISTORIES = st.lists(st.tuples(st.sampled_from(WORDS), st.integers(0, 30)), max_size=10)
CLASSES = st.sampled_from([SourceClass.WEB, SourceClass.AGENT, SourceClass.DOCUMENT, SourceClass.PERSON])


def told(words: list[tuple[str, int]]) -> list[EvidenceEvent]:
    """Return events of a memory, one day's after another's."""
    weighed = {
        "for": (EvidenceKind.CHECK, 2.0, f"{FOR}a+b"),
        "against": (EvidenceKind.CHECK, -2.0, f"{AGAINST}c+d"),
        "vouched": (EvidenceKind.CHECK, 0.0, f"{VOUCHED}s:a+b"),
        "agreement": (EvidenceKind.AGREEMENT, 1.0, "e"),
        "feedback": (EvidenceKind.FEEDBACK, 0.5, "f"),
    }
    made = []
    for n, (word, day) in enumerate(sorted(words, key=lambda w: w[1])):
        kind, weight, witness = weighed[word] if word in weighed else (EvidenceKind(word), 0.0, f"ann {n}")
        made.append(
            EvidenceEvent(
                memory_id=said("w", FORTY).id,
                tenant="default",
                kind=kind,
                weight=weight,
                witness=witness,
                at=T0 + day * DAY_MS,
            )
        )
    return made


@given(ROOTS)
def test_a_witness_fits_into_a_name_and_names_the_sources_that_it_has_room_for(roots: list[str]) -> None:
    for prefix in (FOR, AGAINST, f"{VOUCHED}{'5' * 32}:"):
        witness = check_witness(prefix, roots)
        assert len(witness.encode("utf-8", "replace")) <= WITNESS_BYTES
        event = EvidenceEvent(
            memory_id=said("w", FORTY).id, tenant="default", kind=EvidenceKind.CHECK, weight=0.0, witness=witness
        )
        heard = roots_of(event, VOUCHED if prefix.startswith(VOUCHED) else prefix)
        assert heard <= {known_as(root) for root in roots}
        assert len(heard) >= min(WITNESSES, len(roots))


@given(HISTORIES, CLASSES)
def test_a_persons_word_is_never_taken_for_a_checks(words: list[tuple[str, int]], by: SourceClass) -> None:
    history = told(words)
    memory = said("w", FORTY, by=by, verified=True)
    roots = vouchers(memory, history)
    last = max((e.at for e in history if roots_of(e, VOUCHED)), default=None)
    persons = [e for e in history if e.kind is EvidenceKind.VERIFICATION and last is not None and e.at >= last]
    assert bool(roots) == (last is not None and not persons)
    assert vouchers(replace(memory, trust=replace(memory.trust, verified=False)), history) == frozenset()
    assert vouchers(replace(memory, source_class=SourceClass.CURATED), history) == frozenset()
    marks = with_vouchers({}, [memory], {memory.id: history}).get(memory.id, frozenset())
    assert marks == {root_mark(root) for root in roots}


@given(CLASSES, st.integers(0, 400), st.integers(0, 400), st.booleans())
def test_vouching_moves_no_confidence_shortens_no_hold_and_is_idempotent(
    by: SourceClass,
    age: int,
    hold: int,
    is_verified: bool,  # noqa: FBT001 - hypothesis passes it
) -> None:
    memory, own = said("w", FORTY, by=by, verified=is_verified), policy(checked_hold_days=float(hold))
    now = T0 + age * DAY_MS
    after = vouched(memory, own, now)
    assert after.trust.confidence == memory.trust.confidence
    assert after.trust.strength == memory.trust.strength
    assert after.trust.anchor >= max(memory.trust.anchor, now + hold * DAY_MS if after is not memory else 0)
    assert (after.trust.verified, after.standing) == (True, Standing.ACTIVE)
    half_life = own.trust[by].half_life
    for later in (0, 30 * DAY_MS, 500 * DAY_MS):
        assert effective(after.trust, now + later, half_life) >= effective(memory.trust, now + later, half_life) - 1e-9
    assert vouched(after, own, now) == after


@given(HISTORIES, CLASSES)
def test_nothing_that_was_rejected_or_rolled_back_is_ever_vouched_for(
    words: list[tuple[str, int]], by: SourceClass
) -> None:
    history = told([*words, ("rejection", 31)])
    assert why_not(said("w", FORTY, by=by), policy(), history) == "rejected"
    rolled = said("w", FORTY, by=by, standing=Standing.QUARANTINED)
    assert why_not(replace(rolled, standing_reason="rolled back by sweep 1"), policy(), []) == "rolled back"


@given(HISTORIES, CLASSES)
def test_a_disavowal_takes_the_word_back_and_lets_nothing_out(words: list[tuple[str, int]], by: SourceClass) -> None:
    memory = said("w", FORTY, by=by, verified=True)
    after = disavowed(memory, policy(), told(words), "refuted")
    assert (after.trust.verified, after.trust.verified_at) == (False, None)
    assert after.trust.confidence == memory.trust.confidence
    assert after.standing in (memory.standing, Standing.QUARANTINED)
    if by in (SourceClass.DOCUMENT, SourceClass.PERSON):
        assert after.standing is memory.standing


@given(st.sampled_from([SourceClass.WEB, SourceClass.AGENT]), st.integers(0, 20), st.integers(0, 20))
def test_of_a_prior_about_which_nothing_is_known_one_negative_never_kills(by: SourceClass, age: int, more: int) -> None:
    own = POLICIES[by]
    memory = replace(said("w", FORTY, by=by), standing=Standing.ACTIVE)
    negative = told([("against", age)])
    after = applied(memory, negative, policy=own, now=T0 + age * DAY_MS)
    assert after.standing is Standing.ACTIVE
    two = told([("for", age + more)])
    lifted = applied(after, two, policy=own, now=T0 + (age + more) * DAY_MS, history=negative)
    assert lifted.trust.confidence > after.trust.confidence


@given(st.sampled_from([SourceClass.WEB, SourceClass.AGENT]))
def test_one_check_or_two_witnesses_lift_a_fresh_finding_above_the_gate_and_one_witness_is_not_two(
    by: SourceClass,
) -> None:
    own = POLICIES[by]
    fresh = prior(own, T0)
    assert (
        after_evidence(fresh, [2.0], T0, own.half_life).confidence
        == after_evidence(fresh, [1.0, 1.0], T0, own.half_life).confidence
    )
    assert 0.83 < after_evidence(fresh, [2.0], T0, own.half_life).confidence < 0.84
    assert after_evidence(fresh, [1.0], T0, own.half_life).confidence < 0.76
