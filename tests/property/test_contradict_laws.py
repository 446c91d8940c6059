"""Laws of comparing: a mirror image for the mirrored pair, the same answer every time, nothing against itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from governance.comparing.sayings import Passed, said_by
from governance.contradict import Agree, Contradict, compare, mirrored

SUBJECTS = ("The Acme team plan", "The Orion gateway archive", "海港大桥的北门", "猎户座网关的归档表")
CLAIMS = (
    "{} costs €{} per month for each seat.",
    "{} keeps {} backups of the archived tables.",
    "{} does not keep {} backups of the archived tables.",
    "{} was founded on {} May 2011 in the old town.",
    "{}每月最多保存{}个备份文件。",
    "{}不支持{}个加密备份文件。",
    "Since May 2024 {} requires version 2.{} of the client.",
    "Why does {} cost {} euros?",
)
sentences = st.builds(
    lambda claim, subject, number: claim.format(subject, number),
    st.sampled_from(CLAIMS),
    st.sampled_from(SUBJECTS),
    st.integers(1, 28),
)
passages = st.builds(
    Passed,
    text=st.lists(sentences | st.text(max_size=40), max_size=4).map("\n".join),
    title=st.sampled_from(("", "Prices", "Prices 2024", "网关")),
    heading_path=st.lists(st.sampled_from(("Limits", "备份")), max_size=1).map(tuple),
    valid_from=st.sampled_from((0, 1_709_251_200_000, 1_740_787_200_000)),
)


@given(passages, passages)
def test_comparing_is_symmetric_and_deterministic(one: Passed, other: Passed) -> None:
    found = compare(one, other)
    said_by.cache_clear()
    assert compare(other, one) == mirrored(found)
    assert compare(one, other) == found == mirrored(mirrored(found))


@given(passages)
def test_nothing_contradicts_itself(passage: Passed) -> None:
    assert not isinstance(compare(passage, passage), Contradict)


@given(passages, passages)
def test_shares_are_shares_and_values_are_quotes(one: Passed, other: Passed) -> None:
    match compare(one, other):
        case Agree(value=value, one_share=mine, other_share=theirs):
            assert 0 < mine <= 1
            assert 0 < theirs <= 1
            assert value in one.text or value in other.text
        case Contradict(kind=kind, one_value=mine_said, other_value=theirs_said):
            assert kind == "negation" or (mine_said in one.text and theirs_said in other.text)
        case _:
            pass


@given(st.lists(sentences, min_size=1, max_size=4), st.lists(sentences, min_size=1, max_size=4), st.randoms())
def test_the_order_of_paragraphs_decides_no_contradiction(one: list[str], other: list[str], order: object) -> None:
    before = compare(Passed(text="\n\n".join(one)), Passed(text="\n\n".join(other)))
    order.shuffle(one)  # type: ignore[attr-defined] # a random.Random
    after = compare(Passed(text="\n\n".join(one)), Passed(text="\n\n".join(other)))
    assert isinstance(before, Contradict) == isinstance(after, Contradict)
    if isinstance(before, Contradict):
        assert before == after


@given(st.sampled_from(SUBJECTS), st.integers(1, 10**6), st.integers(1, 10**6))
def test_exact_numbers_of_one_unit_contradict_or_agree_or_are_near(subject: str, one: int, other: int) -> None:
    text = "{} keeps exactly {} backup files of the old archived tables."
    found = compare(Passed(text=text.format(subject, one)), Passed(text=text.format(subject, other)))
    if one == other:
        assert isinstance(found, Agree)
    else:
        assert not isinstance(found, Agree)
        is_near = abs(one - other) <= 0.1 * max(one, other) and (one % 100 == 0 or other % 100 == 0)
        assert isinstance(found, Contradict) or is_near
