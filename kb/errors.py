"""Everything that can go wrong, cut by who can act.

    KbError                    unexpected                                  exit 1
    ├── ConfigError            the operator must change settings           exit 2
    ├── InputError             the caller must change the request          exit 2
    │   ├── UnknownMemory
    │   ├── UnknownAnswer
    │   ├── UnknownSweep
    │   └── DocumentError      one document cannot be read or stored       (run exits 3)
    ├── DependencyError        an outside service failed; retryable        exit 4
    │   ├── LedgerUnavailable
    │   ├── IndexUnavailable
    │   ├── EmbedderUnavailable
    │   ├── ModelUnavailable   chat model; says which kind of failure
    │   ├── EvaluatorUnavailable
    │   └── SearchUnavailable  web search; likewise
    ├── Refused                a guard said no                             exit 5
    │   ├── MassDelete
    │   ├── MassRetire
    │   ├── EmbedderChanged
    │   ├── IndexOutdated
    │   ├── StalePlan
    │   └── UnsafePolicy
    ├── Locked                 another run holds the lock                  exit 75
    └── IntegrityError         stored data breaks an invariant             exit 1
        └── StaleRevision

A class docstring is its default message. `hint` says what to do next and is shown on a line of its own.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum


class ExitCode(IntEnum):
    """Exit codes of every command."""

    DONE = 0
    UNEXPECTED = 1
    USAGE = 2
    PARTIAL = 3
    DEPENDENCY = 4
    REFUSED = 5
    LOCKED = 75
    INTERRUPTED = 130


class KbError(Exception):
    """Something unexpected went wrong."""

    exit_code = ExitCode.UNEXPECTED
    hint = ""

    def __init__(self, message: str = "", *, hint: str = "") -> None:
        super().__init__(message or (self.__doc__ or "").split("\n", 1)[0])
        if hint:
            self.hint = hint


class ConfigError(KbError):
    """A setting is missing or wrong."""

    exit_code = ExitCode.USAGE
    hint = "see `kb init` for a commented kb.toml, and `kb doctor`"


class InputError(KbError):
    """The request is not valid."""

    exit_code = ExitCode.USAGE


class UnknownMemory(InputError):  # noqa: N818 - reads as the condition it states
    """There is no memory with this id."""

    hint = "`kb memory list` shows ids"


class UnknownAnswer(InputError):  # noqa: N818
    """There is no answer with this id."""

    hint = "the id is printed with every answer, and is `answer_id` in `kb ask --json`"


class UnknownSweep(InputError):  # noqa: N818
    """There is no sweep with this id."""

    hint = "`kb govern history` shows ids"


class FailureCode(StrEnum):
    """Why one document was not ingested; documented in docs/reference/failures.md."""

    EMPTY = "empty"  # no bytes, or only white space
    NO_TEXT = "no_text"  # bytes but no text: scanned pages, images
    ENCRYPTED = "encrypted"  # password or certificate needed
    CORRUPT = "corrupt"  # truncated or not what its name says
    UNSUPPORTED = "unsupported"  # no parser for this kind of file
    LEGACY_FORMAT = "legacy_format"  # .doc, .ppt: convert first
    ENCODING = "encoding"  # bytes fit no text encoding
    TOO_LARGE = "too_large"  # over a size, ratio or chunk limit
    TIMEOUT = "timeout"  # parser stopped at its wall-clock limit
    OUT_OF_MEMORY = "out_of_memory"  # parser stopped at its memory limit
    PERMISSION = "permission"  # the file may not be read
    VANISHED = "vanished"  # gone, or changing, while it was read
    FRONT_MATTER = "front_matter"  # a governed value is out of range
    PARSER_ERROR = "parser_error"  # the parser raised something unforeseen
    EMBED_FAILED = "embed_failed"  # the embedder refused this document's text
    STORE_FAILED = "store_failed"  # ledger could not take this document


class DocumentError(InputError):
    """A document cannot be ingested."""

    def __init__(self, code: FailureCode, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code

    def __reduce__(self) -> tuple[object, ...]:
        """Cross the parser worker's pipe intact."""
        return (_document_error, (self.code.value, str(self), self.hint))


def _document_error(code: str, message: str, hint: str) -> DocumentError:
    return DocumentError(FailureCode(code), message, hint=hint)


class Fault(StrEnum):
    """How a call to an outside service failed."""

    TIMEOUT = "timeout"
    RATE_LIMITED = "rate_limited"  # 429; may carry how long to wait
    UNAUTHORISED = "unauthorised"  # 401, 403: the key is wrong
    UNREACHABLE = "unreachable"  # no connection, or it broke in the middle
    REJECTED = "rejected"  # another 4xx: the request is not accepted
    SERVER = "server"  # 5xx
    MALFORMED = "malformed"  # the reply is not what was asked for
    CUT_OFF = "cut_off"  # the reply ended before it was complete
    BUDGET = "budget"  # it was not asked: what may be spent is spent


class DependencyError(KbError):
    """An outside service failed; the same call may succeed later."""

    exit_code = ExitCode.DEPENDENCY
    hint = "`kb doctor` checks each dependency"

    def __init__(
        self, message: str = "", *, hint: str = "", fault: Fault = Fault.UNREACHABLE, retry_after: float | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.fault = fault
        self.retry_after = retry_after  # seconds the service asked to wait, where it did


class LedgerUnavailable(DependencyError):  # noqa: N818
    """The ledger's database cannot be reached or written."""


class IndexUnavailable(DependencyError):  # noqa: N818
    """The Milvus index cannot be reached."""


class EmbedderUnavailable(DependencyError):  # noqa: N818
    """The embedder cannot be reached or loaded."""


class EvaluatorUnavailable(DependencyError):  # noqa: N818
    """The evaluator cannot be loaded or run."""


class ModelUnavailable(DependencyError):  # noqa: N818
    """The chat model cannot be reached, or its reply cannot be used."""

    calls = 0  # requests that were sent in vain
    tokens_in = 0
    tokens_out = 0

    hint = "see `kb doctor`; [chat] in kb.toml names the endpoint"


class SearchUnavailable(DependencyError):  # noqa: N818
    """The web search cannot be reached, or its reply cannot be used."""

    hint = "see [search] in kb.toml"


class Refused(KbError):  # noqa: N818
    """A guard refused the operation."""

    exit_code = ExitCode.REFUSED


class MassDelete(Refused):
    """The source lost so many documents that deleting them needs consent."""

    hint = "check the folder; if the deletion is meant, repeat with --allow-mass-delete"


class MassRetire(Refused):
    """The plan retires so many of the tenant's memories that it needs consent."""

    hint = "look at the plan; if it is meant, repeat with --allow-mass"

    def __init__(self, message: str = "", *, hint: str = "", retired: int = 0, live: int = 0) -> None:
        super().__init__(message, hint=hint)
        self.retired = retired  # memories, what a cap has put off until later among them
        self.live = live  # memories of the tenant


class EmbedderChanged(Refused):
    """The configured embedder is not the one the stored vectors came from."""

    hint = "`kb reindex --embedder` re-embeds every memory with the configured embedder"


class IndexOutdated(Refused):
    """The index was built with another schema than this version of kb uses."""

    hint = "`kb reindex` builds it anew from the ledger, without embedding again"


class StalePlan(Refused):
    """What a plan was made for has moved since, or an undo would overwrite what changed since."""

    hint = "make it anew with `kb govern plan JOB`"

    def __init__(self, message: str = "", *, hint: str = "", moved: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint=hint)
        self.moved = moved  # ids of the memories, or keys of the rows


class UnsafePolicy(Refused):
    """The policy would empty a tenant, or cannot work."""

    hint = "`kb govern policy check` shows the forecast; `kb govern forecast --policy FILE` tries another"


class Locked(KbError):  # noqa: N818
    """Another run holds the lock."""

    exit_code = ExitCode.LOCKED
    hint = "wait for the other run to end; the lock is freed by itself when its process ends"


class IntegrityError(KbError):
    """Stored data breaks an invariant."""

    hint = "`kb reconcile` repairs the index from the ledger"


class StaleRevision(IntegrityError):  # noqa: N818
    """A memory changed since it was read; read again and repeat."""
