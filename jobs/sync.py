"""The job `sync`: every registered source of every tenant is ingested again, as `kb ingest` without a path does."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from jobs.context import note_stranger, tenants_of

if TYPE_CHECKING:
    from ingest.report import Report
    from ingest.requests import SyncRequest
    from jobs.context import JobContext
    from jobs.report import Tally
    from kb.memories import Memories
    from kb.settings import Settings


class SyncStopped(KeyboardInterrupt):
    """A sync was told to end; as at Ctrl-C, what it has stored stays, and the next run goes on from there."""


class _Watch:
    """Progress of a sync, that ends it between two documents."""

    def __init__(self, context: JobContext) -> None:
        self._context = context

    def stage(self, name: str, total: int) -> None:  # noqa: ARG002 - the Protocol's signature
        self._check()

    def advance(self, steps: int = 1) -> None:
        self._context.advance(steps)
        self._check()

    def _check(self) -> None:
        if self._context.is_stopped():
            raise SyncStopped


def sync(context: JobContext, memories: Memories, tally: Tally) -> None:
    """Ingest every registered source; one that cannot be synced keeps no other from it."""
    note_stranger(context, memories, tally)
    tenants = tenants_of(context, memories)
    home = context.settings.tenant
    if context.tenant is None and context.settings.sources and home not in tenants:
        tenants.append(home)  # its sources are configured, and were never ingested
    for tenant in tenants:
        tally.attempt(tenant, partial(_sync_tenant, context, memories, tally, tenant))
        if tally.is_stopped:
            return


def _sync_tenant(context: JobContext, memories: Memories, tally: Tally, tenant: str) -> None:
    from ingest.requests import Said, requests_of  # noqa: PLC0415 - import what is used

    settings = settings_for(context.settings, tenant)
    with memories.ledger.read() as tx:
        is_idle = not tx.sources.list(tenant)
    if is_idle and not settings.sources:
        return
    tally.parts -= 1  # its sources are the parts
    for request in requests_of([], memories, settings, Said()):
        where = f"{tenant}/{request.target.name}"
        tally.attempt(where, partial(_sync_source, context, memories, tally, settings, request))
        if tally.is_stopped:
            return


def settings_for(settings: Settings, tenant: str) -> Settings:
    """Return the settings under which a tenant is synced: the configured sources are the configured tenant's."""
    own: dict[str, object] = {} if tenant == settings.tenant else {"sources": []}
    return settings.model_copy(update={"tenant": tenant, **own})


def _sync_source(
    context: JobContext, memories: Memories, tally: Tally, settings: Settings, request: SyncRequest
) -> None:
    from ingest.syncing import sync_of  # noqa: PLC0415 - import what is used

    work = sync_of(memories, settings, request, _Watch(context))
    if context.is_dry:
        from ingest.preview import previewed  # noqa: PLC0415 - import what is used

        preview = previewed(work)
        tally.counts.update({f"documents_{outcome}": n for outcome, n in preview.documents.items()})
        tally.failed_items += len(preview.failures)
        return
    try:
        _count(tally, request.target.name, work.run())
    except SyncStopped:
        tally.is_stopped = True


def _count(tally: Tally, name: str, report: Report) -> None:
    tally.counts.update({f"documents_{k}": n for k, n in report.documents.items()})
    tally.counts.update({f"memories_{k}": n for k, n in report.memories.items()})
    tally.counts["embedded"] += report.embedded
    tally.failed_items += len(report.failures)
    tally.notes += [f"{name}: {f.source}: {f.code}: {f.message}" for f in report.failures[:20]]
    tally.notes += [f"{name}: {notice}" for notice in report.notices]
