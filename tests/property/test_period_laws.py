"""Laws of named periods: they are real, spelling does not matter, and no text is too strange or too slow."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb.dates.almanac import day_of, instant, span
from kb.dates.mentions import mentions
from kb.dates.period import Period
from kb.dates.period_words import absolute, resolved
from kb.dates.periods import mismatched, periods_in, time_intent

TODAY = int(datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp() * 1000)
_NAMES = "January February March April May June July August September October November December"
MONTHS = _NAMES.split()
_HAN_WORDS = "去年 今年 前年 上个月 本月 上季度 昨天 去年第三季度 上周 过去三年"
YEARS = st.integers(1950, 2035)
HAN_DIGITS = "〇一二三四五六七八九"
_PIECES = (
    "2024 |2024年|Q3 |H1 |FY24|March |5, |5 |3月|五日|第三季度|上半年|last |year |ago "
    "|three |去年|今年|since |before |至|-|–|、| and | to |.|。|\n|'|s |the "
    "|90s|1990年代|１|二〇二四|/|03|T|10|:|ISO |个|元|99999|today|昨天|前|近|两"
)
PIECES = st.sampled_from(_PIECES.split("|"))
TEXTS = st.one_of(st.text(max_size=80), st.lists(PIECES, max_size=25).map("".join))


@given(TEXTS, st.integers(instant(date(1990, 1, 1)), instant(date(2099, 1, 1))))
@settings(max_examples=200, deadline=None)
def test_any_text_names_only_real_periods_in_order(text, today):
    found = mentions(text, today)
    assert all(mention.period.start < mention.period.end for mention in found)
    assert all(0 <= mention.at < mention.until <= len(text) for mention in found)
    assert all(one.at < other.at for one, other in pairwise(found))
    assert all(period.label for period in periods_in(text, today))
    distinct = [(period.start, period.end) for period in periods_in(text, today)]
    assert len(set(distinct)) == len(distinct)
    time_intent(text, today)


@given(TEXTS)
@settings(max_examples=60, deadline=None)
def test_reading_twice_gives_the_same(text):
    assert periods_in(text, TODAY) == periods_in(text, TODAY)
    assert time_intent(text, TODAY) == time_intent(text, TODAY)


@given(st.dates(date(1950, 1, 1), date(2035, 12, 31)))
@settings(deadline=None)
def test_a_day_is_the_same_in_every_form(day):
    forms = [
        f"{day:%Y-%m-%d}",
        f"{day:%Y/%m/%d}",
        f"{day.year}年{day.month}月{day.day}日",
        f"{MONTHS[day.month - 1]} {day.day}, {day.year}",
        f"{day.day} {MONTHS[day.month - 1]} {day.year}",
        f"{day:%Y-%m-%d}T10:00:00Z",
    ]
    wanted = (instant(day), instant(day) + 86_400_000)
    assert [[(p.start, p.end) for p in periods_in(form, TODAY)] for form in forms] == [[wanted]] * len(forms)


@given(YEARS, st.integers(1, 4))
def test_a_quarter_is_the_same_in_every_form(year, number):
    han = "".join(HAN_DIGITS[int(digit)] for digit in str(year))
    ordinal = ("first", "second", "third", "fourth")[number - 1]
    forms = [
        f"Q{number} {year}",
        f"{year}Q{number}",
        f"{year}-Q{number}",
        f"the {ordinal} quarter of {year}",
        f"{year}年第{'一二三四'[number - 1]}季度",
        f"{han}年{'一二三四'[number - 1]}季度",
        f"{number}Q {year}",
    ]
    assert len({tuple((p.start, p.end) for p in periods_in(form, TODAY)) for form in forms}) == 1


@given(st.dates(date(1990, 1, 1), date(2080, 1, 1)), st.booleans(), st.data())
@settings(deadline=None)
def test_relative_words_made_absolute_mean_the_same_on_every_later_day(day, in_chinese, data):
    words = (
        _HAN_WORDS.split()
        if in_chinese
        else [
            "last year",
            "this quarter",
            "last month",
            "yesterday",
            "Q3 last year",
            "last week",
            "the last 3 months",
            "H1 last year",
        ]
    )
    word = data.draw(st.sampled_from(words))
    today = instant(day)
    text = f"{word}的营收" if in_chinese else f"revenue {word}"
    fixed = resolved(text, today, in_chinese=in_chinese)
    assert not any(mention.is_relative for mention in mentions(fixed, today))
    ends = [(p.start, p.end) for p in periods_in(text, today)]
    assert [(p.start, p.end) for p in periods_in(fixed, today)] == ends
    assert resolved(fixed, instant(date(2081, 1, 1)), in_chinese=in_chinese) == fixed


@given(st.dates(date(1950, 1, 1), date(2035, 1, 1)), st.integers(1, 900), st.booleans())
@settings(deadline=None)
def test_the_absolute_words_of_a_period_name_that_period(first, days, in_chinese):
    period = Period(start=instant(first), end=instant(first) + days * 86_400_000, label="")
    words = absolute(period, in_chinese=in_chinese)
    assert [(p.start, p.end) for p in periods_in(words, TODAY)] == [(period.start, period.end)]


@given(YEARS, st.integers(1, 4), YEARS, st.integers(1, 4))
def test_another_quarter_is_mismatched_and_the_same_or_its_year_is_not(year, number, other_year, other):
    asked = periods_in(f"Q{number} {year}", TODAY)
    assert mismatched(asked, f"In Q{other} {other_year} it was 5.", None, TODAY) == (
        (year, number) != (other_year, other)
    )
    assert mismatched(asked, f"Over {other_year} it was 5.", None, TODAY) == (year != other_year)
    assert not mismatched(asked, "It was 5.", None, TODAY)
    assert not mismatched((), f"In Q{other} {other_year} it was 5.", None, TODAY)


@given(st.integers(-(10**16), 10**16))
def test_every_instant_has_a_day(at):
    assert day_of(at).year >= 1000


@pytest.mark.parametrize(
    "piece",
    [
        "2024 ",
        "2024-",
        "mar ",
        "一",
        "年",
        "〇",
        "Q1 ",
        "first ",
        "last ",
        "十",
        "1月1",
        "2024 and ",
        " ",
        "the ",
        "'9",
        "12/",
        "三个",
        "前",
        "1-",
        "二〇二四年至",
    ],
)
def test_time_grows_no_faster_than_the_text(piece):
    def seconds(length: int) -> float:
        text = (piece * length)[:length]
        best = float("inf")
        for _ in range(3):
            started = time.process_time()
            periods_in(text, TODAY)
            best = min(best, time.process_time() - started)
        return best

    seconds(200)
    assert seconds(8000) < 16 * max(seconds(1000), 1e-4) + 0.02  # eight times the text; quadratic would be 64 times


def test_dates_outside_the_calendar_have_no_span():
    assert span(999) is None
    assert span(3000) is None
