from __future__ import annotations

from email.message import EmailMessage
from pathlib import Path

import pytest

from kb.errors import FailureCode
from tests.unit.ingest.parse.laws import code, headings, parsed

FORMATS = Path(__file__).parents[4] / "../shared/corpora/formats"


def mail(plain: str = "", html: str = "", *, attachment: bytes = b"") -> bytes:
    message = EmailMessage()
    message["From"] = "王伟 <wang@example.com>"
    message["To"] = "li@example.com"
    message["Subject"] = "关于退货 policy"
    message["Date"] = "Mon, 06 May 2024 10:00:00 +0800"
    if plain:
        message.set_content(plain)
    if html:
        message.add_alternative(html, subtype="html")
    if attachment:
        message.add_attachment(attachment, maintype="application", subtype="pdf", filename="合同.pdf")
    return message.as_bytes()


def test_the_subject_is_the_title_and_the_plain_text_is_preferred() -> None:
    document = parsed("a.eml", mail("你好，\n\n请看附件。\n", "<p>other</p>"))
    assert document.title == "关于退货 policy"
    assert headings(document) == [(1, "关于退货 policy")]
    assert "请看附件。" in document.text
    assert "other" not in document.text
    assert "From: 王伟 <wang@example.com>" in document.text
    assert document.properties["to"] == "li@example.com"


def test_html_is_read_where_there_is_no_plain_text() -> None:
    message = EmailMessage()
    message["Subject"] = "S"
    message.set_content("<h2>News</h2><p>七天无理由</p>", subtype="html", charset="gb2312")
    assert headings(parsed("a.eml", message.as_bytes())) == [(1, "S"), (2, "News")]


def test_attachments_are_named_and_not_read() -> None:
    document = parsed("a.eml", mail("text", attachment=b"%PDF-1.7 secret"))
    assert document.properties["attachments"] == ["合同.pdf"]
    assert "1 attachments were not read: 合同.pdf" in document.warnings
    assert "secret" not in document.text


@pytest.mark.parametrize(
    "data",
    [
        b'From: a\nContent-Type: multipart/encrypted; protocol="application/pgp-encrypted"; boundary=b\n\n--b--',
        b"From: a\nContent-Type: application/pkcs7-mime; smime-type=enveloped-data\n\nMIAGCSqGSIb3DQEHA6CAMIA=",
        b"From: a\nSubject: s\n\n-----BEGIN PGP MESSAGE-----\n\nhQEMA\n-----END PGP MESSAGE-----\n",
    ],
)
def test_encrypted_mail_says_so(data: bytes) -> None:
    assert code("a.eml", data) is FailureCode.ENCRYPTED


def test_a_header_nobody_can_parse_does_not_lose_the_mail() -> None:
    data = (
        b"From: =?bad?Q?=\nTo: <<<@,;\nSubject: ok\nDate: never\nContent-Type: text/plain; charset=no-such\n\nbody here"
    )
    assert "body here" in parsed("a.eml", data).text


def test_what_has_no_headers_is_no_mail() -> None:
    assert code("a.eml", b"\njust words") is FailureCode.CORRUPT


@pytest.mark.corpus
@pytest.mark.skipif(not FORMATS.is_dir(), reason="corpora are not here")
def test_a_chinese_outlook_message_reads_as_written() -> None:
    document = parsed("a.msg", (FORMATS / "tika__testMSG_chinese.msg").read_bytes())
    assert document.title == "Alfresco MSG format testing ( MSG 格式測試 )"
    assert "陳" in document.text
