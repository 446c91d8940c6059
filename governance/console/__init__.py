"""The review console: pages in a browser for who decides about memories. Works without scripts for reading."""

from governance.console.app import console_app

__all__ = ["console_app"]
