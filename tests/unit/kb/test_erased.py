"""Who quotes what was erased, and by which pieces it is known again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kb.erased import Words, numbers_of, pieces, spoken_by, strings, without_others
from kb.telling import telling_sentences

ENGLISH = "The vault opens with a phrase of three words. Its key hangs behind the copper astrolabe."
CHINESE = "库房的备用口令是紫檀渡口三百二十七号。管理员把备用钥匙藏在琉璃灯座下面。"

SAID = (
    ENGLISH,
    CHINESE,
    "Its key hangs behind the copper astrolabe.",
    "PIN 4711",
    "A guard walks by at nine each night.",
    "",
)


def test_a_sentence_is_found_whatever_stands_around_it() -> None:
    words = Words([ENGLISH, CHINESE])
    assert words.quoted_in("He said: “its  KEY hangs behind the copper astrolabe” [1].")
    assert words.quoted_in("据记载：管理员把备用钥匙藏在琉璃灯座下面！")
    assert words.quoted_in(ENGLISH)


def test_words_that_are_only_alike_are_no_quote() -> None:
    words = Words([ENGLISH, CHINESE])
    assert not words.quoted_in("The copper astrolabe hangs behind its key.")
    assert not words.quoted_in("The vault opens with a phrase of four words.")
    assert not words.quoted_in("管理员在琉璃灯座下面。")
    assert not words.quoted_in("")


def test_a_short_note_is_looked_for_as_a_whole_and_a_single_word_never() -> None:
    assert Words(["PIN 4711"]).quoted_in("the pin: 4711, as before")
    assert not Words(["PIN 4711"]).quoted_in("the pin 47110")
    assert not Words(["Yes"])
    assert not Words([])


def test_pieces_are_the_whole_its_paragraphs_and_its_sentences() -> None:
    first, second = ENGLISH.split(". ")
    assert pieces(f"{ENGLISH}\n\nSee below.") == (f"{ENGLISH}\n\nSee below.", ENGLISH, f"{first}.", second)
    assert telling_sentences(CHINESE) == tuple(f"{s}。" for s in CHINESE.split("。") if s)


def test_a_paragraph_of_short_sentences_is_found_as_a_whole() -> None:
    words = Words(["# Key\n\nIt is here. Turn it left. Then pull."])
    assert words.quoted_in("They say: it is here. Turn it left. Then pull.")
    assert not words.quoted_in("They say: it is here. Then pull.")


def test_the_pieces_that_others_hold_are_told_one_by_one() -> None:
    first, second = (f"{part.rstrip('.')}." for part in ENGLISH.split(". "))
    words = Words([ENGLISH, CHINESE])
    assert words.spoken_in(f"So it is: {second}") == {second}
    assert words.spoken_in(f"{ENGLISH} And more.") == {ENGLISH, first, second}
    assert words.spoken_in("Nothing of the kind.") == set()


@given(st.lists(st.sampled_from(SAID), max_size=4), st.lists(st.sampled_from(SAID), max_size=4), st.permutations(SAID))
def test_words_of_two_rounds_are_found_as_if_looked_for_at_once(
    first: list[str], later: list[str], text: list[str]
) -> None:
    both, at_once, looked_at = Words(first) | Words(later), Words([*first, *later]), " ".join(text[:3])
    assert both.spoken_in(looked_at) == at_once.spoken_in(looked_at)
    assert both.quoted_in(looked_at) == at_once.quoted_in(looked_at)
    assert bool(both) == bool(at_once)


def test_what_others_say_leaves_no_mark() -> None:
    first, second = ENGLISH.split(". ")
    assert without_others(ENGLISH, "") == [0, 1, 2]
    assert without_others(ENGLISH, spoken_by([f"They say that {second.lower()}"])) == [0, 1]
    assert without_others(ENGLISH, spoken_by([ENGLISH])) == []
    assert without_others(ENGLISH, spoken_by([first, second])) == [0]


def test_a_report_keeps_what_it_counted() -> None:
    report = {"documents": {"failed": 1, "by": "ada"}, "failures": [{"message": ENGLISH}], "seconds": 2.5}
    assert numbers_of(report) == {"documents": {"failed": 1}, "seconds": 2.5}
    assert list(strings(report)) == ["documents", "failed", "by", "ada", "failures", "message", ENGLISH, "seconds"]
