from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.terms import MAX_BYTES, MAX_TERM, Script, query_terms, script_of, terms

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SKU-2024-X5", "sku-2024-x5 sku 2024 x5"),
        ("v2.3.1", "v2.3.1 2.3.1 2.3"),
        ("snake_case_name", "snake_case_name snake case name"),
        ("CamelCaseName", "camelcasename camel case name"),
        ("HTTPServer", "httpserver http server"),
        ("alice@acme.org", "alice@acme.org alice acme.org alic acm org"),
        ("/srv/kb/run.py", "srv/kb/run.py srv kb run.py run py"),
        ("utf8", "utf8 utf 8"),
        ("1,000,000 rows", "1000000 row"),
        ("3.14", "3.14"),
        ("C++ and C#", "c++ and c#"),
        ("user’s running Café", "user run cafe"),
        ("ＡＢＣ全角", "abc 全角"),
        ("… — !? ()", ""),
        ("", ""),
    ],
)
def test_analysis(text: str, expected: str) -> None:
    assert terms(text) == expected


def test_chinese_is_cut_into_words_and_the_words_inside_them() -> None:
    found = terms("人工智能知识库，Milvus2.5的索引").split()
    assert {"人工", "智能", "人工智能", "知识", "知识库", "milvus", "2.5", "索引"} <= set(found)
    assert "，" not in found


@pytest.mark.parametrize(
    ("question", "passage"),
    [
        ("pruned memories", "The daemon prunes a memory"),
        ("sku 2024 x5", "ships as SKU-2024-X5."),
        ("2.3", "fixed in v2.3.1"),
        ("case name", "set caseName"),
        ("acme.org", "mail bob@acme.org"),
        ("python", "needs python3.11"),
        ("知识库", "知识库多久复核一次"),
        ("cafe", "the Café"),
        ("カタカナ", "これはカタカナです"),
        ("Straße", "STRASSE oder straße"),
    ],
)
def test_a_question_shares_terms_with_the_passage_it_means(question: str, passage: str) -> None:
    assert set(query_terms(question).split()) & set(terms(passage).split())


@pytest.mark.parametrize("text", ["हिन्दी भाषा", "العَرَبِيَّة لغة", "ภาษา ไทย", "한국어 문장", "Привет, мир"])
def test_words_of_other_scripts_are_terms(text: str) -> None:
    found = terms(text).split()
    assert len(found) == 2 or all(len(pair) == 2 for pair in found)


def test_a_query_has_each_term_once_in_order() -> None:
    assert query_terms("b a b c a") == "b a c"


MIXED = st.text(st.one_of(st.characters(), st.sampled_from("aZ9-_./@知识库あก　 \n'+#")), max_size=300)


@given(MIXED)
def test_terms_are_clean_bounded_and_the_same_each_time(text: str) -> None:
    found = terms(text)
    assert found == terms(text)
    assert found == " ".join(found.split())
    assert all(len(term) <= MAX_TERM for term in found.split())
    assert found.encode("utf-8").decode("utf-8") == found


@given(MIXED)
def test_a_query_for_the_text_itself_asks_for_its_very_terms(text: str) -> None:
    assert set(query_terms(text).split()) == set(terms(text).split())


@pytest.mark.parametrize("word", ["word", "知识库的索引", "SKU-2024-X5 ", "ภาษา "])
def test_terms_of_a_long_text_end_on_a_whole_term_within_the_limit(word: str) -> None:
    text = f"{word} " * (MAX_BYTES // len(word))
    found = terms(text)
    assert MAX_BYTES - 200 < len(found.encode("utf-8")) <= MAX_BYTES
    assert set(found.split()) <= set(terms(word).split())


@pytest.mark.parametrize("blob", ["a" * 2_000_000, "a-" * 500_000, "a'" * 500_000, "x_Y" * 300_000, "1," * 400_000])
def test_blobs_end_and_give_little(blob: str) -> None:
    assert len(terms(blob).encode("utf-8")) <= MAX_BYTES


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("How long is a hold?", Script.LATIN),
        ("知识库多久复核一次", Script.CJK),
        ("Kubernetes 怎么扩容", Script.CJK),
        ("The word 知 appears here", Script.LATIN),
        ("안녕하세요", Script.CJK),
        ("Привет", Script.OTHER),
        ("2024-01-15 😀", Script.NONE),
        ("", Script.NONE),
    ],
)
def test_script_is_that_of_most_letters(text: str, script: Script) -> None:
    assert script_of(text) is script


def test_threads_agree() -> None:
    texts = [f"知识库 number {n} running-shoes 人工智能" for n in range(200)]
    expected = [terms(text) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(terms, texts)) == expected


def test_analysis_is_silent_and_leaves_no_file(tmp_path: Path) -> None:
    code = "from kb.terms import terms; assert terms('知识库 running') == '知识 知识库 run'"
    env = {"TMPDIR": str(tmp_path), "HOME": str(tmp_path), "PATH": "", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, check=True, env=env, cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("", "")
    assert list(tmp_path.iterdir()) == []
