"""Criteria as a Milvus filter: the only place where a filter's text is made. Pure.

Only what Milvus Lite 2.5.1 and servers agree on is used: comparisons, `and`, `or`, `in`, equality on a JSON path. There
is no `not`, so the gate's complement is written out. Caller text enters as string literals only; names never enter, but
for metadata keys, which must be plain words.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from kb.errors import InputError
from kb.index import schema
from kb.trust import NEVER_BORN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kb.model import Scope
    from kb.ports import Criteria
    from kb.trust import GateClause

METADATA_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
INT64_MAX = 2**63 - 1
# Milvus Lite drops the backslash of every escape but those of quote and backslash, so that "\n" would mean "n", and
# takes all other characters as they are, except line breaks, which no literal can hold. NUL is not text anywhere.
UNSPEAKABLE = re.compile("[\0\n\r\ud800-\udfff]")


def expression(criteria: Criteria) -> str:
    """Return the filter that passes exactly the rows `criteria` describes.

    Raises:
        InputError: the tenant is empty, a text has characters that no filter can hold, a metadata key is not a plain
            word, or a number is not finite or not in INT64.
    """
    if not criteria.tenant:
        raise InputError("the tenant is empty: every search names one")
    return " and ".join(_parts(criteria))


def with_ids(ids: Sequence[str]) -> str:
    """Return the filter that passes the rows with these ids; at least one."""
    return _any_of(schema.ID, ids)


def id_range(after: str, upto: str | None) -> str:
    """Return the filter that passes ids greater than `after` and, if given, not greater than `upto`, in byte order."""
    above = f"{schema.ID} > {_literal(after)}"
    return above if upto is None else f"{above} and {schema.ID} <= {_literal(upto)}"


def _parts(criteria: Criteria) -> Iterator[str]:
    yield f"{schema.TENANT} == {_literal(criteria.tenant)}"
    for column, part in _scope(criteria.scope):
        yield _any_of(column, ("", part)) if part else f'{column} == ""'
    if criteria.standings:
        yield _one_of(schema.STANDING, sorted({standing.number for standing in criteria.standings}))
    if criteria.gate:
        yield _stopped(criteria.gate) if criteria.gated_out else _passed(criteria.gate)
    elif criteria.gated_out:
        yield f'{schema.ID} == ""'  # no gate stops nothing
    if criteria.valid_at is not None:
        at = _integer(criteria.valid_at)
        yield f"{schema.VALID_FROM} <= {at} and {schema.VALID_TO} > {at}"
    yield from (_any_of(column, allowed) for column, allowed in _allowed(criteria) if allowed)
    yield from (f"{_path(key)} == {_value(value)}" for key, value in criteria.metadata.items())


def _scope(scope: Scope) -> tuple[tuple[str, str], ...]:
    return ((schema.AGENT, scope.agent), (schema.USER, scope.user), (schema.CONVERSATION, scope.conversation))


def _allowed(criteria: Criteria) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return ((schema.KIND, criteria.kinds), (schema.SOURCE, criteria.sources), (schema.DOC_ID, criteria.doc_ids))


def _passed(clauses: Sequence[GateClause]) -> str:
    """Return the OR of the clauses."""
    passed = []
    for clause in clauses:
        policies = f"{_one_of(schema.POLICY, clause.policies)} and " if clause.policies else ""
        passed.append(f"({policies}{schema.CONFIDENCE} > {_number(clause.above)} and {_born(clause, after=True)})")
    return f"({' or '.join(passed)})"


def _stopped(clauses: Sequence[GateClause]) -> str:
    """Return the exact complement of `_passed`: every clause turned round (De Morgan), as there is no `not`."""
    stopped = []
    for clause in clauses:
        elsewhere = " and ".join(f"{schema.POLICY} != {_integer(policy)}" for policy in clause.policies)
        faded = f"{schema.CONFIDENCE} <= {_number(clause.above)} or {_born(clause, after=False)}"
        stopped.append(f"(({elsewhere}) or {faded})" if elsewhere else f"({faded})")
    return f"({' and '.join(stopped)})"


def _born(clause: GateClause, *, after: bool) -> str:
    """Return the test on birth, or its complement; never with the least INT64, which Lite reads as one more."""
    if clause.born_after <= NEVER_BORN:
        return f"{schema.BIRTH} {'>=' if after else '<'} {NEVER_BORN + 1}"
    return f"{schema.BIRTH} {'>' if after else '<='} {_integer(clause.born_after)}"


def _one_of(column: str, numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"{column} == {_integer(numbers[0])}"
    return f"{column} in [{', '.join(_integer(number) for number in numbers)}]"


def _any_of(column: str, texts: Sequence[str]) -> str:
    if len(texts) == 1:
        return f"{column} == {_literal(texts[0])}"
    return f"{column} in [{', '.join(_literal(text) for text in texts)}]"


def _path(key: str) -> str:
    if METADATA_KEY.fullmatch(key) is None:
        raise InputError(f"metadata key {key!r} is not a plain word (letters, digits, _; at most 64)")
    return f'{schema.METADATA}["{key}"]'


def _value(value: str | float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return _integer(value)
    if isinstance(value, float):
        return _number(value)
    return _literal(value)


def _literal(text: str) -> str:
    if not isinstance(text, str):
        raise InputError(f"{text!r} is not a text")
    if UNSPEAKABLE.search(text):
        raise InputError(f"{text[:80]!r} has a line break, NUL or half a character, which a filter cannot hold")
    escaped = str(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _integer(number: int) -> str:
    if not NEVER_BORN < number <= INT64_MAX:
        raise InputError(f"{number} is not a 64-bit number that a filter can hold")
    return str(int(number))


def _number(number: float) -> str:
    if not math.isfinite(number):
        raise InputError(f"{number} is not a finite number")
    return repr(float(number))
