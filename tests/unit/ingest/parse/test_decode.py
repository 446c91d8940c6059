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
    ("。。。策", ["gb18030"]),
    ("策", ["gb18030"]),
    ("张琪 李玥 陈昊 刘奕 赵璇", ["gb18030"]),  # given names are rare characters
    ("饕餮", ["gb18030"]),
    ("    ├─sda1  ext4\n    └─sda2  swap", ["gb18030", "big5"]),
    ("镍钴锰酸锂电池", ["gb18030"]),
    ("关关雎鸠，在河之洲。窈窕淑女，君子好逑。", ["gb18030"]),
    ("使用 npm 安装 v2，再执行 run 命令", ["gb18030"]),
    ("關於退貨政策的說明：商品到貨七天內可以退換。", ["big5", "big5hkscs", "cp950", "gb18030"]),
    ("價格 20 €，不含運費。", ["cp950"]),
    ("香港嘅天氣好熱，佢哋去咗沙灘。", ["big5hkscs"]),
    ("請假申請單", ["big5"]),
    ("서비스를 설치하는 방법을 설명합니다.", ["cp949", "euc_kr"]),
    ("환불 정책", ["euc_kr"]),
    ("대한민국의 수도는 서울특별시이다.", ["euc_kr", "cp949"]),
    ("똠방각하와 펲시맨이 햏햏하고 웃었다고 합니다.", ["cp949"]),  # syllables beyond KS X 1001
    ("東京都千代田区", ["cp932", "euc_jp"]),
    ("吾輩は猫である。名前はまだ無い。", ["cp932", "euc_jp", "iso2022_jp"]),
    ("ご注文の返品は七日以内に限ります。", ["cp932", "euc_jp"]),
    ("データベース接続エラー", ["cp932", "euc_jp"]),
    ("Договор №5 от 12 мая", ["cp1251"]),
    ("Важно: API и SDK для Python", ["cp1251"]),
    ("Ärger", ["cp1252", "latin-1"]),
    ("25 °C ± 2°, 5 µm × 3 µm, £100 or ¥500", ["cp1252", "latin-1"]),
    ("På svenska: åäö, även i Malmö och Göteborg", ["cp1252", "latin-1"]),
    ("Þetta er íslenska, það er gott að læra", ["cp1252"]),
    ("São Paulo não é a capital; informações e opções.", ["cp1252", "latin-1"]),
    ("Žižek Škoda", ["cp1252"]),
    ("é", ["cp1252"]),
    ("Türkçe güzel bir dildir, İstanbul'da yaşıyorum şimdi ve çok mutluyum", ["cp1254"]),
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


def test_what_nothing_can_settle_is_taken_for_the_likelier_kind_of_file() -> None:
    assert decode_text("偉".encode("big5")).encoding == "gb18030"  # a common character in both
    assert decode_text("버스".encode("cp949")).encoding == "gb18030"
    assert decode_text("一".encode("gb18030")).encoding == "utf-8"  # a Cyrillic letter there


def test_a_word_that_mixes_alphabets_is_no_utf8() -> None:
    for word in ("系统", "统一", "下岗工业园", "殊不知", "STDIO 模式", "平台"):
        assert decode_text(word.encode("gb18030")).text == word
    assert decode_text("我們行為".encode("big5")).text == "我們行為"


@pytest.mark.parametrize(
    "text", ["let ϵ > 0", "naïve", "Ħal Għaxaq", "Hawaiʻi", "σ²", "ϕ(ϵ)", "ϵϕ", "ˈɪŋɡlɪʃ", "қазақ тілі", "שָׁלוֹם"]
)
def test_what_is_utf8_stays_utf8(text: str) -> None:
    decoded = decode_text(text.encode())
    assert (decoded.text, decoded.encoding) == (text, "utf-8")


def test_a_broken_byte_leaves_the_rest_of_a_double_byte_file() -> None:
    text = "第一章 总则\n本办法适用于全体员工。\n" * 20
    data = text.encode("gb18030")
    decoded = decode_text(data[:-2])  # the end of a line and half a full stop
    assert decoded.text == text[:-2]
    broken = decode_text(data[:100] + b"\xff" + data[100:])
    assert broken.encoding == "gb18030"
    assert broken.warnings == ("1 bytes are not valid gb18030; dropped",)


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
