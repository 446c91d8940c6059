"""Mail (.eml) by the standard library: the plain text, else the HTML; attachments are named but not read."""

from __future__ import annotations

from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import TYPE_CHECKING

from ingest.parse.builder import DocumentBuilder
from ingest.parse.decode import decode_text, normalised
from ingest.parse.html import html_document
from ingest.parse.plaintext import plain_document
from kb.errors import DocumentError, FailureCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ingest.blocks import ParsedDocument
    from ingest.parse.raw import RawFile
    from kb.model import Json

HEADERS = ("from", "to", "cc", "subject", "date")
HINT_ENCRYPTED = "decrypt it in your mail program and save the readable copy"

_ENCRYPTED_TYPES = frozenset({"multipart/encrypted", "application/pgp-encrypted", "application/pkcs7-mime"})
_PGP = "-----BEGIN PGP MESSAGE-----"


def parse_mail(file: RawFile) -> ParsedDocument:
    """Return the document of an .eml file.

    Raises:
        DocumentError: ENCRYPTED (PGP, S/MIME), CORRUPT when it has neither headers nor a body.
    """
    message = message_from_bytes(file.data, policy=default)
    assert isinstance(message, EmailMessage)
    headers = {name: _header(message, name) for name in HEADERS}
    if not any(headers.values()) and len(message.keys()) == 0:
        raise DocumentError(FailureCode.CORRUPT, "it has no mail headers", hint="export it again from the mail program")
    _refuse_encrypted(message)
    html = ""
    plain = ""
    for kind, text in _texts(message):
        if kind == "text/html":
            html = f"{html}\n{text}"
        else:
            plain = f"{plain}\n\n{text}"
    attachments = [_file_name(part) for part in message.walk() if _is_attachment(part)]
    return mail_document(headers, plain=plain, html=html, attachments=attachments)


def mail_document(headers: dict[str, str], *, plain: str, html: str, attachments: list[str]) -> ParsedDocument:
    """Return a message as a document.

    Args:
        headers: `from`, `to`, `cc`, `subject`, `date`; empty ones are left out.
        plain: its plain text; preferred.
        html: its HTML.
        attachments: names of its attachments.
    """
    builder = DocumentBuilder()
    subject = " ".join(normalised(headers.get("subject", "")).split())
    body = plain_document(normalised(plain).strip()) if plain.strip() else html_document(normalised(html))
    if _PGP in body.text:
        raise DocumentError(FailureCode.ENCRYPTED, "its text is encrypted with PGP", hint=HINT_ENCRYPTED)
    if body.text.strip() or subject:
        builder.heading(1, subject)
        known = [f"{name.capitalize()}: {headers[name]}" for name in ("from", "to", "cc", "date") if headers.get(name)]
        builder.paragraph("\n".join(known))
    builder.embed(body)
    if attachments:
        builder.warnings.append(f"{len(attachments)} attachments were not read: {', '.join(attachments[:10])}")
    properties: dict[str, Json] = {name: normalised(value) for name, value in headers.items() if value}
    if attachments:
        properties["attachments"] = [*attachments]
    return builder.build(title=subject, properties=properties, heading_first=False)


def _header(message: EmailMessage, name: str) -> str:
    try:
        values = message.get_all(name) or []
        return "; ".join(" ".join(str(value).split()) for value in values)
    except (ValueError, IndexError, AttributeError, TypeError, LookupError):  # malformed beyond the parser's patience
        raw = next((value for key, value in message.raw_items() if key.lower() == name), "")
        return " ".join(str(raw).split())


def _refuse_encrypted(message: EmailMessage) -> None:
    for part in message.walk():
        kind = part.get_content_type()
        signed = str(part.get_param("smime-type") or "").lower() == "signed-data"
        if kind in _ENCRYPTED_TYPES and not signed:
            raise DocumentError(FailureCode.ENCRYPTED, "it is encrypted (PGP or S/MIME)", hint=HINT_ENCRYPTED)


def _texts(message: EmailMessage) -> Iterator[tuple[str, str]]:
    """Yield (type, text) of the parts a reader sees."""
    for part in message.walk():
        kind = part.get_content_type()
        if kind in {"text/plain", "text/html"} and not part.is_multipart() and not _is_attachment(part):
            payload = part.get_payload(decode=True)
            if isinstance(payload, bytes) and payload.strip():
                declared = part.get_content_charset() or ""
                yield kind, decode_text(payload, declared=declared).text


def _is_attachment(part: object) -> bool:
    assert isinstance(part, EmailMessage)
    if part.is_multipart():
        return False
    return part.get_content_disposition() == "attachment" or bool(part.get_filename())


def _file_name(part: object) -> str:
    assert isinstance(part, EmailMessage)
    return part.get_filename() or part.get_content_type()
