"""One sync of one source: walk → plan → parse → chunk → embed → write → switch → report."""

from __future__ import annotations

import uuid
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from ingest.ahead import ahead
from ingest.kept_out import Skipped
from ingest.plan import Action
from ingest.prepare import Prepared, Preparer, pipeline_digest
from ingest.registration import after_part, is_whole, registered
from ingest.report import FailureLine, Report, SkippedLine
from ingest.store import Store
from ingest.survey import Survey
from kb.errors import DocumentError, FailureCode, InputError, IntegrityError, StaleRevision
from kb.ledger.memories import trust_of
from kb.ledger.runs import RunStatus
from kb.model import Failure, Standing
from kb.reputation import UNKNOWN
from kb.telemetry import Attr, Metric, Span, count, span
from kb.trust import is_renewal_due, leaves_gate_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from ingest.plan import Item
    from ingest.prepare import Parser
    from ingest.survey import Planned, SyncOptions
    from ingest.target import Target
    from ingest.walk import Scan
    from kb.ledger.memories import TrustRow
    from kb.memories import Memories
    from kb.model import Document, Instant
    from kb.reputation import Record
    from kb.settings import Settings

GROUP_TEXTS = 192  # passages embedded, and then stored, together: a crash repeats at most this much embedding
GROUP_DOCUMENTS = 64
RUNS_LOOKED_AT = 100  # for dead ones; every run looks, so more than a few never gather


class Progress(Protocol):
    """Is told how far a run is."""

    def stage(self, name: str, total: int) -> None:
        """A stage of `total` steps begins."""
        ...

    def advance(self, steps: int = 1) -> None:
        """Steps of the current stage are done."""
        ...


class Sync:
    """A sync of `target`: `preview` only looks, `run` also writes, under the source's lock."""

    def __init__(
        self,
        memories: Memories,
        target: Target,
        options: SyncOptions,
        settings: Settings,
        *,
        open_parser: Callable[[], AbstractContextManager[Parser]],
        progress: Progress,
    ) -> None:
        self._memories = memories
        self._ledger = memories.ledger
        self._target = target
        self._options = options
        self._settings = settings
        self._open_parser = open_parser
        self._progress = progress
        self._survey = Survey(
            ledger=memories.ledger,
            target=target,
            options=options,
            limits=settings.ingest,
            policies=memories.policies,
            pipeline=pipeline_digest(settings.ingest, memories.embedder.identity.model),
        )
        self._report = Report(source_name=target.name)

    def plan(self) -> Planned:
        """Return what a run would do now; raises MassDelete when it would be refused, InputError without a folder."""
        self._require_folder()
        return self._survey.plan()

    @property
    def source_name(self) -> str:
        """Name of the source."""
        return self._target.name

    def preview(self, plan: Planned) -> Iterator[tuple[Item, Prepared | Skipped | DocumentError]]:
        """Yield every document to be parsed, prepared but neither embedded nor stored, or why it is not to be."""
        with ExitStack() as stack:
            preparer = self._preparer(stack)
            yield from self._prepared(preparer, plan, _to_prepare(plan.items))

    def run(self) -> Report:
        """Bring the store in step with the folder and say what was done.

        Raises:
            InputError: the source's folder is not there.
            Locked: another run is syncing this source.
            MassDelete: too much of the source is gone; nothing was changed.
            EmbedderUnavailable: the run stops; what it has stored stays.
            LedgerUnavailable: likewise.
        """
        self._require_folder()
        began = self._memories.clock.now()
        lock = f"ingest-{self._options.tenant}-{self._target.name}"
        with self._ledger.lock(lock), span(Span.INGEST_RUN, {Attr.SOURCE: self._target.name}):
            run_id = self._started(began)
            store = Store(self._memories, self._options.tenant, self._target.name, run_id)
            self._report.run_id = run_id
            status = RunStatus.FAILED
            try:
                self._sync(store)
                status = RunStatus.PARTIAL if self._report.failures else RunStatus.DONE
            except KeyboardInterrupt:
                status = RunStatus.INTERRUPTED
                raise
            finally:
                self._finished(run_id, status, began)
        return self._report

    def _require_folder(self) -> None:
        name, location = self._target.name, self._target.location
        if not location.is_dir():
            hint = f"`kb ingest NEW_FOLDER --source-name {name}` moves it"
            raise InputError(f"the source {name!r} is no longer at {location}", hint=hint)

    def _sync(self, store: Store) -> None:
        known, documents = self._survey.known()
        store.recover([*documents, *known.deleted.values()], self._memories.clock.now())
        plan = self._survey.plan()
        for skipped in plan.scan.skipped:
            self._report.skip(SkippedLine(source=self._survey.source(skipped.relative), reason=skipped.reason))
        self._settle(store, plan.items)
        self._store_all(store, plan)
        self._remove(store, plan.items)
        self._forget(store, plan, known.failures)
        self._renew(store, plan.items)
        self._register(plan.scan)
        drained = self._memories.projector.drain()
        self._report.pending = drained.pending
        if drained.problem:
            self._report.notices.append(f"{drained.pending} changes wait for the index: {drained.problem}")

    def _settle(self, store: Store, items: Sequence[Item]) -> None:
        """Do what needs no parsing."""
        for item in items:
            document, seen = item.document, item.seen
            if item.action is Action.FAILED_BEFORE and item.failure is not None:
                f = item.failure
                self._report.fail(FailureLine(source=f.source, code=f.code, message=f.message, hint=f.hint))
            elif item.action is Action.KEEP:
                self._report.documents["unchanged"] += 1
            elif document is not None and seen is not None and item.action in (Action.TOUCH, Action.RENAME):
                now = self._memories.clock.now()
                document = replace(document, source=seen.source, size=seen.size, mtime_ns=seen.mtime_ns, updated_at=now)
                self._readdress(store, item, document, now)

    def _readdress(self, store: Store, item: Item, document: Document, now: Instant) -> None:
        if item.action is Action.TOUCH:
            self._report.documents["unchanged"] += 1
            store.touch(document)
            return
        try:
            store.rename(document, now)
        except (InputError, IntegrityError) as error:
            if not item.recheck:  # else it is stored again, under its new address, and counted then
                self._failed(store, item, _refused(error))
        else:
            self._report.documents["renamed"] += not item.recheck

    def _forget(self, store: Store, plan: Planned, failures: Mapping[str, Failure]) -> None:
        """Forget failures of files that are as stored, or gone: of the latter only a scan of everything tells."""
        over = [i.source for i in plan.items if i.action is Action.KEEP and i.failure is not None]
        if plan.scan.complete and is_whole(self._target, self._options, None):
            skipped = {self._survey.source(s.relative) for s in plan.scan.skipped}
            over += [source for source in failures if source not in plan.files and source not in skipped]
        store.forget(over)

    def _store_all(self, store: Store, plan: Planned) -> None:
        todo = _to_prepare(plan.items)
        if not todo:
            return
        self._memories.generations.ensured(self._memories.embedder.identity, self._memories.clock.now())
        self._progress.stage("documents", len(todo))
        group: list[Prepared] = []
        with ExitStack() as stack:
            preparer = self._preparer(stack)
            for item, outcome in self._prepared(preparer, plan, todo):
                if isinstance(outcome, DocumentError):
                    self._failed(store, item, outcome)
                    self._progress.advance()
                elif isinstance(outcome, Skipped):
                    self._skipped(store, item, outcome)
                    self._progress.advance()
                else:
                    group.append(outcome)
                if sum(len(p.change.texts) for p in group) >= GROUP_TEXTS or len(group) >= GROUP_DOCUMENTS:
                    self._store_group(store, group)
                    group = []
        self._store_group(store, group)

    def _store_group(self, store: Store, group: Sequence[Prepared]) -> None:
        """Embed what a group of documents lacks, then store each document, then bring the index in step."""
        if not group:
            return
        texts = {key: text for p in group for key, text in p.change.texts.items()}
        with span(Span.INGEST_EMBED, {Attr.TEXTS: len(texts)}):
            embedded, refused = self._memories.embed(texts)
        self._report.embedded += embedded
        for p in group:
            error = next((refused[key] for key in p.change.texts if key in refused), None)
            if error is not None:
                self._failed(store, p.item, error)
            else:
                self._apply(store, p)
            self._progress.advance()
        self._memories.projector.drain()

    def _apply(self, store: Store, prepared: Prepared) -> None:
        try:
            store.apply(prepared.change, self._memories.clock.now())
        except (InputError, IntegrityError) as error:
            self._failed(store, prepared.item, _refused(error))
        else:
            self._stored(prepared)

    def _stored(self, prepared: Prepared) -> None:
        change, report = prepared.change, self._report
        outcome = prepared.item.counted(prepared.outcome)
        report.documents[outcome] += 1
        report.memories["added"] += len(change.added) + len(change.revived)
        report.memories["superseded"] += len(change.superseded)
        report.memories["unchanged"] += change.unchanged + len(change.changed) - len(change.revived)
        source = change.document.source
        report.warnings += [SkippedLine(source=source, reason=w) for w in prepared.warnings]
        for why, number in sorted(Counter(change.kept_out.values()).items()):
            passages = "1 passage is" if number == 1 else f"{number} passages are"
            report.warnings.append(SkippedLine(source=source, reason=f"{passages} kept out: {why}"))
        if change.reverify:
            reason = f"{change.reverify} verified passages were replaced by new words that nobody has verified"
            report.warnings.append(SkippedLine(source=source, reason=reason))
        count(Metric.INGEST_DOCUMENTS, outcome=outcome)
        count(Metric.INGEST_MEMORIES, len(change.added))

    def _prepared(
        self, preparer: Preparer, plan: Planned, items: Sequence[Item]
    ) -> Iterator[tuple[Item, Prepared | Skipped | DocumentError]]:
        """Yield each item with its document, or with why there is none; files are read and parsed ahead."""
        out = preparer.skipped(items)
        yield from ((i, out[i.raw]) for i in items if i.raw in out)
        left = [i for i in items if i.raw not in out]
        for item, read in ahead(left, lambda i: preparer.read(plan.files[i.source])):
            file = plan.files[item.source]
            if isinstance(read, DocumentError):
                yield item, read
                continue
            try:
                sidecar = plan.rules.of(file.relative)
                yield item, preparer.prepared(item, file, sidecar, read, self._memories.clock.now())
            except DocumentError as error:
                yield item, error

    def _skipped(self, store: Store, item: Item, skipped: Skipped) -> None:
        """Pass over what was rolled back; a failure of the same file is over."""
        self._report.skip(SkippedLine(source=item.source, reason=skipped.reason))
        if item.failure is not None:
            store.forget([item.source])

    def _failed(self, store: Store, item: Item, error: DocumentError) -> None:
        line = FailureLine(source=item.source, code=error.code.value, message=str(error), hint=error.hint)
        self._report.fail(line)
        failure = Failure(
            tenant=self._options.tenant,
            root=self._target.name,
            source=item.source,
            raw=item.raw,
            pipeline=self._survey.pipeline,
            code=error.code.value,
            message=str(error),
            hint=error.hint,
            failed_at=self._memories.clock.now(),
        )
        with suppress(InputError):  # an address that the ledger cannot hold: told in the report alone
            store.fail(failure)

    def _remove(self, store: Store, items: Sequence[Item]) -> None:
        for item in items:
            if item.action is Action.REMOVE and item.document is not None:
                try:
                    superseded = store.remove(item.document, self._memories.clock.now())
                except StaleRevision as error:
                    self._failed(store, item, _refused(error))
                    continue
                self._report.memories["superseded"] += superseded
                self._report.documents["removed"] += 1

    def _renew(self, store: Store, items: Sequence[Item]) -> None:
        """Renew the memories of unchanged documents, and find when the first of the source leaves the gate."""
        now = self._memories.clock.now()
        kept = {i.source for i in items if i.action in (Action.KEEP, Action.TOUCH, Action.RENAME)}
        policies, gate = self._memories.policies, self._memories.gate
        ours = [row for row in self._trust() if row.source in kept]
        due = [r.id for r in ours if is_renewal_due(trust_of(r), gate, now, policies[r.source_class].half_life)]
        faded = [row.id for row in self._trust(Standing.RETIRED) if row.source in kept]
        renewed = store.renew([*due, *faded], now)
        self._report.memories["renewed"] += renewed
        self._report.memories["unchanged"] += max(0, len(ours) - renewed)
        leaving = (leaves_gate_at(trust_of(r), gate, policies[r.source_class].half_life) for r in self._trust())
        self._report.leaves_gate_at = min((t for t in leaving if t > now), default=None)

    def _trust(self, standing: Standing = Standing.ACTIVE) -> list[TrustRow]:
        with self._ledger.read() as tx:
            return list(tx.memories.trust_columns(self._options.tenant, (standing,), root=self._target.name))

    def _preparer(self, stack: ExitStack) -> Preparer:
        return Preparer(
            memories=self._memories,
            parser=stack.enter_context(self._open_parser()),
            given=self._options.given,
            policies=self._memories.policies,
            limits=self._settings.ingest,
            tenant=self._options.tenant,
            root=self._target.name,
            gate=self._memories.gate,
            record=self._record(),
        )

    def _record(self) -> Record:
        if not self._memories.has_reputation:
            return UNKNOWN
        with self._ledger.read() as tx:
            return tx.reputation.of_root(self._options.tenant, self._target.name)

    def _register(self, scan: Scan) -> None:
        """Keep the source, with the options of a run over all of it, for the next sync."""
        target, options, now = self._target, self._options, self._memories.clock.now()
        with self._ledger.write() as tx:
            before = tx.sources.get(options.tenant, target.name)
            whole = is_whole(target, options, before)
            if before is not None and not whole:
                tx.sources.put(after_part(before, target, options))
                return
            root = registered(target, options, before.registered_at if before else now)
            synced = now if whole and scan.complete and not self._report.failures else None
            tx.sources.put(replace(root, synced_at=synced or (before.synced_at if before else None)))

    def _started(self, now: Instant) -> str:
        """Record this run. Who holds the source's lock knows that a run of it which still counts as running is dead."""
        run_id, tenant, root = uuid.uuid4().hex, self._options.tenant, self._target.name
        with self._ledger.write() as tx:
            for run in tx.runs.list(RUNS_LOOKED_AT, kind="ingest", tenant=tenant, root=root):
                if run.status is RunStatus.RUNNING:
                    tx.runs.finish(run.id, RunStatus.INTERRUPTED, now, report=run.report)
            tx.runs.start(run_id, kind="ingest", tenant=tenant, root=root, at=now)
        return run_id

    def _finished(self, run_id: str, status: RunStatus, began: Instant) -> None:
        now = self._memories.clock.now()
        self._report.seconds = (now - began) / 1000
        with self._ledger.write() as tx:
            tx.runs.finish(run_id, status, now, report=self._report.as_json())


def _to_prepare(items: Sequence[Item]) -> list[Item]:
    return [i for i in items if i.is_to_prepare]


def _refused(error: InputError | IntegrityError) -> DocumentError:
    """Return why the ledger did not take one document, as a failure of that document alone."""
    if isinstance(error, DocumentError):
        return error
    if isinstance(error, InputError):
        hint = error.hint or "look at its front matter, and at the `.kb.yaml` rules and --metadata that it gets"
        return DocumentError(FailureCode.FRONT_MATTER, f"the ledger cannot hold it: {error}", hint=hint)
    stale = isinstance(error, StaleRevision)
    why = "its memories were changed by somebody else meanwhile" if stale else "it contradicts what is stored"
    return DocumentError(FailureCode.STORE_FAILED, f"{why}: {error}", hint="run `kb ingest` again")
