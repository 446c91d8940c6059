"""The spool gives up what erasure asks for, in whatever form it is kept."""

from __future__ import annotations

import pytest

from crag_runtime.recording.spool import ASIDE, FOLDER, Spool


def kept(tmp_path):
    return sorted(path.name for path in (tmp_path / FOLDER).iterdir())


@pytest.fixture
def spool(tmp_path):
    made = Spool(tmp_path)
    for name, cited in (("a1", "m-1"), ("a2", "m-2"), ("a3", "m-1")):
        assert made.put(name, {"citations": [{"id": cited}]})
    made.put_aside("a3", "refused")
    (tmp_path / FOLDER / ".a4.77").write_text('{"citations": [{"id": "m-1"')  # its process died
    return made


def test_what_speaks_of_a_memory_is_found_waiting_put_aside_and_half_written(spool):
    assert spool.mentioning(["m-1"]) == ["a1", "a3", "a4"]
    assert spool.mentioning(["m-2"]) == ["a2"]
    assert spool.mentioning(["m-1", "m-2"]) == ["a1", "a2", "a3", "a4"]
    assert spool.mentioning(["m-3"]) == spool.mentioning([]) == []


def test_dropping_it_leaves_nothing_of_it(spool, tmp_path):
    for name in spool.mentioning(["m-1"]):
        assert spool.drop(name)
    assert spool.mentioning(["m-1"]) == []
    assert kept(tmp_path) == ["a2.json"]
    assert spool.drop("never kept")


def test_what_cannot_be_read_may_speak_of_anything(spool, tmp_path):
    (tmp_path / FOLDER / "a5.json").mkdir()
    assert spool.mentioning(["m-3"]) == ["a5"]
    assert not spool.drop("a5")


def test_an_empty_spool_speaks_of_nothing(tmp_path):
    assert Spool(tmp_path).mentioning(["m"]) == []


def test_ids_of_any_spelling_are_found(tmp_path):
    spool = Spool(tmp_path)
    spool.put("a", {"id": '内"存'})
    assert spool.mentioning(['内"存']) == ["a"]


@pytest.mark.parametrize("data", [{"x": {1}}, {"x": object()}])
def test_what_is_no_json_is_lost_and_said_and_leaves_nothing(tmp_path, data):
    spool = Spool(tmp_path)
    assert not spool.put("a", data)
    assert kept(tmp_path) == []
    assert ASIDE not in "".join(kept(tmp_path))
