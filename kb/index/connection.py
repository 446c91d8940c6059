"""One connection to a Milvus. Every call is timed, repeated at most once, and fails with an error of ours.

Some of the vendor's habits are switched off: pymilvus writes to stderr, repeats a failed call up to 75 times unless it
has a timeout, hands out a cached dead connection when a server comes back under the same address, and reads a .env file
when imported.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from kb.addresses import without_secret
from kb.errors import ConfigError, IndexUnavailable, InputError, IntegrityError, KbError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

T = TypeVar("T")
Client: TypeAlias = Any  # pymilvus.MilvusClient, which has no types

LITE_CONNECT_SECONDS = 2.0  # a local socket answers at once, or its server is gone
NO_KEEPALIVE = {"grpc.keepalive_time_ms": 2**31 - 1}
REFUSED_CODES = frozenset({1100, 1101, 1102, 1804})  # the server calls the request itself wrong
MISSING_CODES = frozenset({4, 100})  # no such collection
LOGIN_CODES = frozenset({1400, 1401, 1402, 1403})
CONNECT_FAILED = 2  # pymilvus' own code for a connection that cannot be made
BAD_BM25 = "Invalid sparse row"  # Milvus Lite: a BM25 search met rows being written,
NO_TERMS = f"{BAD_BM25}: NaN"  # or an index without a single term, whose mean length is 0/0
STARTING, STARTING_S = "Mmap manager has not been init", 0.5  # Milvus Lite takes requests before it has quite begun
REASON_LENGTH = 500  # a server's messages may quote the request


class Launcher(Protocol):
    """Starts a server on demand; `kb.index.lite.LiteServer` is one. All methods are safe for threads."""

    def endpoint(self) -> str:
        """Return the URI of a server that answers, started if there was none."""
        ...

    def is_current(self, uri: str) -> bool:
        """Return, cheaply, whether `uri` is still where the server is."""
        ...

    def writing(self) -> AbstractContextManager[None]:
        """Write inside the context, once nothing is under way that a dead process has sent."""
        ...

    def rewrite(self) -> None:
        """Stop the server and clean its files of what was deleted."""
        ...

    def close(self) -> None:
        """Stop using the server."""
        ...


class Connection:
    """Connects when first used, and again when the server moved or died. Safe for threads.

    Args:
        target: URI of a Milvus server, `unix:` URI of a Milvus Lite one, or a launcher of Milvus Lite; with a launcher,
            a server that died is started again, once a call.
        token: `user:password` or API key; empty for none.
        timeout: seconds one request may take.
    """

    def __init__(self, target: str | Launcher, *, token: str = "", timeout: float = 10.0) -> None:
        self.timeout = timeout
        self.is_lite = not isinstance(target, str) or target.startswith("unix:")
        self._launcher = None if isinstance(target, str) else target
        self._uri = target if isinstance(target, str) else ""
        self._token = token
        self._mutex = threading.Lock()
        self._client: Client | None = None

    def call(self, request: Callable[[Client], T]) -> T:
        """Make a request. It must be safe to repeat: it is, once, when a new connection or a second look may mend it.

        Raises:
            KbError: as `translated` says.
        """
        client = self._connected()
        try:
            return request(client)
        except failures() as error:
            if not self._is_mended(client, error):
                raise translated(error, self.where) from error
        try:
            return request(self._connected())
        except failures() as error:
            raise translated(error, self.where) from error

    def write(self, request: Callable[[Client], T]) -> T:
        """Make a request that changes rows; as `call`."""
        if self._launcher is None:
            return self.call(request)
        with self._launcher.writing():
            return self.call(request)

    def close(self) -> None:
        """Disconnect, and let the launcher go. The next call connects again."""
        with self._mutex:
            client, self._client = self._client, None
        if client is not None:
            client.close()
        if self._launcher is not None:
            self._launcher.close()

    def rewrite(self) -> bool:
        """Disconnect and let the launcher clean its server's files; return False where the server is not ours."""
        self.close()
        if self._launcher is None:
            return False
        self._launcher.rewrite()
        return True

    @property
    def where(self) -> str:
        """The address, without a password."""
        return without_secret(self._uri)

    def _is_mended(self, client: Client, error: Exception) -> bool:
        """Return whether the same request may do better now."""
        if BAD_BM25 in str(error):
            return True
        if STARTING in str(error):
            time.sleep(STARTING_S)
            return True
        if self._launcher is None:
            return False
        if not is_lost(error):
            # Too slow, or dead without saying so? A launcher knows: it returns another URI if it had to start anew.
            used = self._uri
            if not is_late(error) or self._launcher.endpoint() == used:
                return False
        self._drop(client)
        return True

    def _connected(self) -> Client:
        client = self._client
        if client is not None and self._is_current():
            return client
        with self._mutex:
            current = self._client
            if current is not None and not self._is_current():
                current.close()
                current = None
            if current is None:
                if self._launcher is not None:
                    self._uri = self._launcher.endpoint()
                current = self._client = self._new_client()
            return current

    def _is_current(self) -> bool:
        return self._launcher is None or self._launcher.is_current(self._uri)

    def _new_client(self) -> Client:
        """Connect; a Milvus Lite that died between its last answer and now is started again, once."""
        try:
            return self._connect()
        except vendor().exceptions.ConnectionConfigException as error:  # which quotes the address, password and all
            raise translated(error, self.where) from None
        except failures() as error:
            if self._launcher is None or not is_lost(error):
                raise translated(error, self.where) from error
            self._uri = self._launcher.endpoint()
        try:
            return self._connect()
        except failures() as error:
            raise translated(error, self.where) from error

    def _connect(self) -> Client:
        pymilvus = vendor()
        seconds = min(LITE_CONNECT_SECONDS, self.timeout) if self.is_lite else self.timeout
        options = {"grpc_options": NO_KEEPALIVE} if self.is_lite else {}  # Milvus Lite objects to keep-alive pings
        return pymilvus.MilvusClient(self._uri, token=self._token, timeout=seconds, dedicated=True, **options)

    def _drop(self, client: Client) -> None:
        """Close `client` if it is still the one in use; another thread may have replaced it."""
        with self._mutex:
            is_ours = self._client is client
            if is_ours:
                self._client = None
        if is_ours:
            client.close()


def vendor() -> Any:  # noqa: ANN401 - the vendor's module, which has no types
    """Return pymilvus, loaded on first use (it costs two seconds), silent."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    before = os.environ.get("PYTHON_DOTENV_DISABLED")
    os.environ["PYTHON_DOTENV_DISABLED"] = "1"
    try:
        import pymilvus  # type: ignore[import-untyped] # noqa: PLC0415 - dear, and it has no types
    finally:
        if before is None:
            del os.environ["PYTHON_DOTENV_DISABLED"]
        else:
            os.environ["PYTHON_DOTENV_DISABLED"] = before
    for name in ("pymilvus", "pymilvus.milvus_client"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    return pymilvus


def failures() -> tuple[type[Exception], ...]:
    """Return what a call into pymilvus may raise: its errors, gRPC's, Python's from arguments or a closed channel."""
    import grpc  # type: ignore[import-untyped] # noqa: PLC0415 - pymilvus' own dependency, loaded with it

    exceptions = vendor().exceptions
    return (exceptions.MilvusException, grpc.RpcError, grpc.FutureTimeoutError, ValueError, TypeError, AttributeError)


def translated(error: Exception, where: str) -> KbError:
    """Return our error for one of pymilvus', gRPC's or the launcher's; the one place that knows theirs.

    `InputError` or `IntegrityError` if the request itself was wrong, `ConfigError` if the address is, and
    `IndexUnavailable` for everything that may do better later.

    Args:
        error: what was raised.
        where: the address, for the message.
    """
    exceptions = vendor().exceptions
    code = getattr(error, "code", None)
    message = f"Milvus at {where}: {_reason(error)}"
    if isinstance(error, exceptions.ConnectionConfigException):
        hint = "write http://host:19530; for the embedded Milvus Lite leave index_uri unset (for --to and --from: lite)"
        return ConfigError(f"{where} is no address of a Milvus server", hint=hint)
    if isinstance(error, exceptions.CollectionNotExistException) or code in MISSING_CODES:
        return IndexUnavailable(message, hint="`kb reindex` builds the index from the ledger")
    if code in LOGIN_CODES or _status(error) in {"UNAUTHENTICATED", "PERMISSION_DENIED"}:
        return IndexUnavailable(message, hint="check KB_INDEX_TOKEN")
    if isinstance(error, _unfit(exceptions)):
        return IntegrityError(message)
    if isinstance(error, exceptions.ParamError | TypeError) or code in REFUSED_CODES:
        return InputError(message)
    return IndexUnavailable(message)


def is_lost(error: Exception) -> bool:
    """Return whether the server is gone, or the connection to it."""
    if isinstance(error, ValueError | AttributeError):  # the channel was closed, by another thread that saw it die
        return True
    return _status(error) in {"UNAVAILABLE", "CANCELLED"} or getattr(error, "code", None) == CONNECT_FAILED


def is_late(error: Exception) -> bool:
    """Return whether the server did not answer in time."""
    return _status(error) == "DEADLINE_EXCEEDED" or "Retry timeout" in str(error)


def _unfit(exceptions: Any) -> tuple[type[Exception], ...]:  # noqa: ANN401 - the vendor's module
    """Return the errors that say that rows do not fit the collection."""
    return (
        exceptions.DataNotMatchException,
        exceptions.DataTypeNotMatchException,
        exceptions.DataTypeNotSupportException,
        exceptions.SchemaMismatchRetryableException,
        exceptions.PrimaryKeyException,
        exceptions.PartitionKeyException,
    )


def _reason(error: Exception) -> str:
    details = getattr(error, "details", None)
    said = details() if callable(details) else getattr(error, "message", "")
    text = (str(said) or str(error) or type(error).__name__)[:REASON_LENGTH]
    status = _status(error)
    return f"{status}: {text}" if status else text


def _status(error: Exception) -> str:
    """Return the name of a gRPC error's status, wherever pymilvus put it; empty when it has none."""
    code = getattr(error, "code", None)
    status = code() if callable(code) else code
    return "" if isinstance(status, int) else str(getattr(status, "name", ""))
