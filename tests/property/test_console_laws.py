"""Laws of what the console computes for its pages: differences, charts, what is visible, who is logged in."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from governance.console.charts import BINS, MAX_A_LAYER, NODE_H, NODE_W, histogram, layered, polyline
from governance.console.difference import LONG, difference, folded
from governance.console.pages.done import inside
from governance.console.sessions import AHEAD_MS, Signer
from governance.console.visible import is_web, visible

WORDS = st.text(st.sampled_from("ab cd.12大桥吨\n\u202eé"), max_size=40)
KINDS = st.sampled_from(["cited", "derived"])
STEPS = st.lists(
    st.tuples(st.integers(0, 60).map(str), st.integers(0, 60).map(str), KINDS, st.integers(1, 4)), max_size=90
)


def joined(pieces):
    return "".join(p.text for p in pieces)


@given(st.text() | WORDS, st.text() | WORDS)
def test_the_pieces_of_a_difference_are_the_texts(one, other):
    left, right = difference(one, other)
    assert (joined(left), joined(right)) == (one, other)


@given(WORDS, WORDS)
def test_what_two_texts_share_is_the_same_on_both_sides(one, other):
    left, right = difference(one, other)
    assert joined(p for p in left if not p.is_own) == joined(p for p in right if not p.is_own)
    assert all(p.text for p in (*left, *right))


@given(WORDS)
def test_a_text_does_not_differ_from_itself(text):
    assert not any(p.is_own for side in difference(text, text) for p in side)


@settings(max_examples=10)
@given(st.integers(2_001, 4_000), WORDS)
def test_texts_too_long_to_compare_are_shown_whole(words, other):
    left, right = difference("a " * words, other)
    assert (joined(left), joined(right)) == ("a " * words, other)
    assert not any(p.is_own for p in (*left, *right))


@settings(max_examples=30)
@given(st.integers(0, 450), WORDS, WORDS, st.integers(0, 450))
def test_a_folded_text_keeps_its_differences_and_is_short(before, one, other, after):
    left, _ = difference("x " * before + one + " y" * after, "x " * before + other + " y" * after)
    short = folded(left)
    if short is None:
        assert sum(len(p.text) for p in left) <= LONG
        return
    own, kept = [p.text for p in left if p.is_own], [p.text for p in short if p.is_own]
    assert kept == own[: len(kept)]
    assert not own or kept
    assert sum(len(p.text) for p in short) <= LONG * 3


@given(st.lists(st.floats(0, 1)))
def test_a_histogram_counts_every_value_once(values):
    bars = histogram(values)
    assert len(bars) == BINS
    assert sum(b.number for b in bars) == len(values)
    assert all(a.high == b.low for a, b in pairwise(bars))
    for bar in bars:
        in_it = [v for v in values if bar.low <= v < bar.high or (v == 1.0 and bar.high == 1.0)]
        assert abs(len(in_it) - bar.number) <= sum(min(abs(v - bar.low), abs(v - bar.high)) < 1e-12 for v in values)
        assert 0 <= bar.height <= 1
    assert not values or max(b.height for b in bars) == 1


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=90))
def test_a_line_stays_in_its_box(values):
    points = [tuple(map(float, p.split(","))) for p in polyline(values, 600, 120).split()]
    assert len(points) == len(values)
    assert all(0 <= x <= 600 and 0 <= y <= 120 for x, y in points)
    assert all(a[0] < b[0] for a, b in pairwise(points))


@settings(max_examples=40)
@given(STEPS, STEPS)
def test_no_boxes_of_a_lineage_overlap_and_all_are_in_the_picture(up, down):
    graph = layered("start", up, down)
    for n, one in enumerate(graph.nodes):
        assert 0 <= one.x <= graph.width - NODE_W
        assert 0 <= one.y <= graph.height - NODE_H
        for other in graph.nodes[n + 1 :]:
            assert abs(one.x - other.x) >= NODE_W or abs(one.y - other.y) >= NODE_H
    ids = [n.id for n in graph.nodes]
    assert len(ids) == len(set(ids))
    assert "start" in ids
    assert {i for i, *_ in (*up, *down)} | {"start"} == set(ids) or graph.left_out
    assert all(link.x1 <= graph.width and link.x2 <= graph.width for link in graph.links)
    assert max([sum(n.layer == m.layer for m in graph.nodes) for n in graph.nodes]) <= MAX_A_LAYER


@given(st.text())
def test_what_is_visible_hides_and_turns_nothing_and_loses_no_letter(text):
    shown = visible(text)
    assert visible(shown) == shown
    assert not any(
        unicodedata.bidirectional(c) in {"RLE", "LRE", "RLO", "LRO", "PDF", "RLI", "LRI", "FSI", "PDI"} for c in shown
    )
    assert not any(unicodedata.category(c) in {"Cc", "Cs"} and c not in "\t\n\r" for c in shown)
    letters = [c for c in text if unicodedata.category(c)[0] in "LNPS"]
    assert all(c in shown for c in letters)
    if all(c.isprintable() for c in text):
        assert shown == text


@given(st.text(st.sampled_from("htps:/\\@x.?#[]\"' \n\u202e"), max_size=30) | st.text())
def test_only_http_is_a_link(text):
    if is_web(text):
        assert text.lower().startswith(("http://", "https://"))
        assert not set(text) & set("\"'<> \n\t\\\u202e")


@given(st.text(st.sampled_from("/\\.a?#@:\t\r\n%x"), max_size=12) | st.text())
def test_a_way_inside_is_a_path_and_no_host(text):
    path = inside(text)
    assert path.startswith("/")
    assert not path.startswith(("//", "/\\"))
    assert path.isascii()
    assert not set(path) & set('\\\t\r\n #<>"')


@given(st.text(max_size=80), st.integers(0, 2**40))
def test_no_cookie_is_a_session_but_one_that_was_given(text, now):
    signer = Signer(secret=b"one", hours=1)
    assert signer.session(text, now) is None
    session, cookie = signer.begun("0123456789abcdef", now, logouts=3)
    assert signer.session(cookie, now) == session
    assert signer.session(cookie, now + 3_600_000) is None
    assert signer.session(cookie, now - AHEAD_MS) == session  # another server's clock may be before ours
    assert signer.session(cookie, now - AHEAD_MS - 1) is None
    assert Signer(secret=b"two", hours=1).session(cookie, now) is None
    assert signer.is_token(session, signer.token(session))
    assert not signer.is_token(session, text)
    assert not signer.is_token(session, cookie.rpartition(".")[2])  # the cookie's own signature opens no form
