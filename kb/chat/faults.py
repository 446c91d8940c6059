"""What went wrong at the endpoint, from the vendors' exceptions: a fault, and whether asking again may help."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import httpx
import openai
from langchain_core.exceptions import ContextOverflowError, LangChainException

from kb.embedders.backoff import retry_after_seconds
from kb.errors import Fault

SHOWN = 200  # characters of an endpoint's message
_PREFIX = re.compile(r"^Error code: \d+ - ")  # the SDK's; the status stands in the reason already
TOO_MANY_REQUESTS = 429
REQUEST_TIMEOUT = 408
NOT_IMPLEMENTED = 501
INTERNAL_ERROR = 500
UNAUTHORISED = frozenset({401, 403})
REFUSES_FORM = frozenset({400, 415, 422, INTERNAL_ERROR, NOT_IMPLEMENTED})
SERVER_ERRORS = range(500, 600)
OUT_OF_QUOTA = "insufficient_quota"  # a 429 that no waiting ends

# All that langchain-openai lets through: the SDK's and httpx's own errors, langchain's, and what decoding a reply that
# is not of the protocol raises.
VENDOR_ERRORS: tuple[type[Exception], ...] = (
    openai.OpenAIError,
    httpx.HTTPError,
    httpx.InvalidURL,
    httpx.StreamError,
    LangChainException,
    OSError,  # its TimeoutError and ConnectionError included
    ValueError,  # pydantic's, json's and the output parsers'
    LookupError,
    TypeError,
    AttributeError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What went wrong.

    Args:
        fault: its kind.
        reason: one line; never holds the key.
        retry_after: seconds the endpoint asked to wait.
        is_passing: the same request may succeed a little later.
        may_be_form: another form of asking for structure might be accepted.
        parameter: name of the one parameter that the endpoint refuses; "" when it names none.
        tokens_in: tokens of the prompt, where the error still tells.
        tokens_out: tokens of the reply, likewise.
    """

    fault: Fault
    reason: str
    retry_after: float | None = None
    is_passing: bool = False
    may_be_form: bool = False
    parameter: str = ""
    tokens_in: int = 0
    tokens_out: int = 0


def diagnosed(error: BaseException, *, now: float, has_begun: bool = False) -> Diagnosis:
    """Return what a vendor's exception means.

    Args:
        error: one of `VENDOR_ERRORS`.
        now: epoch seconds, for dates in `Retry-After`.
        has_begun: a part of the reply had come already.
    """
    cause = _root(error)
    match error:
        case openai.APIStatusError():
            found = _by_status(error, now)
        case TimeoutError() | httpx.TimeoutException() | openai.APITimeoutError():
            found = Diagnosis(fault=Fault.TIMEOUT, reason="no reply in time", is_passing=not has_begun)
        case _ if isinstance(cause, httpx.InvalidURL | httpx.UnsupportedProtocol):
            found = Diagnosis(fault=Fault.REJECTED, reason=f"the base URL is not valid: {_short(cause)}")
        case openai.APIConnectionError() | httpx.TransportError() | httpx.StreamError() | OSError():
            found = _broken(error, has_begun=has_begun)
        case ContextOverflowError():
            found = Diagnosis(fault=Fault.REJECTED, reason="the prompt is longer than the model takes")
        case openai.LengthFinishReasonError():
            found = _too_long(error)
        case openai.APIError() if type(error) is openai.APIError:  # an error object inside a stream
            reason = f"the endpoint reports: {_short(error)}"
            found = Diagnosis(fault=Fault.SERVER, reason=reason, is_passing=not has_begun)
        case _:
            reason = f"the reply is not of the protocol: {_short(error)}"
            found = Diagnosis(fault=Fault.MALFORMED, reason=reason, may_be_form=True)
    return found


def without(secret: str, diagnosis: Diagnosis) -> Diagnosis:
    """Return the diagnosis with the secret blotted out of its reason."""
    return replace(diagnosis, reason=diagnosis.reason.replace(secret, "***")) if secret else diagnosis


def _by_status(error: openai.APIStatusError, now: float) -> Diagnosis:
    status, reason = error.status_code, f"the endpoint answers {error.status_code}: {_short(error)}"
    asked = retry_after_seconds(error.response.headers.get("retry-after"), now)
    if status in UNAUTHORISED:  # its message may quote the key
        return Diagnosis(fault=Fault.UNAUTHORISED, reason=f"the endpoint refuses the key ({status})")
    if status == TOO_MANY_REQUESTS:
        is_passing = error.code != OUT_OF_QUOTA
        return Diagnosis(fault=Fault.RATE_LIMITED, reason=reason, retry_after=asked, is_passing=is_passing)
    if status == REQUEST_TIMEOUT:
        return Diagnosis(fault=Fault.TIMEOUT, reason=reason, retry_after=asked, is_passing=True)
    may_be_form = status in REFUSES_FORM and not isinstance(error, ContextOverflowError)
    if status in SERVER_ERRORS:
        is_passing = status != NOT_IMPLEMENTED
        return Diagnosis(
            fault=Fault.SERVER, reason=reason, retry_after=asked, is_passing=is_passing, may_be_form=may_be_form
        )
    parameter = error.param if isinstance(error.param, str) else ""
    return Diagnosis(fault=Fault.REJECTED, reason=reason, may_be_form=may_be_form, parameter=parameter)


def _broken(error: BaseException, *, has_begun: bool) -> Diagnosis:
    if has_begun:
        return Diagnosis(fault=Fault.CUT_OFF, reason=f"the connection broke within the reply: {_short(_root(error))}")
    return Diagnosis(fault=Fault.UNREACHABLE, reason=f"no connection: {_short(_root(error))}", is_passing=True)


def _too_long(error: openai.LengthFinishReasonError) -> Diagnosis:
    usage = error.completion.usage
    return Diagnosis(
        fault=Fault.MALFORMED,
        reason="the reply is longer than max_tokens allows",
        may_be_form=True,
        tokens_in=usage.prompt_tokens if usage else 0,
        tokens_out=usage.completion_tokens if usage else 0,
    )


def _root(error: BaseException) -> BaseException:
    """Return the error of the transport that the SDK and langchain have wrapped."""
    while error.__cause__ is not None and not isinstance(error, httpx.HTTPError | httpx.InvalidURL):
        error = error.__cause__
    return error


def _short(error: BaseException) -> str:
    text = error.message if isinstance(error, openai.APIError) else str(error)
    return _PREFIX.sub("", " ".join(text.split()))[:SHOWN] or type(error).__name__
