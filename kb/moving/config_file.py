"""Changes one setting in a kb.toml and leaves every other line of it as it is."""

from __future__ import annotations

import json
import os
import re
import tempfile
import tomllib
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from kb.errors import ConfigError
from kb.settings import PROJECT_FILE, user_config
from kb.telemetry.redaction import is_secret as names_secret

_TABLE = re.compile(r"\s*\[")


def changed(text: str, key: str, value: str | None) -> str:
    """Return a kb.toml with a top-level setting set, or taken out. Pure.

    Args:
        text: of the file.
        key: a top-level setting.
        value: what it becomes; None: the default.

    Raises:
        ConfigError: the file is not TOML, or is written in a way in which a line cannot be changed alone.
    """
    before = _parsed(text)
    lines = text.splitlines(keepends=True)
    end = next((n for n, line in enumerate(lines) if _TABLE.match(line)), len(lines))
    own = re.compile(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=")
    kept = [line for line in lines[:end] if not own.match(line)]
    at = next((n for n, line in enumerate(lines[:end]) if own.match(line)), None)
    said = [] if value is None else [f"{key} = {json.dumps(value, ensure_ascii=False)}\n"]
    place = len(kept) if at is None else at
    if said and place and not kept[place - 1].endswith("\n"):
        said = ["\n", *said]
    after = "".join([*kept[:place], *said, *kept[place:], *lines[end:]])
    wanted = {**{k: v for k, v in before.items() if k != key}, **({} if value is None else {key: value})}
    if _parsed(after) != wanted:
        raise ConfigError(
            f"{key} stands in this kb.toml in a way that is not changed by itself", hint="edit it by hand"
        )
    return after


def is_secret(uri: str) -> bool:
    """Return whether a URI holds a password, or options that may be one."""
    parts = urlsplit(uri)
    return parts.password is not None or any(names_secret(name) for name, _ in parse_qsl(parts.query))


def write_setting(key: str, value: str | None) -> Path:
    """Change a setting where it stands, else in ./kb.toml, else in the user's; return the file.

    Raises:
        ConfigError: the file cannot be changed.
    """
    file = _home_of(key)
    try:
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        handle, temporary = tempfile.mkstemp(dir=file.absolute().parent, prefix=f".{file.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(changed(text, key, value))
        if file.exists():
            Path(temporary).chmod(file.stat().st_mode)
        Path(temporary).replace(file)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be changed: {error}", hint=f"set {key} by hand") from error
    return file


def _home_of(key: str) -> Path:
    files = [f for f in (Path(PROJECT_FILE), user_config()) if f.is_file()]
    naming = [f for f in files if key in _parsed(f.read_text(encoding="utf-8"))]
    return next(iter([*naming, *files]), Path(PROJECT_FILE))


def _parsed(text: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"the kb.toml does not parse: {error}") from None
