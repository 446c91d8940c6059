from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kb.model import MemoryId
from kb.ports import Candidate
from kb.ranking import Fusion, ranked, scaled


def arm(**scores: float) -> list[Candidate]:
    return [Candidate(id=MemoryId(k), score=v) for k, v in sorted(scores.items(), key=lambda p: -p[1])]


def test_dense_weighs_seven_tenths_and_text_three():
    ranking = dict(ranked(arm(a=0.9, b=0.8), arm(b=12.0, c=3.0), Fusion.MINMAX))
    assert ranking == {"a": 0.7, "b": 0.3, "c": 0.0}


def test_one_empty_arm_leaves_the_whole_range_to_the_other():
    assert ranked(arm(a=0.9, b=0.8), [], Fusion.MINMAX) == [("a", 1.0), ("b", 0.0)]
    assert ranked([], arm(a=5.0), Fusion.RRF) == [("a", 1.0)]
    assert ranked([], [], Fusion.MINMAX) == []


def test_reciprocal_ranks_ignore_the_scale_of_scores():
    one = ranked(arm(a=0.9, b=0.8), arm(b=1000.0, c=1.0), Fusion.RRF)
    other = ranked(arm(a=0.81, b=0.8), arm(b=2.0, c=1.0), Fusion.RRF)
    assert one == other
    assert one[0][0] == "b"


arms = st.dictionaries(st.sampled_from("abcdefgh"), st.floats(-1, 50, allow_nan=False), max_size=8)


@given(arms, arms, st.sampled_from(Fusion))
def test_scores_stay_in_range_sorted_and_each_id_once(dense, text, fusion):
    ranking = ranked(arm(**dense), arm(**text), fusion)
    scores = [s for _, s in ranking]
    assert scores == sorted(scores, reverse=True)
    assert all(0.0 <= s <= 1.0 + 1e-12 for s in scores)
    assert {i for i, _ in ranking} == set(dense) | set(text)


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.floats(-1, 50, allow_nan=False), min_size=1))
def test_scaling_keeps_order_and_reaches_one(scores):
    result = scaled(arm(**scores))
    assert max(result.values()) == 1.0
    order = sorted(scores, key=lambda k: scores[k])
    assert all(result[MemoryId(a)] <= result[MemoryId(b)] for a, b in pairwise(order))
