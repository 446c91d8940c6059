"""`kb ingest`: documents become memories, and stay in step with their folder."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kb_cli import render
from kb_cli.acting import refuse_agents
from kb_cli.session import AsJson, Tenant, loaded, opened, settings_of, switch_on

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ingest.pipeline import Progress
    from ingest.report import Report
    from ingest.requests import Said, SyncRequest
    from kb.errors import KbError
    from kb.memories import Memories
    from kb.model import Json
    from kb.settings import Settings


class TrustOption(StrEnum):
    """Source class of the documents."""

    CURATED = "curated"
    DOCUMENT = "document"


KEEP_A_NOTE = "`kb memory add` keeps a note, in quarantine; a person ingests, and --plan shows what that would do"
Paths = Annotated[
    list[Path] | None, typer.Argument(metavar="PATH", help="Folders or files; none: every registered source.")
]
SourceName = Annotated[str, typer.Option("--source-name", help="Name of the source; default: the folder's.")]
Trust = Annotated[TrustOption | None, typer.Option("--trust", help="Source class of the documents.")]
Confidence = Annotated[float | None, typer.Option("--confidence", help="Prior confidence, 0 to 1.")]
Verified = Annotated[
    bool | None, typer.Option("--verified/--no-verified", help="Vouch for the documents: they become curated.")
]
Metadata = Annotated[list[str] | None, typer.Option("--metadata", help="key=value; repeatable.")]
Include = Annotated[list[str] | None, typer.Option("--include", help="Only files matching this pattern; repeatable.")]
Exclude = Annotated[list[str] | None, typer.Option("--exclude", help="Not files matching this pattern; repeatable.")]
PlanOnly = Annotated[bool, typer.Option("--plan", help="Say what would be done; write and embed nothing.")]
AllowMassDelete = Annotated[bool, typer.Option("--allow-mass-delete", help="Consent to losing much of a source.")]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Try again what failed for good before.")]
Checksum = Annotated[bool, typer.Option("--checksum", help="Read every file, whatever its times say.")]
Watch = Annotated[bool, typer.Option("--watch", help="Go on: sync again whenever files change.")]


def ingest(
    paths: Paths = None,
    source_name: SourceName = "",
    trust: Trust = None,
    confidence: Confidence = None,
    verified: Verified = None,
    tenant: Tenant = None,
    metadata: Metadata = None,
    include: Include = None,
    exclude: Exclude = None,
    plan: PlanOnly = False,
    allow_mass_delete: AllowMassDelete = False,
    retry_failed: RetryFailed = False,
    checksum: Checksum = False,
    watch: Watch = False,
    as_json: AsJson = False,
) -> None:
    """Ingest documents: what is new or changed is stored, what is gone is superseded, what is unchanged is renewed."""
    from ingest.requests import Said
    from kb.model import SourceClass
    from kb_cli.values import pairs

    if not plan:  # whatever the flags say: a file's front matter can vouch for it as well
        refuse_agents("ingest documents", "they would be believed at once", KEEP_A_NOTE)
    said = Said(
        source_name=source_name,
        trust=SourceClass(trust.value) if trust else None,
        confidence=confidence,
        verified=verified,
        metadata=pairs(metadata or []),
        include=tuple(include or ()),
        exclude=tuple(exclude or ()),
        allow_mass_delete=allow_mass_delete,
        retry_failed=retry_failed,
        checksum=checksum,
    )
    _ingest(paths or [], said, _settings(tenant, is_lasting=watch), Flags(plan=plan, watch=watch, as_json=as_json))


def _settings(tenant: str | None, *, is_lasting: bool) -> Settings:
    """Return the settings; each sync of a watch is a trace of its own."""
    if not is_lasting:
        return settings_of(tenant=tenant)
    settings = loaded(tenant=tenant)
    switch_on(settings)
    return settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """How a run is carried out and shown."""

    plan: bool
    watch: bool
    as_json: bool


def _ingest(paths: list[Path], said: Said, settings: Settings, flags: Flags) -> None:
    from ingest.requests import requests_of

    with opened(settings) as memories:
        requests = requests_of(paths, memories, settings, said)
        if flags.plan:
            code = _plan_all(memories, settings, requests, as_json=flags.as_json)
        else:
            code = _run_all(memories, settings, requests, as_json=flags.as_json)
            if flags.watch:
                _watch(memories, settings, requests, as_json=flags.as_json)
    raise typer.Exit(code)


def _run_all(memories: Memories, settings: Settings, requests: Sequence[SyncRequest], *, as_json: bool) -> int:
    """Sync each source; of several, one that cannot be synced keeps no other from it."""
    from ingest.report import Report, combined, gravest
    from ingest.syncing import sync_of
    from kb.errors import KbError

    reports = []
    for request in requests:
        try:
            with _progress() as progress:
                report = sync_of(memories, settings, request, progress).run()
        except KbError as error:
            if len(requests) == 1:
                raise
            report = Report(source_name=request.target.name, error=error)
            _tell_problem(report.source_name, error)
        else:
            if not as_json:
                render.say(*_lines(report))
        reports.append(report)
    if memories.embedder_notice:
        render.tell(memories.embedder_notice)
    if as_json:
        render.emit_json(combined(reports))
    return gravest(r.exit_code for r in reports)


def _plan_all(memories: Memories, settings: Settings, requests: Sequence[SyncRequest], *, as_json: bool) -> int:
    from ingest.preview import previewed
    from ingest.report import error_json, gravest
    from ingest.syncing import sync_of
    from kb.errors import KbError

    plans: list[dict[str, Json]] = []
    codes = []
    for request in requests:
        try:
            with _progress() as progress:
                preview = previewed(sync_of(memories, settings, request, progress))
        except KbError as error:
            if len(requests) == 1:
                raise
            plans.append({"source_name": request.target.name, "plan": True, "error": error_json(error)})
            codes.append(error.exit_code)
            _tell_problem(request.target.name, error)
            continue
        plans.append(preview.as_json())
        codes.append(preview.exit_code)
        if not as_json:
            render.say(*preview.lines())
    if as_json:
        render.emit_json(plans[0] if len(plans) == 1 else {"plans": [*plans]})
    return gravest(codes)


def _tell_problem(source_name: str, error: KbError) -> None:
    render.tell(f"source {source_name}: error: {error}", *([f"  hint: {error.hint}"] if error.hint else []))


def _watch(memories: Memories, settings: Settings, requests: Sequence[SyncRequest], *, as_json: bool) -> None:
    """Sync again and again. What one sync is refused, a later one may be allowed: the watch reports it and goes on."""
    from ingest.watch import changed
    from kb.errors import KbError

    render.tell("watching; Ctrl-C ends it")
    for _ in changed([r.target.location for r in requests]):
        try:
            _run_all(memories, settings, requests, as_json=as_json)
        except KbError as error:
            render.fail(error, as_json=as_json)
        if not render.is_heard():
            return


class _Bar:
    """Progress on a terminal; silent where nobody watches."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        console = Console(stderr=True)
        self.bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)

    def stage(self, name: str, total: int) -> None:
        self._task = self.bar.add_task(name, total=total)

    def advance(self, steps: int = 1) -> None:
        self.bar.advance(self._task, steps)


@contextmanager
def _progress() -> Iterator[Progress]:
    bar = _Bar()
    with bar.bar:
        yield bar


def _lines(report: Report) -> list[str]:
    """Return a report for people."""
    shown: dict[str, Json] = report.as_json()
    lines = [f"source {report.source_name}: {report.seconds:.1f} s"]
    for group in ("documents", "memories"):
        counts = shown[group]
        assert isinstance(counts, dict), "counts by name"
        words = [f"{n} {key.replace('_', ' ')}" for key, n in counts.items() if n]
        lines.append(f"  {group:10} {', '.join(words) or 'none'}")
    lines.append(f"  embedded   {report.embedded}")
    if shown["leaves_gate_at"]:
        lines.append(f"  first to leave the gate, unless synced again: {shown['leaves_gate_at']}")
    for f in report.failures:
        lines.append(f"  failed     {f.source}: {f.code}: {f.message}")
        if f.hint:
            lines.append(f"             {f.hint}")
    lines += [f"  skipped    {s.source}: {s.reason}" for s in report.skipped]
    lines += [f"  warning    {w.source}: {w.reason}" for w in report.warnings]
    return lines + [f"  notice     {n}" for n in report.notices]
