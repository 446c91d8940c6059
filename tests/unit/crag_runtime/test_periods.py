"""Which periods texts name, in both languages, and what is no period."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kb.dates.periods import periods_in

TODAY = int(datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp() * 1000)  # a Monday


def _at(day: str) -> int:
    return int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() * 1000)


def _days(text: str) -> list[str]:
    """Return `first/last` day of each period."""
    found = []
    for period in periods_in(text, TODAY):
        first = datetime.fromtimestamp(period.start / 1000, tz=UTC)
        last = datetime.fromtimestamp(period.end / 1000, tz=UTC) - timedelta(days=1)
        found.append(f"{first:%Y-%m-%d}/{last:%Y-%m-%d}")
    return found


Y24, Q3, H1 = "2024-01-01/2024-12-31", "2024-07-01/2024-09-30", "2024-01-01/2024-06-30"
MARCH, FIFTH = "2024-03-01/2024-03-31", "2024-03-05/2024-03-05"

SAME = {
    Y24: "2024 results|FY2024|FY 2024|FY24|fiscal year 2024|in 2024|(2024)|2024年|２０２４年"
    "|二〇二四年|二零二四年|2024财年|2024 年度|mid-2024",
    Q3: "Q3 2024|Q3, 2024|Q3 of 2024|Q3'24|3Q24|3Q 2024|2024Q3|2024-Q3|2024 Q3|24Q3|FY24 Q3"
    "|Q3 FY2024|third quarter of 2024"
    "|2024 third quarter|the third-quarter 2024|2024年第三季度|2024年三季度|2024年第3季度"
    "|24年三季度|二〇二四年第三季度|2024 年 第三季度",
    H1: "H1 2024|1H24|2024H1|first half of 2024|2024年上半年|January to June 2024|2024年1-6月"
    "|2024年1月至6月|2024年前两季度",
    MARCH: "March 2024|Mar. 2024|Mar 2024|march 2024|March, 2024|March of 2024|2024-03|2024/03"
    "|Mar-2024|Mar '24|2024年3月|2024年三月"
    "|2024年03月份|24年3月|二〇二四年三月|2024 March",
    FIFTH: "2024-03-05|2024/3/5|2024.03.05|March 5, 2024|March 5th, 2024|5 March 2024"
    "|5th of March 2024|05-Mar-2024|5.3.2024"
    "|2024年3月5日|2024年3月5号|2024年三月五日|二〇二四年三月五日|2024-03-05T10:00:00Z",
    "2019-01-01/2021-12-31": "2019–2021|2019-2021|2019 - 2021|from 2019 to 2021|between 2019 and 2021"
    "|2019年至2021年|2019-21|2019到2021年"
    "|2019~2021",
    "1811-01-01/1827-12-31": "from 1811 to 1827|between 1811 and 1827|1811-1827",
    "1990-01-01/1999-12-31": "1990s|the 1990s|the 90s|the '90s|1990年代|20世纪90年代|二十世纪九十年代|上世纪90年代",
    "2024-01-01/2024-09-30": "first nine months of 2024|first three quarters of 2024|2024年前三季度|Q1-Q3 2024",
    "2024-10-01/2024-12-31": "last quarter of 2024|Q4 2024|2024年第四季度",
    "2024-03-05/2024-03-07": "March 5-7, 2024|5–7 March 2024|2024年3月5日至7日",
}


@pytest.mark.parametrize(("days", "text"), [(days, text) for days, texts in SAME.items() for text in texts.split("|")])
def test_every_way_to_write_a_period_names_the_same_days(days, text):
    assert _days(text) == [days]
    assert _days(f"What was the revenue ({text})?") == [days]


RELATIVE = {
    "2025-01-01/2025-12-31": "last year|the previous year|a year ago|去年|上一年|last fiscal year",
    "2026-01-01/2026-12-31": "this year|今年|本年度|the current year",
    "2024-01-01/2024-12-31": "前年|two years ago|两年前",
    "2027-01-01/2027-12-31": "next year|明年",
    "2026-10-01/2026-12-31": "this quarter|本季度|这个季度",
    "2026-07-01/2026-09-30": "last quarter|上季度|上个季度|上一季度",
    "2026-11-01/2026-11-30": "this month|本月|这个月",
    "2026-10-01/2026-10-31": "last month|上个月|上月",
    "2026-11-30/2026-11-30": "today|今天|今日",
    "2026-11-29/2026-11-29": "yesterday|昨天|昨日",
    "2026-11-28/2026-11-28": "the day before yesterday|前天",
    "2026-11-23/2026-11-29": "last week|上周|上星期",
    "2025-07-01/2025-09-30": "Q3 last year|third quarter of last year|去年第三季度|去年三季度",
    "2025-03-01/2025-03-31": "March last year|去年3月|去年三月",
    "2026-01-01/2026-11-30": "year to date|so far this year|今年以来|年初至今",
    "2023-11-28/2026-11-30": "last three years|past 3 years|过去三年|近3年|最近三年",
    "2026-08-01/2026-08-31": "三个月前|3个月前|three months ago",
}


@pytest.mark.parametrize(
    ("days", "text"), [(days, text) for days, texts in RELATIVE.items() for text in texts.split("|")]
)
def test_relative_words_are_resolved_against_today(days, text):
    assert _days(text) == [days]


NO_PERIOD = (
    "port 2024|version 2024.1|2048 bytes|1,999 euros|1999 EUR|€2024|$ 2020|SKU-2024-X5"
    "|id 2021|#2024|error 2013|RFC 2119|ISO 2022|page 1984"
    "|2000 employees|2000 people|more than 2000 users|a total of 2010 files"
    "|Windows Server 2022|10.2024.3.1|192.168.20.24|20240305|3.14|0x2024"
    "|12:2024|2024ms|2024 ms|2024px|room 2012|99.2024%|May I ask?|march on|it may be"
    "|second to none|first half|Q3|H1|3月|三季度|上半年|2024个|2024元"
    "|共2000人|端口2024|版本2024|24 hours|90 days|5%|abc2024|2024abc|/2024/a"
    "|last year of the programme|the last word|1500年历史|第2024页|3个月|2030美元"
)


@pytest.mark.parametrize("text", NO_PERIOD.split("|"))
def test_numbers_and_words_that_are_no_period_are_none(text):
    assert _days(text) == []


def test_parts_in_a_list_share_the_year():
    assert _days("Q1, Q2 and Q3 2024") == ["2024-01-01/2024-03-31", "2024-04-01/2024-06-30", Q3]
    assert _days("2024年一季度和三季度") == ["2024-01-01/2024-03-31", Q3]
    assert _days("In 2024 revenue rose; in Q3 it fell.") == [Y24]  # another clause
    assert _days("In 2024, revenue rose most in Q3.") == [Y24, Q3]


def test_open_periods_reach_from_or_to_what_they_name():
    assert _days("since 2022") == _days("2022年以来") == _days("自2022年起") == ["2022-01-01/2026-11-30"]
    assert _days("after March 2024") == _days("2024年3月之后") == ["2024-04-01/2026-11-30"]
    assert _days("before March 2024") == _days("2024年3月之前") == ["1000-01-01/2024-02-29"]


def test_a_date_whose_month_nobody_knows_names_its_year():
    assert _days("03/05/2024") == [Y24]
    assert _days("13/05/2024") == ["2024-05-13/2024-05-13"]
    assert _days("05/13/2024") == ["2024-05-13/2024-05-13"]


def test_a_date_that_does_not_exist_names_no_day():
    assert _days("2023-02-29") == []
    assert _days("2024-13-01") == []
    assert _days("30 February 2023") == ["2023-02-01/2023-02-28"]


def test_a_period_named_twice_is_there_once_and_keeps_its_words():
    found = periods_in("Q3 2024, that is 2024年第三季度", TODAY)
    assert [period.label for period in found] == ["Q3 2024"]
    assert found[0].start == _at("2024-07-01")


def test_leap_days_and_year_ends_are_exact():
    assert _days("February 2024") == ["2024-02-01/2024-02-29"]
    assert _days("December 2023") == ["2023-12-01/2023-12-31"]
    assert _days("2024年12月31日") == ["2024-12-31/2024-12-31"]
