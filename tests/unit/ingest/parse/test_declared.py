from __future__ import annotations

import pytest

from ingest.parse import ParseLimits, declared, parse


def test_each_format_names_its_encoding_in_its_own_place() -> None:
    assert declared.in_page(b'<!doctype html><meta http-equiv=x content="text/html; charset=big5">') == "big5"
    assert declared.in_page(b'<?xml version="1.0" encoding="euc-kr"?><html>') == "euc-kr"
    assert declared.in_xml(b"<?xml version='1.0' encoding='gb2312'?><a/>") == "gb2312"
    assert declared.in_source(b"#!/usr/bin/python\n# -*- coding: euc-jp -*-\n") == "euc-jp"
    assert declared.in_source(b"/* vim: set fileencoding=cp1251 : */\n") == "cp1251"
    assert declared.in_source(b'@charset "big5";\n') == "big5"
    assert declared.in_front_matter(b"---\ntitle: x\nencoding: big5\n---\n") == "big5"


def test_a_name_elsewhere_declares_nothing() -> None:
    assert declared.in_source(b"x = 1\ny = 2\n# coding: big5\n") == ""
    assert declared.in_source(b'text = "coding: big5"\n') == ""
    assert declared.in_xml(b"<a encoding='big5'/>") == ""
    assert declared.in_front_matter(b"encoding: big5\n") == ""
    assert declared.in_front_matter(b"---\ntitle: x\n---\nencoding: big5\n") == ""


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("a.html", '<meta charset="big5"><p>'),
        ("a.xhtml", '<?xml version="1.0" encoding="big5"?><html xmlns="http://www.w3.org/1999/xhtml"><body><p>'),
        ("a.xml", '<?xml version="1.0" encoding="big5"?><a><b>'),
        ("a.py", "# -*- coding: big5 -*-\n# "),
        ("a.md", "---\nencoding: big5\n---\n"),
    ],
)
def test_a_declaration_settles_what_the_bytes_leave_open(name: str, head: str) -> None:
    tail = {"a.xhtml": "</p></body></html>", "a.xml": "</b></a>"}.get(name, "")
    assert "偉" in parse(name, (head + "偉" + tail).encode("big5"), ParseLimits()).text
