"""Stories of months in one lasting process: a tenant of its own for each, and a calendar that the story turns."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kb.trust import DAY_MS
from tests.stores import T0, write

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.shell import Done, Shell


@dataclass
class Story:
    """One tenant's months. Its folder is named for it, and so are its sources."""

    kb: Shell
    tenant: str

    def __post_init__(self) -> None:
        self.day(0)

    @property
    def folder(self) -> Path:
        """Where its documents are."""
        return self.kb.home / self.tenant

    def day(self, day: float, *, later: int = 0) -> None:
        """Turn the calendar to a day after the beginning, and some milliseconds later."""
        self.kb.at = T0 + round(day * DAY_MS) + later

    def at(self, instant: int) -> None:
        """Turn the calendar to an instant."""
        self.kb.at = instant

    def json(self, *arguments: str, code: int = 0, **environment: str) -> Any:
        """Return what a command says of the tenant; its clock ticks, so that each comes after the one before."""
        assert self.kb.at is not None
        self.kb.at += 1
        return self.kb.json(*arguments, "--tenant", self.tenant, code=code, **environment)

    def run(self, *arguments: str, **environment: str) -> Done:
        """Return what a command of the tenant came to, for people."""
        assert self.kb.at is not None
        self.kb.at += 1
        return self.kb.run(*arguments, "--tenant", self.tenant, **environment)

    def job(self, name: str, *options: str) -> dict[str, Any]:
        """Run a job for the tenant alone."""
        done: dict[str, Any] = self.json("govern", "run", name, *options)
        return done

    def ingested(self, source: str = "docs", **files: str) -> dict[str, Any]:
        """Write files of a source and ingest it."""
        write(self.folder / source, **files)
        report: dict[str, Any] = self.json("ingest", f"{self.tenant}/{source}")
        return report

    def note(self, text: str, *options: str) -> str:
        """Add a note; return its id."""
        id_: str = self.json("memory", "add", text, *options)["id"]
        return id_

    def memory(self, id_: str) -> dict[str, Any]:
        """Return a memory as the command line shows it."""
        found: dict[str, Any] = self.json("memory", "get", id_)
        return found

    def explained(self, id_: str) -> dict[str, Any]:
        """Return why a memory stands where it stands."""
        found: dict[str, Any] = self.json("govern", "explain", id_)
        return found

    def standings(self) -> dict[str, str]:
        """Return the standing of every memory by id."""
        return {m["id"]: m["standing"] for m in self.json("memory", "list", "--limit", "1000")["memories"]}

    def found(self, words: str, question: str = "", *options: str) -> list[str]:
        """Return the ids of hits that hold the words, at the gate unless another is named; by all arms."""
        hits = self.json("search", question or words, "-k", "50", *options)["hits"]
        return [h["id"] for h in hits if words in h["text"]]

    def waiting(self, *options: str) -> dict[str, str]:
        """Return why memories wait for a person, by id."""
        return {i["memory_id"]: i["why"] for i in self.json("govern", "review", *options)["items"]}


def rows(home: Path, table: str, tenant: str, but: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Return a tenant's rows of a table of the ledger, as they are stored."""
    with closing(sqlite3.connect(f"file:{home / 'data' / 'ledger.db'}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        found = connection.execute(f"SELECT * FROM {table} WHERE tenant = ? ORDER BY 1", (tenant,))  # noqa: S608 - ours
        return [{k: row[k] for k in row.keys() if k not in set(but)} for row in found]  # noqa: SIM118 - no mapping


def everything(home: Path) -> list[str]:
    """Return the whole ledger as statements."""
    with closing(sqlite3.connect(f"file:{home / 'data' / 'ledger.db'}?mode=ro", uri=True)) as connection:
        return list(connection.iterdump())
