from __future__ import annotations

import io
import json
import zipfile

import pytest

from ingest.blocks import BlockKind
from kb.errors import FailureCode
from tests.unit.ingest.parse.laws import code, headings, of_kind, parsed

CONTAINER = '<container xmlns="urn:x"><rootfiles><rootfile full-path="OPS/p.opf"/></rootfiles></container>'
PACKAGE = """<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>
<dc:title>书名</dc:title><dc:creator>A</dc:creator></metadata><manifest>
<item id="b" href="b.xhtml" media-type="application/xhtml+xml"/><item id="a" href="a%20a.xhtml"
media-type="application/xhtml+xml"/><item id="n" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>
</manifest><spine><itemref idref="n"/><itemref idref="a"/><itemref idref="b"/><itemref idref="gone"/></spine>
</package>"""


def book(**extra: str) -> bytes:
    parts = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": CONTAINER,
        "OPS/p.opf": PACKAGE,
        "OPS/a a.xhtml": "<?xml version='1.0'?><html><body><h1>One</h1><p>first</p></body></html>",
        "OPS/b.xhtml": "<html><body><h1>Two</h1><p>second</p></body></html>",
        **extra,
    }
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return out.getvalue()


def test_a_book_is_its_chapters_in_reading_order() -> None:
    document = parsed("a.epub", book())
    assert document.text == "# One\n\nfirst\n\n# Two\n\nsecond"
    assert document.title == "书名"


def test_a_protected_book_says_so_and_scrambled_fonts_do_not_matter() -> None:
    method = '<encryption><EncryptedData><EncryptionMethod Algorithm="{}"/></EncryptedData></encryption>'
    drm = book(**{"META-INF/encryption.xml": method.format("http://www.w3.org/2001/04/xmlenc#aes128-cbc")})
    fonts = book(**{"META-INF/encryption.xml": method.format("http://www.idpf.org/2008/embedding")})
    assert code("a.epub", drm) is FailureCode.ENCRYPTED
    assert parsed("a.epub", fonts).blocks


RST = """
PEP: 8
Title: Style Guide

Guide
=====

See :ref:`the section <sec>` and ``code``.

#. one
#. two

   - inner

.. code-block:: python

   x = 1

.. toctree::
   :hidden:

   secret-page

.. versionadded:: 3.2
   It can do more.

.. no-such-directive:: arg
   :option: v

   Body of it.

.. include:: /etc/hostname
.. raw:: html

   <script>alert(1)</script>

===== =====
a     b
===== =====
1     2
===== =====

Part
----

终于 `broken
"""


def test_restructured_text_keeps_what_docutils_does_not_know() -> None:
    document = parsed("a.rst", RST)
    assert document.title == "Style Guide"
    assert headings(document) == [(1, "Guide"), (2, "Part")]
    assert "See the section and code." in document.text
    assert "1. one\n2. two\n  - inner" in document.text
    assert of_kind(document, BlockKind.CODE) == ["```python\nx = 1\n```"]
    assert of_kind(document, BlockKind.TABLE) == ["| a | b |\n| --- | --- |\n| 1 | 2 |"]
    for kept in ("It can do more.", "Body of it.", "终于"):
        assert kept in document.text
    for gone in ("secret-page", "alert"):
        assert gone not in document.text


def test_an_outside_entity_is_never_read() -> None:
    bomb = '<!DOCTYPE l [<!ENTITY a "lol">' + "".join(
        f'<!ENTITY {chr(98 + i)} "{f"&{chr(97 + i)};" * 10}">' for i in range(9)
    )
    assert code("a.xml", bomb + "]><l>&j;</l>") is FailureCode.CORRUPT
    outside = '<!DOCTYPE l [<!ENTITY x SYSTEM "file:///etc/passwd">]><l>&x;</l>'
    assert code("a.xml", outside) in {FailureCode.CORRUPT, FailureCode.NO_TEXT}


def test_xml_is_lines_of_path_and_text() -> None:
    document = parsed("a.xml", "<c><p><n>A</n><v>1 <b>bold</b> tail</v></p><p><n>B</n></p><!-- x --></c>")
    assert [b.text for b in document.blocks] == ["p/n: A\np/v: 1 bold tail", "p/n: B"]


def test_a_feed_is_sections() -> None:
    item = "<item><title>News</title><description>&lt;p&gt;Body &lt;b&gt;x&lt;/b&gt;&lt;/p&gt;</description></item>"
    document = parsed("a.rss", f"<rss><channel><title>Feed</title>{item}</channel></rss>")
    assert document.text == "# Feed\n\n## News\n\nBody x"


def test_xml_in_a_chinese_encoding_is_read() -> None:
    assert "七天" in parsed("a.xml", '<?xml version="1.0" encoding="gb2312"?><a>七天无理由</a>'.encode("gbk")).text


def test_a_notebook_is_text_and_fences() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Hi\n", "\n", "text"]},
        {"cell_type": "code", "source": "x = '```'\n", "outputs": [{"text": "secret"}]},
    ]
    document = parsed("a.ipynb", json.dumps({"cells": cells, "metadata": {"language_info": {"name": "python"}}}))
    assert document.text == "# Hi\n\ntext\n\n````python\nx = '```'\n````"
    assert document.warnings == ("outputs of 1 cells were left out",)
    assert code("a.ipynb", '{"no": "cells"}') is FailureCode.CORRUPT


@pytest.mark.parametrize(
    ("name", "source", "found"),
    [
        ("a.adoc", "= Title\n\n== Part\n\n----\n== not a part\n----\n", [(1, "Title"), (2, "Part")]),
        ("a.org", "* Top\n** Sub\n#+begin_src sh\n* no\n#+end_src\n", [(1, "Top"), (2, "Sub")]),
        ("a.tex", "\\section{A \\emph{b}}\n\\subsection*{C}\ntext\n", [(3, "A \\emph{b}"), (4, "C")]),
    ],
)
def test_light_markups_have_headings_outside_their_code(name: str, source: str, found: list[tuple[int, str]]) -> None:
    assert headings(parsed(name, source)) == found


def test_fences_that_never_close_cost_no_time() -> None:
    parsed("a.tex", "\\begin{verbatim}\n" * 20_000)


def test_subtitles_are_what_is_said() -> None:
    first = "WEBVTT\n\nNOTE x\n\n1\n00:01.000 --> 00:02.000 align:start\n<v Ann>Hello <b>there</b>"
    source = f"{first}\n\n00:03.000 --> 00:04.000\n再见"
    assert parsed("a.vtt", source).text == "Ann: Hello there\n\n再见"


def test_code_is_cut_where_a_top_level_thing_begins() -> None:
    source = "import a\n\n\ndef f():\n    x = 1\n\n    return x\n\n\nclass C:\n    pass\n"
    document = parsed("a.py", source)
    assert [b.text for b in document.blocks] == [
        "import a",
        "def f():\n    x = 1\n\n    return x",
        "class C:\n    pass",
    ]
    assert {b.kind for b in document.blocks} == {BlockKind.CODE}
