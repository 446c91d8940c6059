"""What grades are kept under outside this process: digests, so that no name breaks a key and no question is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kb.ids import digest

if TYPE_CHECKING:
    from crag_runtime.ports import GradeKey


def entry_name(key: GradeKey) -> str:
    """Return the name of one entry: equal exactly for equal keys."""
    return digest("grade", key.tenant, key.question, key.memory_id, str(key.rev), key.evaluator)


def memory_name(tenant: str, memory_id: str) -> str:
    """Return the name under which all entries of a tenant's memory are found."""
    return digest("graded", tenant, memory_id)


def packed(value: str) -> bytes:
    """Return a value as bytes; half a surrogate pair survives."""
    return value.encode("utf-8", "surrogatepass")


def unpacked(data: bytes) -> str:
    """Return what `packed` was given; what it never made comes out as some text."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return ""
