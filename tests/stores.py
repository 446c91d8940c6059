"""A whole store for tests: real ledger, fake or real index, deterministic embedder, a clock that moves when told."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from ingest.parse.raw import ParseLimits
from ingest.parse.worker import ParserWorker
from ingest.pipeline import Sync
from ingest.prior import Given
from ingest.survey import SyncOptions
from ingest.target import target_of
from kb.index.generations import Generations
from kb.ledger import open_ledger
from kb.memories import Memories
from kb.model import Standing
from kb.rebirth import follow_half_lives
from kb.search import SearchRequest
from kb.settings import Settings
from tests.fakes.embedder import HashingEmbedder
from tests.fakes.index import InProcessIndex

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ingest.report import Report
    from kb.ports import Embedder, Index
    from kb.search import SearchResult

GUIDE = """# Guide

## Limits

The bridge carries forty tons on a dry day.

## Colours

The bridge is painted green every spring.

## Opening

The bridge opens at noon for tall ships.
"""

T0 = 1_800_000_000_000  # an instant in 2027: after every file of the tests was written


class FakeClock:
    """Moves only when told."""

    def __init__(self, now: int = T0) -> None:
        self.instant = now

    def now(self) -> int:
        return self.instant

    def advance(self, milliseconds: int) -> None:
        self.instant += milliseconds


class InProcessServer:
    """An index server whose collections live in this process; can be told to be away."""

    def __init__(self) -> None:
        self.collections: dict[str, InProcessIndex] = {}
        self.is_away = False

    def open(self, name: str, dim: int) -> Index:  # noqa: ARG002 - the Protocol's signature
        return _Reachable(self, name)  # type: ignore[return-value] # the Protocol, by delegation

    def has(self, name: str) -> bool:
        self.check()
        return name in self.collections

    def create(self, name: str, dim: int) -> None:
        self.check()
        self.collections.setdefault(name, InProcessIndex(dim))

    def drop(self, name: str) -> None:
        self.check()
        self.collections.pop(name, None)

    def scrub(self, names: Sequence[str]) -> None:  # noqa: ARG002 - the Protocol's signature
        """Nothing is left of what was deleted."""
        self.check()

    def close(self) -> None:
        """Collections stay, as a server's would."""

    def check(self) -> None:
        from kb.errors import IndexUnavailable

        if self.is_away:
            raise IndexUnavailable("told to be away")


class _Reachable:
    def __init__(self, server: InProcessServer, name: str) -> None:
        self._server = server
        self._name = name

    def __getattr__(self, method: str) -> object:
        self._server.check()
        return getattr(self._server.collections[self._name], method)


class Silent:
    """Progress that nobody watches."""

    def stage(self, name: str, total: int) -> None:
        """Nothing to show."""

    def advance(self, steps: int = 1) -> None:
        """Nothing to show."""


@contextmanager
def open_store(
    data_dir: Path,
    *,
    server: object | None = None,
    embedder: Embedder | None = None,
    clock: FakeClock | None = None,
    **settings: object,
) -> Iterator[Memories]:
    """Open a store in `data_dir`; the index is in process unless a server is given."""
    values = Settings(data_dir=data_dir, **settings)  # type: ignore[arg-type]
    url = values.ledger_url.get_secret_value() if values.ledger_url else None
    clock = clock or FakeClock()
    with open_ledger(url, data_dir=data_dir) as ledger:
        follow_half_lives(ledger, values.policies, clock.now())
        yield Memories(
            ledger=ledger,
            generations=Generations(server or InProcessServer(), ledger),  # type: ignore[arg-type]
            embedder=embedder or HashingEmbedder(),
            settings=values,
            clock=clock,
        )


def sync(
    memories: Memories,
    folder: Path,
    *,
    settings: Settings | None = None,
    parser: object | None = None,
    **options: object,
) -> Report:
    """Ingest a folder; `given` and the other fields of SyncOptions may be said."""
    return sync_of(memories, folder, settings=settings, parser=parser, **options).run()


def sync_of(
    memories: Memories,
    folder: Path,
    *,
    settings: Settings | None = None,
    parser: object | None = None,
    **options: object,
) -> Sync:
    """Return the sync of a folder, not run yet."""
    with memories.ledger.read() as tx:
        roots = tx.sources.list(str(options.get("tenant", "default")))
    said = SyncOptions(**{"tenant": "default", "given": Given(), **options})  # type: ignore[arg-type]
    return Sync(
        memories,
        target_of(folder.resolve(), "", roots),
        said,
        settings or Settings(data_dir=folder),
        open_parser=(lambda: parser) if parser is not None else (lambda: ParserWorker(ParseLimits())),  # type: ignore[arg-type,return-value]
        progress=Silent(),
    )


def search(memories: Memories, question: str, **request: object) -> SearchResult:
    """Search the default tenant."""
    return memories.search(SearchRequest(**{"question": question, "tenant": "default", **request}))  # type: ignore[arg-type]


def texts(result: SearchResult) -> list[str]:
    """Return the hits' texts, without the heading that travels with the first passage below it."""
    return [
        h.memory.text.rsplit("\n\n", 1)[-1] if h.memory.text.startswith("#") else h.memory.text for h in result.hits
    ]


def ids(memories: Memories, *standings: Standing) -> dict[str, str]:
    """Return texts by id, of the active memories unless other standings are named."""
    page = memories.page("default", limit=1000, standings=standings or (Standing.ACTIVE,))
    return {m.id: m.text for m in page}


def write(folder: Path, **files: str) -> None:
    """Write files; `__` in a name stands for a slash, `_md` at its end for the suffix."""
    for name, content in files.items():
        path = folder / (name.replace("__", "/").removesuffix("_md") + (".md" if name.endswith("_md") else ""))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


def split_into_sections(folder: Path, body: str = GUIDE) -> None:
    """Write a guide whose sections are long enough to be passages of their own."""
    sections = body.split("\n\n")
    write(folder, guide_md="\n\n".join(s if s.startswith("#") else f"{s} {_filler(s)}" for s in sections))


def _filler(seed: str) -> str:
    word = seed.rsplit(maxsplit=1)[-1].strip(".")
    return " ".join(f"Sentence {n} about {word} adds detail that matters to nobody else." for n in range(12))
