"""/v1/ingest: documents by upload. They are kept as files of a registered source, so that the nightly sync renews them.

What is uploaded is a document that a person stands for: an agent's key adds notes, which wait in quarantine.
"""

from __future__ import annotations

import os
import tempfile
import unicodedata
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

from fastapi import APIRouter, Depends, File, Form, UploadFile
from fastapi import Path as PathParameter

from ingest.requests import Said, requests_of
from ingest.syncing import sync_of
from ingest.target import slug
from jobs.sync import settings_for
from kb.errors import DependencyError, InputError, Refused
from kb.ids import digest
from kb.keys import Holder, KeyScope
from kb.log import get_logger
from kb.model import SourceClass
from serving.advice import report_over_http
from serving.principal import Writer, service_of
from serving.problems import Forbidden
from serving.service import Service

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kb.keys import Principal

router = APIRouter(prefix="/v1/ingest", tags=["ingest"])
Parts = Annotated[Service, Depends(service_of)]
Object = dict[str, Any]
UPLOADS = "uploads"
MAX_FILES = 50
NAME_BYTES = 200
CHUNK = 1 << 20
_SOURCE = Form(max_length=64, description="name of the source that they become part of")


@router.post("", summary="Upload documents; those of the same name are replaced")
async def upload(
    files: Annotated[list[UploadFile], File(description="the documents; at most 50")],
    caller: Writer,
    service: Parts,
    source: Annotated[str, _SOURCE] = UPLOADS,
    trust: Annotated[
        str, Form(max_length=16, description="document, or curated (needs the scope govern)")
    ] = "document",
) -> Object:
    """Keep the files and ingest them: the report is that of `kb ingest --json`."""
    source_class = _class_of(trust, caller)
    if len(files) > MAX_FILES:
        raise InputError(f"{len(files)} files; at most {MAX_FILES} at a time")
    folder = _folder(service, caller.tenant, source)
    names = [_name(f.filename or "") for f in files]
    if len(set(names)) < len(names):
        raise InputError("two of the files have the same name")
    await service.threads.call(_check_source, service, caller, source, folder, source_class)
    contents = {name: file.file for name, file in zip(names, files, strict=True)}
    await service.threads.call(_keep, contents, folder, service.settings.ingest.max_bytes)
    return await service.threads.call(_synced, service, caller.tenant, folder, source, source_class, names)


@router.delete("/{source}/{name}", summary="Take an uploaded document away")
async def remove(
    source: Annotated[str, PathParameter(max_length=64)],
    name: Annotated[str, PathParameter(max_length=NAME_BYTES)],
    caller: Writer,
    service: Parts,
) -> Object:
    """Delete an uploaded file and sync its source: its memories are superseded; the past finds them still."""
    _class_of("document", caller)
    folder = _folder(service, caller.tenant, source)
    await service.threads.call(_check_source, service, caller, source, folder, None)
    return await service.threads.call(_removed, service, caller.tenant, folder, source, _name(name))


def _class_of(trust: str, caller: Principal) -> SourceClass:
    """Return the class that uploads are of.

    Raises:
        Forbidden: the key may not say so.
        InputError: there is no such class of documents.
    """
    if caller.holder is Holder.AGENT:
        raise Forbidden(
            "an agent's key may not add documents: they would be believed at once",
            hint="POST /v1/memories adds a note, which waits for others to bear it out",
        )
    if trust == SourceClass.CURATED.value:
        if not caller.may(KeyScope.GOVERN):
            raise Forbidden("to vouch for documents, a key needs the scope govern")
        return SourceClass.CURATED
    if trust != SourceClass.DOCUMENT.value:
        raise InputError(f"{trust!r} is neither document nor curated")
    return SourceClass.DOCUMENT


def _check_source(
    service: Service, caller: Principal, source: str, folder: Path, source_class: SourceClass | None
) -> None:
    """Let one source hold either what people vouched for or what they did not, and only who may vouch touch the former.

    Its trust is its documents': one upload that says another would change what all the others are worth.

    Raises:
        Refused: the name is of a source that is not uploaded, or of another trust.
        Forbidden: it is vouched for, and the key may not.
    """
    with service.memories.ledger.read() as tx:
        root = tx.sources.get(caller.tenant, source)
    if root is None:
        return
    if Path(root.location) != folder.resolve():
        raise Refused(f"{source} is a source that is not uploaded", hint="choose another name for yours")
    if root.source_class is SourceClass.CURATED and not caller.may(KeyScope.GOVERN):
        raise Forbidden(f"the documents of {source} are vouched for: to change them, a key needs the scope govern")
    if source_class is not None and source_class is not root.source_class:
        why = f"the documents of {source} are of the class {root.source_class}, all of them"
        raise Refused(why, hint=f"choose another source for those of the class {source_class}")


def _folder(service: Service, tenant: str, source: str) -> Path:
    """Return where a tenant's uploads to a source lie; what tenants are called is no part of any path."""
    if not source.strip() or slug(source) != source:
        raise InputError(f"{source!r} can be no source", hint="letters, digits, and - or _ between them")
    home = Path(service.settings.serve.uploads_dir or service.settings.data_dir / UPLOADS)
    return home / digest("tenant", tenant)[:16] / source


def _name(given: str) -> str:
    """Return a file's name without any path in it.

    Raises:
        InputError: it is none, hidden, too long, or has characters that are not written.
    """
    name = unicodedata.normalize("NFC", given.replace("\\", "/").rsplit("/", 1)[-1]).strip()
    is_odd = any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn") for c in name)
    if not name or name.startswith(".") or is_odd or len(name.encode("utf-8", "surrogatepass")) > NAME_BYTES:
        raise InputError(
            f"{given!r} can be no document's name", hint=f"a plain file name of at most {NAME_BYTES} bytes"
        )
    return name


def _keep(files: Mapping[str, BinaryIO], folder: Path, most: int) -> None:
    """Write the files whole, all of them or none.

    Raises:
        InputError: one is larger than a document may be.
        DependencyError: they cannot be written.
    """
    with _writing(folder), ExitStack() as undo:
        folder.mkdir(parents=True, exist_ok=True)
        staged = {name: _staged(file, folder, name, most, undo) for name, file in files.items()}
        for name, temporary in staged.items():
            temporary.replace(folder / name)


def _staged(file: BinaryIO, folder: Path, name: str, most: int, undo: ExitStack) -> Path:
    handle, named = tempfile.mkstemp(prefix=".upload-", dir=folder)
    temporary, size = Path(named), 0
    undo.callback(temporary.unlink, missing_ok=True)
    with os.fdopen(handle, "wb") as out:
        while part := file.read(CHUNK):
            size += len(part)
            if size > most:
                raise InputError(f"{name} is larger than {most:,} bytes")
            out.write(part)
        out.flush()
        os.fsync(out.fileno())  # what is acknowledged is there after the power fails, or the next sync would miss it
    return temporary


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Say what keeps uploads from being written: a full disk, a folder that is none.

    Raises:
        DependencyError: something does.
    """
    try:
        yield
    except OSError as error:
        get_logger().error("uploads_not_written", folder=str(folder), problem=error.strerror or str(error))
        why = error.strerror or type(error).__name__
        raise DependencyError(f"uploads cannot be written: {why}", hint="ask who runs the server") from error


def _removed(service: Service, tenant: str, folder: Path, source: str, name: str) -> Object:
    file = folder / name
    if not file.is_file():
        raise InputError(f"there is no uploaded document {name} in {source}")
    with _writing(folder):
        file.unlink()
    return _synced(service, tenant, folder, source, None, [])


class _Silent:
    """Progress that nobody watches."""

    def stage(self, name: str, total: int) -> None:
        """Begin a stage."""

    def advance(self, steps: int = 1) -> None:
        """Go on."""


def _synced(
    service: Service,
    tenant: str,
    folder: Path,
    source: str,
    source_class: SourceClass | None,
    names: Sequence[str],
) -> Object:
    settings = settings_for(service.settings, tenant)
    # What a file says of itself vouches for nothing, now or at the next sync: that takes a key that may govern.
    said = Said(
        source_name=source, trust=source_class, verified=False if source_class is SourceClass.DOCUMENT else None
    )
    (request,) = requests_of([folder], service.memories, settings, said)
    report = sync_of(service.memories, settings, request, _Silent()).run()
    return {**report_over_http(report.as_json()), "exit_code": int(report.exit_code), "files": list(names)}
