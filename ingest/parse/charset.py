"""Guesses the encoding of text that is neither UTF-8 nor marked: who reads it best, by the letters people use most.

Statistical detectors confuse the double-byte encodings on short text, so those are judged here by the share of common
characters each reading gives; the single-byte ones by Western and Russian letter habits; the rest is asked of
charset-normalizer.
"""

from __future__ import annotations

import re
from collections import Counter

ASCII_END = 0x80
SAMPLE = 100_000  # bytes looked at
GOOD_ENOUGH = 0.45  # mean plausibility of a non-ASCII character from which a double-byte reading is believed
RUSSIAN_ENOUGH = 0.7

_COMMON_HAN = frozenset(
    "的一是不了在人有我他这中大来上国个到说们为子和你地出道也时年得就那要下以生会自着去之过家学对可里后小么心多天而能好"
    "都然没日于起还发成事只作当想看文无开手十用主行方又如前所本见经头面公同三已老从动两长知民样现分将外但身些与高意进把"
    "法此实回二理美点月明其种声全工己话儿者向情部正名定女问力机给等几很业最间新什打便位因重被走电四第门相次东政海口使教"
    "西再平真听世气信北少关并内加化由却代军产入先山五太水万市眼体别处总才场师书比住员九笑性通目华报立马命张活难神数件安"
    "表原车白应路期叫死常提感金何更反合放做系计或司利受光王果亲界及今京务制解各任至清物台象记边共风战干接它许八特觉望直"
    "服毛林题建南度统色字请交爱让认算论百吃义科怎元社术结六功指思非流每青管夫连远资队跟带花快条院变联言权往展该领传近留"
    "红治决周保达办运武半候七必城父强步完革深区即求品士转量空甚众技轻程告江语英基派满式李息写呢识极令黄德收脸钱党倒未持"
    "取设始版双历越史商千片容研像找友孩站广改议形委早房音火际则首单据导影失拿网香似斯专石若兵弟谁校读志飞观争究包组造落"
    "视济喜离虽坏兴切微消费销售订货号码姓龄址证编规章请假薪酬试用休款项价格户客系统配置安装执步骤确认查询密钥参启默"
    "這個來們為國說時會過後發對學還沒無於開動當經與將長從現進給問間裡話點幾實業應機關電員頭東車書見體樣門種萬報馬場總"
    "關設處務題讓論邊產達運強認資訊請執語導單據組號碼節紹裝服務確統版滿步驟選擇訂購臺灣轉變費買賣職權傳條帶結構應該"
    "佐藤田村井橋淳東阪古屋郎京住齢名前設定使用方法説明表示変更保存検索画面利用料金円発売価格"
)
_CJK_MARKS = frozenset("。，、；：？！（）「」『』《》【】“”‘’—…·￥％＋－／　～")
_WESTERN = frozenset("àâäáãåæçéèêëíìîïñóòôöõøœúùûüýÿßšžÀÂÄÁÃÅÆÇÉÈÊËÍÌÎÏÑÓÒÔÖÕØŒÚÙÛÜÝŠŽ")
_WESTERN_MARKS = frozenset("“”‘’„–—…•€£©®°§«»·™½¼²³±¡¿´¨ªº× \xad†‚‰‹›")
_RUSSIAN_LOWER = frozenset("абвгдежзийклмнопрстуфхцчшщъыьэюяё")
_DOUBLE_BYTE = ("gb18030", "big5hkscs", "cp932", "euc_jp", "cp949")
_CYRILLIC = ("cp1251", "cp866", "koi8_r")
_DAILY_ROWS = range(0xB0, 0xC9)  # of KS X 1001: the 2350 syllables in daily use
_FEW = 20  # letters that prove nothing
_ALIASES = {"cp1125": "cp866", "gb2312": "gb18030", "gbk": "gb18030", "hz": "hz", "big5": "big5hkscs"}
_ISO2022 = re.compile(rb"\x1b\$[@B]")


def guessed(data: bytes) -> str:
    """Return the name of the encoding that reads `data` best; "" when none does.

    Args:
        data: bytes that are not valid UTF-8 (or hold the escapes of ISO-2022-JP).
    """
    sample = data[:SAMPLE]
    if _ISO2022.search(sample) and _read(sample, "iso2022_jp") is not None:
        return "iso2022_jp"
    best = max(((_double_byte_score(sample, name), name) for name in _DOUBLE_BYTE), key=lambda pair: pair[0])
    if best[0] >= GOOD_ENOUGH:
        return best[1]
    if _is_western(sample):
        return "cp1252"
    russian = max(((_russian_score(sample, name), name) for name in _CYRILLIC), key=lambda pair: pair[0])
    if russian[0] >= RUSSIAN_ENOUGH:
        return russian[1]
    return _asked(sample)


def canonical(name: str) -> str:
    """Return Python's name for an encoding as a page or a mail declares it; "" when Python has none.

    Declared supersets are what writers mean: gb2312 is read as gb18030, latin-1 as cp1252 (the web's rule).
    """
    import codecs  # noqa: PLC0415 - loaded when first needed

    low = name.strip().lower().replace("_", "-")
    named = {"iso-8859-1": "cp1252", "latin-1": "cp1252", "latin1": "cp1252", "us-ascii": "cp1252", "ascii": "cp1252"}
    named |= {"gb2312": "gb18030", "gbk": "gb18030", "x-gbk": "gb18030", "shift-jis": "cp932", "sjis": "cp932"}
    named |= {"ks-c-5601-1987": "cp949", "euc-kr": "cp949", "big5": "big5hkscs", "x-sjis": "cp932"}
    try:
        return named.get(low) or codecs.lookup(low).name
    except LookupError:
        return ""


def _read(sample: bytes, encoding: str) -> str | None:
    for cut in range(4):  # the sample's end may fall inside a character
        try:
            return sample[: len(sample) - cut].decode(encoding)
        except UnicodeDecodeError as error:
            if error.start < len(sample) - 8:
                return None
    return None


def _double_byte_score(sample: bytes, encoding: str) -> float:
    text = _read(sample, encoding)
    if text is None:
        return 0.0
    counts = Counter(char for char in text if ord(char) >= ASCII_END)
    total = sum(counts.values())
    if not total:
        return 0.0
    score = sum(_plausibility(char) * n for char, n in counts.items()) / total
    if encoding == "gb18030" and score > 0:
        score *= 1.05  # of equal readings the commonest on earth
    return score


def _plausibility(char: str) -> float:
    if char in _COMMON_HAN or "\u3041" <= char <= "\u3096":
        return 1.0
    if char in _CJK_MARKS or "\u30a1" <= char <= "\u30fc":
        return 0.9
    if "\uac00" <= char <= "\ud7a3":
        # chance rarely lands in the rows of daily use
        first = char.encode("cp949", "replace")[0]
        return 0.8 if first in _DAILY_ROWS else -0.5
    if "\u4e00" <= char <= "\u9fff":
        return 0.3
    return 0.2 if "\uff01" <= char <= "\uff5e" else -0.6


def _is_western(sample: bytes) -> bool:
    text = _read(sample, "cp1252")
    if text is None:
        return False
    high = [i for i, char in enumerate(text) if ord(char) >= ASCII_END]
    letters = sum(text[i] in _WESTERN for i in high)
    marks = sum(text[i] in _WESTERN_MARKS for i in high)
    # words of Latin letters carry few accents; a page of nothing but accents is another alphabet
    latin = sum(char.isascii() and char.isalpha() for char in text)
    return letters + marks == len(high) and latin >= letters


def _russian_score(sample: bytes, encoding: str) -> float:
    text = _read(sample, encoding)
    high = [char for char in text or "" if ord(char) >= ASCII_END]
    if not high:
        return 0.0
    vowels = sum(char in "оеаинт" for char in high)
    lower = sum(char in _RUSSIAN_LOWER for char in high)
    if len(high) > _FEW and not any(char in "ыьэюя" or char.isupper() for char in high):  # Hebrew, most likely
        return 0.0
    return lower / len(high) if vowels > 0.25 * len(high) else 0.0


def _asked(sample: bytes) -> str:
    from charset_normalizer import from_bytes  # noqa: PLC0415 - loaded when first needed

    best = from_bytes(sample).best()
    if best is None or best.encoding in {"utf_16_be", "utf_16_le", "utf_7", "utf_8"}:
        return ""
    return _ALIASES.get(best.encoding, best.encoding)
