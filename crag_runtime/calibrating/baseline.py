"""Baselines as files: read with errors that say what is wrong, written whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING

from crag_runtime.calibrating.drift import Baseline
from crag_runtime.codec import plain, restored
from crag_runtime.evidence import Verdict
from kb.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

FORM = 1  # of the file
SUFFIX = ".baseline.json"
EXCERPT = 200  # characters of what is wrong with a file


def baseline_path(golden: Path) -> Path:
    """Return where a golden set's baseline stands unless it is named: beside it."""
    return golden.with_suffix(SUFFIX)


def read_baseline(path: Path) -> Baseline | None:
    """Return a frozen baseline; None where there is no such file.

    Raises:
        InputError: it cannot be read, or is no baseline of this form.
    """
    hint = "name another with --baseline, or move it away to have a new one frozen"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is no baseline: not JSON that can be read", hint=hint) from error
    if not isinstance(data, dict) or data.pop("form", None) != FORM:
        raise InputError(f"{path} is no baseline of form {FORM}", hint=hint)
    try:
        baseline = restored(Baseline, data)
    except ValueError as error:
        raise InputError(f"{path} is no baseline: {' '.join(str(error).split())[:EXCERPT]}", hint=hint) from error
    if not _is_sound(baseline):
        raise InputError(f"{path} is no baseline: a grade is out of range, or given twice", hint=hint)
    return baseline


def _is_sound(baseline: Baseline) -> bool:
    """Return whether the grades could have been frozen: in range, known or unknown throughout, one a pair."""
    grades = baseline.pairs
    in_range = all(g.relevance is None or 0.0 <= g.relevance <= 1.0 for g in grades)
    agree = all((g.relevance is None) == (g.verdict is Verdict.UNKNOWN) for g in grades)
    return in_range and agree and len({g.key for g in grades}) == len(grades)


def check_place(path: Path, golden: Path) -> None:
    """Fail where a baseline could not be frozen, before anything is paid for.

    Raises:
        InputError: the path is the golden set's own, or its folder is not there or may not be written.
    """
    if path.resolve() == golden.resolve():
        raise InputError(f"{path} is the golden set itself; name another file for its baseline")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise InputError(f"no baseline can be written into {path.parent}", hint="name another place with --baseline")


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Freeze a baseline: whole and on disk, or the file stays as it was.

    Raises:
        InputError: the disk does not take it.
    """
    place = path.resolve()  # a link stays one
    scratch = place.with_name(f".{place.name}.{os.getpid()}")
    text = json.dumps({"form": FORM, **plain(baseline)}, ensure_ascii=False, indent=1, allow_nan=False)
    try:
        with scratch.open("w", encoding="utf-8", newline="\n") as stream:
            stream.write(f"{text}\n")
            stream.flush()
            os.fsync(stream.fileno())
        scratch.replace(place)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            scratch.unlink(missing_ok=True)
