"""What two passages say of each other, by example: English and Chinese, and above all what is no contradiction."""

from __future__ import annotations

import pytest

from governance.comparing.sayings import Passed, ValueKind
from governance.contradict import Agree, Contradict, Neither, are_close, compare, disputed

MARCH_2024, MARCH_2025 = 1_709_251_200_000, 1_740_787_200_000


def said(one: str, other: str) -> Agree | Contradict | Neither:
    return compare(Passed(text=one), Passed(text=other))


@pytest.mark.parametrize(
    ("one", "other", "kind", "values"),
    [
        (
            "The Acme team plan costs €19 per month for each seat.",
            "The Acme team plan costs €29 per month for each seat.",
            "number",
            ("€19", "€29"),
        ),
        (
            "The Harbour Bridge carries a load of 40 tons on dry days.",
            "The Harbour Bridge carries a load of 55,000 kg on dry days.",
            "number",
            ("40 tons", "55,000 kg"),
        ),
        (
            "The Orion library was founded on 3 May 2011 in Utrecht.",
            "The Orion library was founded on 3 May 2012 in Utrecht.",
            "date",
            ("3 May 2011", "3 May 2012"),
        ),
        (
            "The Orion client library requires at least version 2.4 of the server.",
            "The Orion client library requires at least version 3.1 of the server.",
            "version",
            ("version 2.4", "version 3.1"),
        ),
        (
            "The Orion gateway supports encrypted backups of archived tables.",
            "The Orion gateway does not support encrypted backups of archived tables.",
            "negation",
            ("yes", "no"),
        ),
        ("海港大桥晴天的最大载重量为40吨。", "海港大桥晴天的最大载重量为55吨。", "number", ("40吨", "55吨")),
        (
            "猎户座图书馆于2011年5月3日在乌特勒支成立。",
            "猎户座图书馆于2012年5月3日在乌特勒支成立。",
            "date",
            ("2011年5月3日", "2012年5月3日"),
        ),
        ("猎户座网关支持归档表的加密备份功能。", "猎户座网关不支持归档表的加密备份功能。", "negation", ("yes", "no")),
        (
            "Since 1 May 2025, the Acme team plan costs €29 per month for each seat.",
            "The Acme team plan costs €19 per month for each seat.",
            "number",
            ("€29", "€19"),
        ),
        (
            "海港大桥晴天的最大载重量为三百二十七吨。",
            "海港大桥晴天的最大载重量为五十五吨。",
            "number",
            ("三百二十七吨", "五十五吨"),
        ),
        (
            "Access tokens of the Orion gateway expire after 90 minutes without use.",
            "Access tokens of the Orion gateway expire after two hours without use.",
            "number",
            ("90 minutes", "two hours"),
        ),
    ],
)
def test_one_sentence_with_another_value_is_a_contradiction(
    one: str, other: str, kind: str, values: tuple[str, str]
) -> None:
    found = said(one, other)
    assert isinstance(found, Contradict), found
    assert (found.kind.value, (found.one_value, found.other_value)) == (kind, values)


@pytest.mark.parametrize(
    "sentence",
    ["The Orion client library requires at least {} of the server.", "猎户座客户端启动时至少需要服务器{}。"],
)
@pytest.mark.parametrize(
    ("one", "other", "relation"),
    [
        ("version 2.4", "v2.4", Agree),
        ("版本2.4", "2.4版本", Agree),
        ("version 2.9", "version 2.10", Contradict),
        ("version 2.1", "version 2.10", Contradict),
        ("版本2.1", "版本2.10", Contradict),
        ("2.1版", "2.10版", Contradict),
        ("v2.1", "v2.10", Contradict),
        ("version 2.4", "version 2.4.1", Neither),
        ("版本2.4", "版本2.4.1", Neither),
    ],
)
def test_versions_are_neither_decimals_nor_spellings(
    sentence: str, one: str, other: str, relation: type[object]
) -> None:
    found = said(sentence.format(one), sentence.format(other))
    assert isinstance(found, relation), found
    assert getattr(found, "kind", ValueKind.VERSION) is ValueKind.VERSION


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "Access tokens of the Orion gateway expire after 90 minutes without use.",
            "Access tokens of the Orion gateway expire after 1.5 hours without use.",
        ),
        (
            "The Orion archive holds about 1.2 million records of the northern province.",
            "The Orion archive holds about 1.2 million records of the northern province.",
        ),
        (
            "The Harbour Bridge carries a load of 40 tons on dry days.",
            "The Harbour Bridge carries a load of 40,000 kg on dry days.",
        ),
        (
            "The Orion library was founded on 3 May 2011 in Utrecht.",
            "The Orion library was founded on 2011-05-03 in Utrecht.",
        ),
        ("海港大桥晴天的最大载重量为40吨。", "海港大桥晴天的最大载重量为40000公斤。"),
        ("海港大桥晴天的最大载重量为40吨。", "海港大桥晴天的最大载重量为四十吨。"),
        ("海港大桥晴天的最大载重量为三百二十七吨。", "海港大桥晴天的最大载重量为327吨。"),
        ("海港大桥去年的过桥车辆达到一万二千辆。", "海港大桥去年的过桥车辆达到1.2万辆。"),
    ],
)
def test_equal_values_in_other_units_and_formats_agree(one: str, other: str) -> None:
    assert isinstance(said(one, other), Agree)


@pytest.mark.parametrize(
    ("why", "one", "other"),
    [
        ("another plan", "The Acme team plan costs €19 a month.", "The Acme solo plan costs €9 a month."),
        (
            "other periods",
            "In 2019, the economy of the northern province grew by 6.1 percent.",
            "In 2020, the economy of the northern province grew by 2.3 percent.",
        ),
        ("other periods, zh", "2019年北方省的经济增长了6.1%。", "2020年北方省的经济增长了2.3%。"),
        (
            "it tells of both",
            "The Acme team plan costs €29 per month. Until May, the Acme team plan costs were €19 per month.",
            "The Acme team plan costs €19 per month.",
        ),
        (
            "rounding",
            "The tower of the old town hall is 3.1 km from the harbour.",
            "The tower of the old town hall is 3.14 km from the harbour.",
        ),
        (
            "about",
            "The Orion archive holds about 1,200 records of the northern province.",
            "The Orion archive holds 1,250 records of the northern province.",
        ),
        (
            "a bound",
            "The Orion archive holds at least 1,000 records of the northern province.",
            "The Orion archive holds 4,500 records of the northern province.",
        ),
        (
            "another name",
            "Ann Baker won the regional chess final of the northern league with 12 points.",
            "Bea Cooper won the regional chess final of the northern league with 9 points.",
        ),
        (
            "a case",
            "If the Orion gateway is not encrypted, the archive keeps 10 backups of tables.",
            "If the Orion gateway is encrypted, the archive keeps 20 backups of tables.",
        ),
        (
            "an example",
            "For example, the Orion gateway keeps 10 backups of the archived tables.",
            "The Orion gateway keeps 20 backups of the archived tables.",
        ),
        (
            "versions it works with",
            "Orion 2.4 was tested with the old gateway of the archive.",
            "Orion 3.1 was tested with the old gateway of the archive.",
        ),
        (
            "labels",
            "See Table 3 for the limits of the Orion archive.",
            "See Table 4 for the limits of the Orion archive.",
        ),
        (
            "a yearly event",
            "The regional chess final of the northern league was held on 3 May 2019.",
            "The regional chess final of the northern league was held on 9 May 2021.",
        ),
        (
            "a command",
            "Run `bench tpcc --warehouses 1000 check` to check the data of the import.",
            "Run `bench tpcc --warehouses 4 check` to check the data of the import.",
        ),
        ("rates", "The Acme team plan costs €20 a month for all.", "The Acme team plan costs €200 a year for all."),
        ("rows of tables", "| Acme team plan cost for each seat | 19 |", "| Acme team plan cost for each seat | 29 |"),
        ("nothing", "", "The Acme team plan costs €19 a month."),
    ],
)
def test_what_is_no_contradiction(why: str, one: str, other: str) -> None:
    assert not isinstance(said(one, other), Contradict), why


def test_headings_part_what_the_sentences_do_not() -> None:
    text = "The value must be an integer between one and {}; the maximum is {} entries in the list."
    one = Passed(text=text.format(64, 64), heading_path=("Limits", "Partitions"))
    other = Passed(text=text.format(99, 99), heading_path=("Limits", "Replicas"))
    assert isinstance(compare(one, other), Neither)


def test_headings_of_other_years_or_versions_part_two_passages() -> None:
    text = "The Acme team plan costs €{} per month for each seat."
    for left, right in (("Prices 2023", "Prices 2024"), ("Acme 2.3.1", "Acme 2.4.0")):
        one, other = Passed(text=text.format(19), title=left), Passed(text=text.format(29), title=right)
        assert isinstance(compare(one, other), Neither)


def test_relative_dates_are_those_of_the_day_a_passage_was_written() -> None:
    text = "This year the economy of the northern province grew by {} percent."
    one, other = text.format("6.1"), text.format("2.3")
    apart = compare(Passed(text=one, valid_from=MARCH_2024), Passed(text=other, valid_from=MARCH_2025))
    together = compare(Passed(text=one, valid_from=MARCH_2024), Passed(text=other, valid_from=MARCH_2024 + 1))
    assert isinstance(apart, Neither)
    assert isinstance(together, Contradict)


def test_passages_that_agree_in_all_but_what_matters_do_not_agree() -> None:
    rest = " The match lasted two hours and 14 minutes and was played before 8,000 guests."
    one, other = f"Ann Baker won the final.{rest}", f"Bea Cooper won the final.{rest}"
    assert isinstance(said(one, other), Neither)
    assert not are_close(Passed(text=one), Passed(text="Ships pass at noon."))
    assert isinstance(said(one, one), Agree)


def test_agreement_says_how_much_of_each_passage_it_bears_out() -> None:
    claim = "The Harbour Bridge carries a load of 40 tons on dry days."
    found = said(claim, f"{claim} The keeper of the bridge lives in a white house near the northern gate.")
    assert found == Agree(value="40 tons", one_share=1.0, other_share=0.5)


def test_the_disputed_sentences_are_those_of_each_passage() -> None:
    one = "The keeper lives by the gate. The Harbour Bridge carries a load of 40 tons on dry days."
    other = "The Harbour Bridge carries a load of 55 tons on dry days. Ships pass at noon."
    found = disputed(Passed(text=one), Passed(text=other))
    assert found is not None
    assert ("40 tons" in found[0], "55 tons" in found[1]) == (True, True)
    assert disputed(Passed(text=one), Passed(text=one)) is None
