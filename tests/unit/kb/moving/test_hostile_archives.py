"""An archive that is damaged, changed or meant to harm is refused, and nothing of it is unpacked."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from kb.errors import InputError, Refused
from kb.ledger.migrations import HEAD
from kb.ledger.portable import shape_at_head
from kb.moving.importing import looked_through
from kb.moving.manifest import MANIFEST, Manifest, parsed
from kb.moving.reading import reading
from kb.moving.writing import MAX_ROW_BYTES, writing
from tests.moving import rewritten, with_digest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TENANTS = "tenants.jsonl.gz"
ROWS = [{"name": name, "created_at": n} for n, name in enumerate(("acme", "beta", "中文"))]


def an_archive(target: Path, rows: list[dict[str, Any]] | None = None, table: str = "tenants") -> Path:
    with writing(target) as archive:
        file = archive.add(table, shape_at_head(table), ROWS if rows is None else rows)
        archive.seal(
            Manifest(
                schema=HEAD,
                product="1",
                created_at="2026-01-01T00:00:00Z",
                tenant=None,
                space=None,
                trust={"gate": 0.7},
                tables={table: file},
                left_out={"outbox": "not needed"},
            )
        )
    return target


def packed(folder: Path, data: bytes, **said: int) -> None:
    """Put other bytes into the file, and let the manifest vouch for them."""
    import hashlib

    packed_data = gzip.compress(data, mtime=0)
    (folder / TENANTS).write_bytes(packed_data)
    true = {"size": len(packed_data), "unpacked": len(data), "sha256": hashlib.sha256(packed_data).hexdigest()}
    rewritten(folder, lambda m: m["tables"]["tenants"].update({**true, "rows": data.count(b"\n"), **said}))


def line(**row: Any) -> bytes:
    return json.dumps(row).encode() + b"\n"


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(bytes(data))


def test_a_sound_archive_is_read_as_it_was_written(tmp_path: Path) -> None:
    for name in ("a", "a.tar"):
        with reading(an_archive(tmp_path / name)) as archive:
            assert [row for _, row in archive.rows("tenants")] == ROWS


def test_any_byte_that_is_changed_is_noticed(tmp_path: Path) -> None:
    folder = an_archive(tmp_path / "a")
    for name in (TENANTS, MANIFEST):
        whole = (folder / name).read_bytes()
        for at in range(0, len(whole), max(1, len(whole) // 60)):
            flip(folder / name, at)
            with pytest.raises(Refused):
                looked_through(folder)
            (folder / name).write_bytes(whole)
    assert looked_through(folder).tables["tenants"].rows == len(ROWS)


def test_an_archive_that_is_cut_off_anywhere_is_noticed(tmp_path: Path) -> None:
    whole = an_archive(tmp_path / "a.tar").read_bytes()
    content = len(whole) - len(whole) % 512
    for length in range(0, content, 256):
        (tmp_path / "b.tar").write_bytes(whole[:length])
        if any(whole[length:]):  # a tar ends in empty blocks: those may be missing
            with pytest.raises((Refused, InputError)):
                looked_through(tmp_path / "b.tar")
    folder = an_archive(tmp_path / "c")
    (folder / MANIFEST).unlink()
    with pytest.raises(Refused, match="only the beginning"):
        looked_through(folder)


def member(name: str, **changes: Any) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    for key, value in changes.items():
        setattr(entry, key, value)
    return entry


@pytest.mark.parametrize(
    "odd",
    [
        member("../evil.jsonl.gz"),
        member("/etc/evil"),
        member("sub/tenants.jsonl.gz"),
        member("./manifest.json"),
        member("..\\evil"),
        member("outbox.jsonl.gz"),
        member(TENANTS),
        member(MANIFEST),
        member("memories.jsonl.gz", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        member("memories.jsonl.gz", type=tarfile.LNKTYPE, linkname=TENANTS),
        member("memories.jsonl.gz", type=tarfile.FIFOTYPE),
        member("memories.jsonl.gz", type=tarfile.CHRTYPE),
        member("memories.jsonl.gz", type=tarfile.DIRTYPE),
        member("memories.jsonl.gz", type=tarfile.GNUTYPE_SPARSE),
        member("x" * 300),
    ],
    ids=lambda m: f"{m.name[:20]} {m.type.decode()}",
)
def test_a_tar_with_any_other_member_is_refused_and_leaves_nothing(tmp_path: Path, odd: tarfile.TarInfo) -> None:
    folder = an_archive(tmp_path / "a")
    inside = tmp_path / "inside"
    inside.mkdir()
    with tarfile.open(inside / "b.tar", "w") as tar:
        for name in (TENANTS, MANIFEST):
            tar.add(folder / name, name)
        tar.addfile(odd, io.BytesIO())
    with pytest.raises(Refused):
        looked_through(inside / "b.tar")
    assert [p.name for p in inside.iterdir()] == ["b.tar"]


def test_a_tar_whose_sizes_lie_is_refused(tmp_path: Path) -> None:
    path = an_archive(tmp_path / "a.tar")
    whole = path.read_bytes()
    for size in (1 << 40, len(whole), -1):
        header = tarfile.TarInfo(TENANTS)
        header.size = size
        block = header.tobuf(tarfile.GNU_FORMAT)[:512]
        path.write_bytes(block + whole[512:])
        with pytest.raises(Refused):
            looked_through(path)


def linked(folder: Path) -> None:
    (folder / TENANTS).rename(folder.parent / "elsewhere")
    (folder / TENANTS).symlink_to(folder.parent / "elsewhere")


def piped(folder: Path) -> None:
    (folder / TENANTS).unlink()
    os.mkfifo(folder / TENANTS)


def joined(folder: Path) -> None:
    (folder / "memories.jsonl.gz").write_bytes(b"")


def nested(folder: Path) -> None:
    (folder / "more").mkdir()


@pytest.mark.parametrize("harm", [linked, piped, joined, nested])
def test_a_folder_with_a_link_a_pipe_or_anything_more_is_refused(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    folder = an_archive(tmp_path / "a")
    harm(folder)
    with pytest.raises(Refused):
        looked_through(folder)


def test_a_part_of_another_archive_is_no_part_of_this_one(tmp_path: Path) -> None:
    folder, tables = tmp_path / "a", ("tenants", "sources")
    rows = {"tenants": ROWS, "sources": []}
    others = {"tenants": [{**row, "created_at": row["created_at"] + 5} for row in ROWS], "sources": []}
    for target, of in ((folder, rows), (tmp_path / "b", others)):
        with writing(target) as archive:
            files = {name: archive.add(name, shape_at_head(name), of[name]) for name in tables}
            said = {"schema": HEAD, "product": "1", "created_at": "", "tenant": None, "space": None, "trust": {}}
            archive.seal(Manifest(**said, tables=files))
    assert (folder / TENANTS).stat().st_size == (tmp_path / "b" / TENANTS).stat().st_size
    own = (folder / TENANTS).read_bytes()
    (folder / TENANTS).write_bytes((tmp_path / "b" / TENANTS).read_bytes())
    with pytest.raises(Refused, match="checksum differs"):
        looked_through(folder)
    (folder / TENANTS).write_bytes((folder / "sources.jsonl.gz").read_bytes())  # two of its own, swapped
    (folder / "sources.jsonl.gz").write_bytes(own)
    with pytest.raises(Refused):
        looked_through(folder)


def test_what_a_file_manager_leaves_is_passed_over(tmp_path: Path) -> None:
    folder = an_archive(tmp_path / "a")
    (folder / ".DS_Store").write_bytes(b"x")
    assert looked_through(folder).tables["tenants"].rows == len(ROWS)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\n" * 10, {}),
        (b"[1]\n", {}),
        (b"{\n", {}),
        (b"\xff\n", {}),
        (line(name="a"), {}),
        (line(name="a", created_at="1"), {}),
        (line(name="a", created_at=True), {}),
        (line(name="a", created_at=1.5), {}),
        (line(name="a", created_at=2**63), {}),
        (line(name="a\0", created_at=1), {}),
        (line(name="\ud800", created_at=1), {}),
        (line(name=None, created_at=1), {}),
        (line(name="a", created_at=1, more=1), {}),
        (b'{"name":"a","created_at":NaN}\n', {}),
        (b"[" * 100_000 + b"\n", {}),
        (b"9" * 5_000 + b"\n", {}),
        (line(name="a", created_at=1)[:-1], {}),
        (line(name="a", created_at=1), {"rows": 2}),
        (line(name="a", created_at=1), {"rows": 0}),
        (line(name="a", created_at=1), {"unpacked": 5}),
        (line(name="a", created_at=1), {"unpacked": 500}),
    ],
)
def test_a_file_that_the_manifest_vouches_for_is_still_read_row_by_row(
    tmp_path: Path, data: bytes, said: dict[str, int]
) -> None:
    folder = an_archive(tmp_path / "a")
    packed(folder, data, **said)
    with pytest.raises(Refused, match=r"tenants\.jsonl\.gz"):
        looked_through(folder)


def test_bombs_do_not_go_off(tmp_path: Path) -> None:
    folder = an_archive(tmp_path / "a")
    bomb = b"0" * (MAX_ROW_BYTES + (8 << 20))
    packed(folder, bomb)
    with pytest.raises(Refused, match=r"more than it says|no archive of kb does"):
        looked_through(folder)
    packed(folder, bomb, unpacked=100)
    with pytest.raises(Refused, match="more than it says"):
        looked_through(folder)
    packed(folder, b"", unpacked=10**15)
    with pytest.raises(Refused, match="no archive of kb does"):
        looked_through(folder)
    (folder / MANIFEST).write_bytes(b" " * (2 << 20))
    with pytest.raises(Refused, match="too long"):
        looked_through(folder)


@pytest.mark.parametrize(
    "change",
    [
        {"format": "zip"},
        {"format_version": 2},
        {"format_version": "1"},
        {"tables": []},
        {"tables": {"../evil": {}}},
        {"tables": {"tenants": {}}},
        {"embedder": 5},
        {"embedder": {"model": "m", "dim": -1, "weights": ""}},
        {"trust": {"gate": "high"}},
        {"left_out": None},
        {"created_at": 5},
        {"schema_revision": None},
    ],
)
def test_a_manifest_that_says_something_else_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    said = json.loads((an_archive(tmp_path / "a") / MANIFEST).read_text())
    with pytest.raises(Refused):
        parsed(with_digest({**said, **change}))


def test_a_path_in_the_manifest_leads_nowhere(tmp_path: Path) -> None:
    folder = an_archive(tmp_path / "a")
    rewritten(folder, lambda m: m["tables"]["tenants"].update(file="../../etc/passwd"))
    with pytest.raises(Refused, match="the file of tenants"):
        looked_through(folder)


def test_columns_and_tables_that_the_schema_does_not_have_are_refused(tmp_path: Path) -> None:
    folder = an_archive(tmp_path / "a")
    rewritten(folder, lambda m: m["tables"]["tenants"]["columns"].update(more="text?"))
    with pytest.raises(Refused, match="other columns"):
        looked_through(folder)
    with writing(tmp_path / "b") as archive:
        file = archive.add("outbox", {"seq": "integer"}, [{"seq": 1}])
        space = Manifest(
            schema=HEAD, product="1", created_at="", tenant=None, space=None, trust={}, tables={"outbox": file}
        )
        archive.seal(space)
    with pytest.raises(Refused, match="'outbox', which no ledger does"):
        looked_through(tmp_path / "b")


def test_what_is_no_archive_is_told(tmp_path: Path) -> None:
    (tmp_path / "text.tar").write_text("nothing of the kind " * 100)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty.tar").touch()
    for name in ("text.tar", "empty", "empty.tar", "missing"):
        with pytest.raises((Refused, InputError)):
            looked_through(tmp_path / name)
