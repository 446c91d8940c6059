"""Every secret that the settings can hold, found in their model, each with a value that nothing else looks like."""

from __future__ import annotations

import base64
import hashlib
import types
import typing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import AfterValidator, BaseModel, SecretStr

from kb.addresses import Address
from kb.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# What a secret's name ends in: a text of such a name that is shown as it is was forgotten.
TELLING = ("key", "password", "secret", "token", "uri", "url", "endpoint", "dsn", "credentials")


@dataclass(frozen=True, kw_only=True)
class Secret:
    """One setting.

    Args:
        path: names from the top.
        is_address: an address that may hold a password, by its type or its description; else a secret as a whole.
    """

    path: tuple[str, ...]
    is_address: bool

    @property
    def variable(self) -> str:
        return "KB_" + "__".join(self.path).upper()

    @property
    def sentinel(self) -> str:
        """Of no known form: no pattern finds it."""
        return "Zq" + hashlib.sha256(".".join(self.path).encode()).hexdigest()[:22]


def secrets() -> list[Secret]:
    """Return every setting that holds a secret, or may."""
    return [s for path, kind, told in _fields(Settings, ()) if (s := _secret(path, kind, told)) is not None]


def unmasked() -> list[str]:
    """Return the settings that tell, by name or description, of a secret or an address, and that are plain texts."""
    return [
        ".".join(path)
        for path, kind, told in _fields(Settings, ())
        if str in _kinds(kind) and not _is_masked(kind) and (path[-1].endswith(TELLING) or "URL" in told)
    ]


def forms(sentinel: str, users: tuple[str, ...] = ("kb", "default", "postgres", "")) -> set[str]:
    """Return a secret in plain, and as HTTP's basic scheme sends it."""
    return {sentinel, *(base64.b64encode(f"{user}:{sentinel}".encode()).decode().rstrip("=") for user in users)}


def leaks(shown: Mapping[str, bytes], held: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return what of the secrets, values by name, is in what was shown, by where."""
    return [
        (where, name)
        for where, text in shown.items()
        for name, value in held.items()
        if any(form.encode() in text for form in forms(value))
    ]


def _secret(path: tuple[str, ...], kind: Any, told: str) -> Secret | None:
    if not _is_masked(kind):
        return None
    is_address = SecretStr not in _kinds(kind) or "URL" in told
    return Secret(path=path, is_address=is_address)


def _fields(model: type[BaseModel], above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any, str]]:
    hints = typing.get_type_hints(model, include_extras=True)
    for name, field in model.model_fields.items():
        path, kind = (*above, name), hints[name]
        inner = [k for k in _kinds(kind) if isinstance(k, type) and issubclass(k, BaseModel)]
        for each in inner:
            yield from _fields(each, path)
        if not inner:
            yield path, kind, field.description or ""


def _kinds(kind: Any) -> set[Any]:
    """Return every type that an annotation is made of."""
    inside = typing.get_args(kind)
    if typing.get_origin(kind) is typing.Literal:
        return set()
    parts = [part for part in inside if isinstance(part, type | types.UnionType) or typing.get_origin(part)]
    return {kind, *(k for part in parts for k in _kinds(part))}


def _is_masked(kind: Any) -> bool:
    if kind is SecretStr:
        return True
    if typing.get_origin(kind) is typing.Annotated:
        return any(isinstance(m, AfterValidator) and m.func is Address for m in kind.__metadata__)
    return any(_is_masked(part) for part in typing.get_args(kind))
