"""A filter's text: narrow, quoted, and in the little language that every backend reads."""

from __future__ import annotations

import pytest

from kb.errors import InputError
from kb.index import filters
from kb.model import Kind, Scope, Standing
from kb.ports import Criteria
from kb.trust import NEVER_BORN, GateClause


def test_the_default_names_tenant_scope_and_standing() -> None:
    assert filters.expression(Criteria(tenant="t")) == (
        'tenant == "t" and agent == "" and user == "" and conversation == "" and standing == 0'
    )


def test_everything_at_once() -> None:
    criteria = Criteria(
        tenant="t",
        scope=Scope(user="u"),
        standings=(Standing.SUPERSEDED, Standing.ACTIVE),
        gate=(
            GateClause(policies=(1, 2), above=0.7, born_after=5),
            GateClause(policies=(3,), above=0.7, born_after=NEVER_BORN),
        ),
        valid_at=9,
        kinds=(Kind.NOTE,),
        sources=("a", "b"),
        doc_ids=("d",),
        metadata={"k": 1, "b": True, "f": 0.5, "s": "x"},
    )
    assert filters.expression(criteria) == (
        'tenant == "t" and agent == "" and user in ["", "u"] and conversation == "" and standing in [0, 2]'
        " and ((policy in [1, 2] and confidence > 0.7 and birth > 5)"
        " or (policy == 3 and confidence > 0.7 and birth >= -9223372036854775807))"
        " and valid_from <= 9 and valid_to > 9"
        ' and kind == "note" and source in ["a", "b"] and doc_id == "d"'
        ' and metadata["k"] == 1 and metadata["b"] == true and metadata["f"] == 0.5 and metadata["s"] == "x"'
    )


def test_the_gate_turned_round_needs_no_not() -> None:
    clause = GateClause(policies=(1, 2), above=0.7, born_after=5)
    turned = filters.expression(Criteria(tenant="t", gate=(clause,), gated_out=True))
    assert turned.endswith(" and (((policy != 1 and policy != 2) or confidence <= 0.7 or birth <= 5))")
    assert "not" not in turned.replace("note", "")


def test_quotes_and_backslashes_stay_inside_their_literal() -> None:
    assert '"a\\"b\\\\c"' in filters.expression(Criteria(tenant='a"b\\c'))


@pytest.mark.parametrize("text", ["a\nb", "\r", "\0", "\ud800"])
def test_what_no_literal_can_hold_is_refused(text: str) -> None:
    for criteria in (
        Criteria(tenant=text),
        Criteria(tenant="t", sources=(text,)),
        Criteria(tenant="t", metadata={"k": text}),
    ):
        with pytest.raises(InputError):
            filters.expression(criteria)


def test_numbers_keep_their_exact_value() -> None:
    for number in (0.1 + 0.2, 1e-7, 5e-324, 1.7976931348623157e308, 1 / 3):
        text = filters.expression(Criteria(tenant="t", metadata={"k": number})).rsplit(" ", 1)[1]
        assert float(text) == number
