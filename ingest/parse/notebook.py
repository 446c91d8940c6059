"""Jupyter notebooks: Markdown cells as Markdown, code cells as fences; outputs are left out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ingest.parse.builder import DocumentBuilder
from ingest.parse.decode import decode_text, normalised
from ingest.parse.markdown import markdown_document
from kb.errors import DocumentError, FailureCode

if TYPE_CHECKING:
    from ingest.blocks import ParsedDocument
    from ingest.parse.raw import RawFile


def parse_notebook(file: RawFile) -> ParsedDocument:
    """Return the document of an .ipynb file.

    Raises:
        DocumentError: ENCODING; CORRUPT when it is no notebook.
    """
    decoded = decode_text(file.data)
    try:
        notebook = json.loads(decoded.text)
        cells, language = _cells(notebook), _language(notebook)
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise DocumentError(
            FailureCode.CORRUPT, f"not a notebook: {error}", hint="open and save it in Jupyter"
        ) from error
    builder = DocumentBuilder()
    outputs = 0
    for cell in cells:
        source = _source(cell)
        outputs += bool(cell.get("outputs"))
        if cell.get("cell_type") == "markdown":
            builder.embed(markdown_document(normalised(source)))
        elif cell.get("cell_type") == "code":
            builder.code(source, language=language)
        else:
            builder.paragraph(source)
    if outputs:
        builder.warnings.append(f"outputs of {outputs} cells were left out")
    return builder.build(properties={"cells": len(cells), "language": language})


def _cells(notebook: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - the vendor's object
    cells = notebook["cells"] if "cells" in notebook else notebook["worksheets"][0]["cells"]
    return [cell for cell in cells if isinstance(cell, dict)]


def _language(notebook: Any) -> str:  # noqa: ANN401 - the vendor's object
    metadata = notebook.get("metadata") or {}
    kernel = metadata.get("kernelspec") or {}
    return str((metadata.get("language_info") or {}).get("name") or kernel.get("language") or "python")


def _source(cell: dict[str, Any]) -> str:
    source = cell.get("source", cell.get("input", ""))
    return "".join(map(str, source)) if isinstance(source, list) else str(source)
