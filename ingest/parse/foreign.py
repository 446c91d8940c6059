"""Turns whatever a foreign parser raises into one DocumentError with a code and a way out.

Classes are told apart by name, so that no vendor is imported to ask.
"""

from __future__ import annotations

import re

from kb.errors import DocumentError, FailureCode

MESSAGE_LENGTH = 300

_ENCRYPTED = re.compile(r"password|encrypt|decrypt", re.IGNORECASE)
_CORRUPT = frozenset(
    {
        "BadZipFile", "LargeZipFile", "PackageNotFoundError", "XMLSyntaxError", "ParserError", "XMLSchemaError",
        "PdfiumError", "PdfReadError", "InvalidFileException", "XLRDError", "CompDocError", "NotOleFileError",
        "OleFileError", "InvalidXmlError", "JSONDecodeError", "UnsupportedFileFormatError", "EOFError", "error",
        "UnprocessableEntityError", "BadGzipFile", "SystemMessage", "StructError", "ParseError", "DecompressionError",
        "FileFormatError", "InvalidFormatError", "IncompleteReadError", "OxMsgError",
    }
)  # fmt: skip
_CORRUPT_TEXT = re.compile(
    r"not a (zip|word|valid|powerpoint)|no relationship|no item named|truncated|malformed|is not a \w+ (archive|file)",
    re.IGNORECASE,
)

HINT_ENCRYPTED = "save a copy without a password and ingest that"
HINT_CORRUPT = "open the file in its own program; if it opens, save it again, else restore it from a backup"
HINT_REPORT = "the file is left out; open it in its own program and save it again, or convert it to Markdown"


def translated(error: BaseException) -> DocumentError:
    """Return what `error`, raised by any parser, means for the document."""
    match error:
        case DocumentError():
            return error
        case MemoryError():
            hint = "raise `ingest.parse_memory`, or split the file"
            return DocumentError(FailureCode.OUT_OF_MEMORY, "the parser ran out of memory", hint=hint)
        case RecursionError():
            return DocumentError(FailureCode.CORRUPT, "its structure is nested too deeply to read", hint=HINT_CORRUPT)
        case _:
            return _by_words(reason(error), {cls.__name__ for cls in type(error).__mro__})


def _by_words(message: str, names: set[str]) -> DocumentError:
    """Return what an error says by its class names and its message."""
    if _ENCRYPTED.search(message) and "UnicodeError" not in names:
        return DocumentError(FailureCode.ENCRYPTED, "it is protected with a password", hint=HINT_ENCRYPTED)
    if names & {"UnicodeError", "LookupError"} and "KeyError" not in names and "IndexError" not in names:
        return DocumentError(FailureCode.ENCODING, message, hint="save the file as UTF-8")
    if names & _CORRUPT or _CORRUPT_TEXT.search(message):
        return DocumentError(FailureCode.CORRUPT, message, hint=HINT_CORRUPT)
    return DocumentError(FailureCode.PARSER_ERROR, message, hint=HINT_REPORT)


def reason(error: BaseException) -> str:
    """Return the error as one line of at most 300 characters, without the bytes or objects it drags along."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:MESSAGE_LENGTH]
