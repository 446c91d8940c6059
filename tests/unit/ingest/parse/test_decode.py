from __future__ import annotations

import random

import pytest

from ingest.parse.decode import decode_text, normalised
from kb.errors import DocumentError, FailureCode

SAMPLES = [
    (
        "订单编号,客户\n10086,王伟\n",
        ["gb18030", "gbk", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"],
    ),
    ("退货政策：七天无理由退货。", ["gbk", "utf-16-le", "utf-32-le", "utf-32-be"]),
    ("合同", ["gbk"]),
    ("本節介紹如何安裝服務。請先確認系統版本滿足要求，然後執行以下步驟。", ["big5", "gb18030", "utf-16-be"]),
    ("臺北市政府公告", ["big5"]),
    ("サービスの設定方法について説明します。", ["cp932", "euc_jp", "iso2022_jp"]),
    ("名前,年齢,住所\n佐藤太郎,30,東京\n", ["cp932", "euc_jp"]),
    ("서비스를 설치하는 방법을 설명합니다.", ["cp949", "euc_kr"]),
    ("Привет, как дела? Это русский текст", ["cp1251", "cp866", "koi8_r"]),
    ("Größe: Müller fährt über die Brücke. 10 € – “quote”", ["cp1252"]),
    ("Ça été un très bel été à la plage, où naît l'œuvre.", ["cp1252"]),
    ("Don’t do “that”", ["cp1252"]),
    ("¿Cómo estás? Mañana será otro día", ["cp1252", "latin-1"]),
    ("Καλημέρα κόσμε, τι κάνεις σήμερα; Όλα καλά ευχαριστώ πολύ", ["cp1253"]),
    ("Zażółć gęślą jaźń, proszę bardzo. Łódź jest ładna, a życie piękne.", ["cp1250"]),
]


@pytest.mark.parametrize(("text", "encoding"), [(t, e) for t, es in SAMPLES for e in es])
def test_text_in_any_usual_encoding_is_read_as_written(text: str, encoding: str) -> None:
    decoded = decode_text(text.encode(encoding))
    assert decoded.text == text
    assert decoded.warnings == ()


def test_a_declared_encoding_is_believed_where_utf8_does_not_fit() -> None:
    assert decode_text("שלום".encode("cp1255"), declared="windows-1255").text == "שלום"
    assert decode_text("合同".encode("gb2312"), declared="gb2312").text == "合同"
    assert decode_text("合同".encode(), declared="gb2312").text == "合同"  # a lie: it is UTF-8


def test_a_few_bad_bytes_are_counted_and_never_become_replacement_characters() -> None:
    data = "第一章 总则\n本办法适用于全体员工。\n".encode() * 20
    decoded = decode_text(data + b"\xff caf\xe9 \x81")
    assert decoded.text.endswith("ÿ café ")
    assert decoded.warnings == ("3 bytes are not valid UTF-8; read as cp1252 or dropped",)
    assert "\ufffd" not in decoded.text


def test_a_replacement_character_of_the_author_stays() -> None:
    assert decode_text("was \ufffd already".encode()).text == "was \ufffd already"


@pytest.mark.parametrize("seed", range(5))
def test_random_bytes_are_no_text(seed: int) -> None:
    with pytest.raises(DocumentError) as caught:
        decode_text(random.Random(seed).randbytes(20_000))
    assert caught.value.code is FailureCode.ENCODING


def test_text_comes_in_one_normal_form() -> None:
    assert normalised("cafe\u0301\r\nb\rc\x00\x1b[0m\u2028d\ufeff\x0ce\ud800") == "café\nb\nc[0m\nd\ne"


def test_utf16_cut_in_the_middle_keeps_the_rest() -> None:
    data = "一个很长的段落，用来测试。\n".encode("utf-16") * 1
    decoded = decode_text(data[:-1])
    assert decoded.text.startswith("一个很长的段落")
    assert decoded.warnings
