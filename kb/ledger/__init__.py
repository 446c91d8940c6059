"""The ledger: the system of record, on SQLite by default and PostgreSQL by URL. Milvus is only its index.

`open_ledger` brings the schema to the program's version and returns a `Ledger`, whose transactions (`read`, `write`)
carry one repository for each kind of row. The names are loaded when they are first asked for, so that importing the
package costs no database library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kb.ledger.engine import open_configured, open_ledger
    from kb.ledger.ledger import Ledger

__all__ = ["Ledger", "open_configured", "open_ledger"]

_HOME = {"Ledger": "kb.ledger.ledger", "open_configured": "kb.ledger.engine", "open_ledger": "kb.ledger.engine"}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
