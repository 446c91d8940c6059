"""What a search answers becomes plain, bounded, distinct findings, whatever it answers."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_runtime.searchers.dates import instant_of
from crag_runtime.searchers.exchange import fault_of, retry_after, told
from crag_runtime.searchers.normal import TEXT_CHARS, TITLE_CHARS, asked_query, is_nearly_equal, normalised
from crag_runtime.searchers.plain import plain_text
from kb.addresses import canonical_url, host_of, registrable
from kb.clock import LAST_SECOND
from kb.errors import Fault
from kb.words.shortened import shortened

FIELDS = ["url", "link", "title", "content", "snippet", "published_date", "publishedDate", "date", "results", "error"]
URLS = [
    "https://a.example/x",
    "http://[::1",
    "HTTP://B.example:80/#f",
    "ftp://c.example",
    "//d.example",
    "javascript:0",
]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(alphabet=st.characters()) | st.sampled_from(URLS),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(FIELDS) | st.text(), inner, max_size=6),
    max_leaves=20,
)
entries = st.fixed_dictionaries(
    {"url": st.sampled_from(URLS) | st.text()}, optional=dict.fromkeys(FIELDS[2:], json_values)
)


@given(payload=json_values | st.lists(entries | json_values), limit=st.integers(0, 5))
def test_no_reply_whatsoever_breaks_it_and_every_finding_keeps_the_contract(payload, limit):
    result = normalised(payload, limit=limit)
    assert len(result.findings) <= limit
    for finding in result.findings:
        assert finding.url.startswith(("http://", "https://"))
        assert canonical_url(finding.url) == finding.url
        assert 0 < len(finding.text) <= TEXT_CHARS
        assert len(finding.title) <= TITLE_CHARS
        for text in (finding.text, finding.title):
            text.encode()
            assert unicodedata.is_normalized("NFC", text)
            assert not any(unicodedata.category(c) == "Cc" for c in text.replace("\n", ""))
        assert finding.published is None or 0 <= finding.published <= LAST_SECOND
    urls = [f.url for f in result.findings]
    assert len(set(urls)) == len(urls)
    assert normalised(payload, limit=limit) == result


@given(st.text() | st.sampled_from(URLS))
def test_an_address_has_one_spelling(text):
    once = canonical_url(text)
    assert canonical_url(once) == once
    assert once.isascii()


@pytest.mark.parametrize(
    ("given_", "wanted"),
    [
        ("HTTPS://WWW.Example.COM:443/A/b?q=1&utm_source=x&b=2#top", "https://www.example.com/A/b?q=1&b=2"),
        ("http://example.com:80", "http://example.com/"),
        ("http://example.com:8080/", "http://example.com:8080/"),
        ("https://user:secret@example.com/x", "https://example.com/x"),
        ("https://例子.测试/路 径?问=答", "https://xn--fsqu00a.xn--0zwm56d/%E8%B7%AF%20%E5%BE%84?%E9%97%AE=%E7%AD%94"),
        ("https://example.com/a%20b?fbclid=1&gclid=2", "https://example.com/a%20b"),
        ("https://example.com./x", "https://example.com/x"),
        ("http://[2001:DB8::1]:80/x", "http://[2001:db8::1]/x"),
        ("https://example.com:99999/", ""),
        ("https:///path", ""),
        ("/relative", ""),
        ("example.com/x", ""),
        ("file:///etc/passwd", ""),
        ("javascript:alert(1)", ""),
        ("https://exa mple.com/", ""),
        ("https://example.com/" + "x" * 3000, ""),
    ],
)
def test_addresses_are_absolute_and_canonical_or_nothing(given_, wanted):
    assert canonical_url(given_) == wanted


@pytest.mark.parametrize(
    ("host", "wanted"),
    [
        ("example.org", "example.org"),
        ("en.wikipedia.org", "wikipedia.org"),
        ("news.bbc.co.uk", "bbc.co.uk"),
        ("bbc.co.uk", "bbc.co.uk"),
        ("a.b.gov.cn", "b.gov.cn"),
        ("192.168.0.1", "192.168.0.1"),
        ("2001:db8::1", "2001:db8::1"),
        ("localhost", "localhost"),
    ],
)
def test_pages_of_one_owner_share_a_registrable_host(host, wanted):
    assert registrable(host) == wanted
    assert registrable(host_of(f"https://www.{host}/x")) == wanted or ":" in host or host[0].isdigit()


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        ("<p>The <b>bridge</b> opened&nbsp;in 1932 &amp; stays.</p>", "The bridge opened in 1932 & stays."),
        ("a < b and c > d", "a < b and c > d"),
        ("List<String> and H<sub>2</sub>O", "List<String> and H2O"),
        ("one<br/>two<script>evil('</p>')</script >three", "one\ntwo three"),
        ("&lt;script&gt;x&lt;/script&gt; text", "text"),
        ("<<b>b>bold</<b>b>", "bold"),
        ("<!-- hidden --> seen <![CDATA[ x ]]>", "seen x"),
        ("zero\u200bwidth \u202eoverride\u202c a\x00b\x07c\ufeff", "zerowidth override abc"),
        ("e\u0301 and \u00a0 wide\u3000gap\r\n\r\n\tnext", "\u00e9 and wide gap\nnext"),
        ("tag\U000e0041\U000e0042 chars \ud800 \ufffe", "tag chars"),
        ("<scr\u200bipt>x", "x"),
        ("see [the page](https://x.example/a) ![](https://x.example/i.png)", "see the page"),
        ("## Heading\nbody #1", "Heading\nbody #1"),
        ("می\u200cخواهم 👩\u200d🚀", "می\u200cخواهم 👩\u200d🚀"),
        ("array[0](x) stays", "array[0](x) stays"),
    ],
)
def test_text_is_what_a_reader_sees(raw, wanted):
    assert plain_text(raw) == wanted


@pytest.mark.parametrize(
    "piece", ["<!--", "<script>", "<b", "<<b>", "[", "[a](", "&lt;", "<b>", "&#60;b&#62;", "# ", " \n"]
)
def test_hostile_markup_costs_no_more_than_its_length(piece):
    def cost(times: int) -> float:
        text = piece * times
        return min(_timed(text) for _ in range(3))

    assert cost(8000 // len(piece)) < 60 * cost(500 // len(piece)) + 0.05  # 16 times as long; quadratic were 256


def _timed(text: str) -> float:
    began = time.perf_counter()
    plain_text(text)
    return time.perf_counter() - began


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("2024-05-03", 1_714_694_400_000),
        ("2024-05-03T10:00:00Z", 1_714_730_400_000),
        ("2024-05-03T12:00:00+02:00", 1_714_730_400_000),
        ("2024-05-03 10:00:00", 1_714_730_400_000),
        ("20240503", 1_714_694_400_000),
        ("Fri, 03 May 2024 10:00:00 GMT", 1_714_730_400_000),
        ("Fri, 03 May 2024 12:00:00 +0200", 1_714_730_400_000),
        (1_714_730_400, 1_714_730_400_000),
        (1_714_730_400.5, 1_714_730_400_500),
        (1_714_730_400_000, 1_714_730_400_000),
        ("1714730400", 1_714_730_400_000),
        ("1714730400000", 1_714_730_400_000),
        ("2024年5月3日", 1_714_694_400_000),
        ("2024/05/03", 1_714_694_400_000),
        ("May 3, 2024", 1_714_694_400_000),
        ("3 May 2024", 1_714_694_400_000),
        ("yesterday", None),
        ("", None),
        (None, None),
        (True, None),
        (2024, None),
        (float("nan"), None),
        (10**400, None),
        ("1066-10-14", None),
        ({"date": 1}, None),
        ("2024-13-45", None),
    ],
)
def test_dates_are_read_as_pages_write_them(value, wanted):
    assert instant_of(value) == wanted


@given(st.text(max_size=70) | st.from_regex(r"[A-Z][a-z]{2}, \d{1,3} [A-Z][a-z]{2} \d{1,6} \d\d:\d\d [+-]\d{1,6}"))
def test_no_date_breaks_it(text):
    found = instant_of(text)
    assert found is None or 0 <= found <= LAST_SECOND


def entry(url: str, text: str) -> dict[str, str]:
    return {"url": url, "content": text}


LONG = """The company reported its results for the year on Monday. Revenue was {0} million, and costs fell slightly.
Management expects demand to grow in Asia while European orders stay flat. A new factory opens near Leipzig in spring.
Analysts had hoped for more, yet the shares rose after the announcement. The board proposes an unchanged dividend.
Two directors leave at the end of the month; their successors come from within. Research spending went up once more,
mostly for batteries and recycling. The firm employs people in nine countries and trains many apprentices."""


def test_the_first_of_one_address_and_of_nearly_equal_texts_stays():
    result = normalised(
        [
            entry("https://a.example/x?utm_source=1", LONG.format(5)),
            entry("https://A.example/x#part", "Something else."),
            entry("https://copy.example/", LONG.format(5).upper() + " !"),
            entry("https://b.example/", LONG.format(6)),
        ],
        limit=5,
    )
    assert [f.url for f in result.findings] == ["https://a.example/x", "https://b.example/"]
    assert (result.repeated, result.malformed) == (2, 0)


def test_texts_that_differ_in_a_number_are_never_taken_for_copies():
    assert is_nearly_equal(LONG.format(5), LONG.format(5).replace("Monday", "Mondays"))
    assert not is_nearly_equal(LONG.format(5), LONG.format(6))
    assert not is_nearly_equal("营收为5亿元" * 40, "营收为6亿元" * 40)


def test_malformed_entries_are_counted():
    result = normalised({"results": [None, "x", {}, {"url": "https://a.example"}, entry("nowhere", "text")]}, limit=5)
    assert (result.findings, result.malformed, result.complaint) == ((), 5, "")


@pytest.mark.parametrize(
    "payload", ["", "Error 500: x", None, 7, True, {}, {"error": "quota"}, {"results": {}}, '"inner"']
)
def test_what_is_no_list_of_results_is_complained_of(payload):
    assert normalised(payload, limit=5).complaint


def test_a_list_inside_a_text_is_read_and_a_text_that_says_nothing_was_found_is_empty():
    assert len(normalised('[{"url": "https://a.example/", "content": "text"}]', limit=5).findings) == 1
    assert normalised("No search results found for 'x'. Suggestions: none.", limit=5).complaint == ""


@given(st.text(alphabet="ab。.!? \n大é", max_size=300), st.integers(1, 200), st.none() | st.integers(4, 300))
def test_a_shortened_text_is_a_start_of_it_that_fits(text, chars, octets):
    cut = shortened(text, chars=chars, octets=octets)
    assert text.startswith(cut)
    assert len(cut) <= chars
    assert octets is None or len(cut.encode()) <= octets


def test_a_long_text_ends_with_a_sentence_in_either_script():
    english, chinese = "It opened in 1932. It is long. " * 400, "大桥于一九三二年通车。它很长！" * 400
    assert shortened(english, chars=4000).endswith("long.") or shortened(english, chars=4000).endswith("1932.")
    assert shortened(chinese, chars=4000, octets=8192)[-1] in "。！"
    assert 8192 - 60 < len(shortened(chinese, chars=4000, octets=8192).encode()) <= 8192
    assert shortened("word " * 2000, chars=102) == ("word " * 20).strip()
    assert len(shortened("x" * 9000, chars=4000)) == 4000


@given(st.text(alphabet=st.characters()))
def test_a_query_is_one_short_line(text):
    query = asked_query(text)
    query.encode()
    assert len(query) <= 400
    assert "\n" not in query


def test_what_a_service_says_of_waiting_is_understood():
    assert retry_after({"Retry-After": "7"}) == 7.0
    dates = {"Retry-After": "Fri, 03 May 2024 10:00:30 GMT", "Date": "Fri, 03 May 2024 10:00:00 GMT"}
    assert retry_after(dates) == 30.0
    assert [retry_after({"Retry-After": v}) for v in ("soon", "-1", "nan", "inf", "")] == [None] * 5
    assert retry_after({"Retry-After": dates["Retry-After"]}) is None


def test_a_status_is_a_fault():
    faults = {401: Fault.UNAUTHORISED, 403: Fault.UNAUTHORISED, 429: Fault.RATE_LIMITED, 408: Fault.TIMEOUT}
    faults |= {500: Fault.SERVER, 503: Fault.SERVER, 599: Fault.SERVER, 400: Fault.REJECTED, 432: Fault.REJECTED}
    faults |= {302: Fault.REJECTED, 204: Fault.REJECTED}
    assert {status: fault_of(status) for status in faults} == faults


@given(st.binary(max_size=60))
def test_any_error_page_can_be_told(data):
    assert isinstance(told(data), str)
