"""What a walk finds, leaves out and survives."""

from __future__ import annotations

import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

from ingest.walk import FoundFile, Scan, SkipReason, WalkRules, read_file, walk
from kb.errors import DocumentError, FailureCode

ROOT = Path(__file__).parents[3]


def plant(root: Path, *relatives: str, text: str = "x") -> None:
    for relative in relatives:
        path = root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def found(scan: Scan) -> list[str]:
    return [f.relative for f in scan.files]


def skipped(scan: Scan) -> list[tuple[str, str]]:
    return [(s.relative, s.reason) for s in scan.skipped]


def look(root: Path, within: str = "", **rules: object) -> Scan:
    return walk(root, WalkRules(**rules), within=within)  # type: ignore[arg-type]  # whatever the test narrows


def test_files_are_sorted_and_described(tmp_path: Path) -> None:
    plant(tmp_path, "b.md", "a/z.md", "a/b/c.md", text="four")
    scan = look(tmp_path)
    assert found(scan) == ["a/b/c.md", "a/z.md", "b.md"]
    facts = (tmp_path / "b.md").stat()
    assert scan.files[-1] == FoundFile(
        relative="b.md",
        path=tmp_path / "b.md",
        size=4,
        mtime_ns=facts.st_mtime_ns,
        inode=facts.st_ino,
        device=facts.st_dev,
    )
    assert scan.complete
    assert not scan.single


def test_what_nobody_wrote_is_left_out_by_default(tmp_path: Path) -> None:
    plant(tmp_path, ".git/x.md", ".hidden/x.md", ".env", "node_modules/x.md", "p/__pycache__/x", "n.md~", ".n.md.swp")
    plant(tmp_path, "py/pyvenv.cfg", "py/lib/x.md", ".kbignore", ".kb.yaml", "a.md", text="")
    assert found(look(tmp_path)) == ["a.md"]
    assert skipped(look(tmp_path)) == []


def test_a_kbignore_brings_back_what_the_defaults_leave_out_but_never_git(tmp_path: Path) -> None:
    plant(tmp_path, ".github/x.md", ".git/x.md")
    plant(tmp_path, ".kbignore", text="!.github/\n!.git/\n")
    assert found(look(tmp_path)) == [".github/x.md"]


def test_nested_ignore_files_are_stronger_inside_their_folder(tmp_path: Path) -> None:
    plant(tmp_path, "a.txt", "sub/a.txt", "sub/keep.txt", "sub/deep/keep.txt", "gone/keep.txt")
    plant(tmp_path, ".kbignore", text="*.txt\ngone/\n")
    plant(tmp_path, "sub/.kbignore", text="!keep.txt\n")
    plant(tmp_path, "gone/.kbignore", text="!keep.txt\n")
    assert found(look(tmp_path)) == ["sub/deep/keep.txt", "sub/keep.txt"]


def test_an_ignore_file_may_have_a_mark_and_carriage_returns(tmp_path: Path) -> None:
    plant(tmp_path, "a.txt", "b.md")
    (tmp_path / ".kbignore").write_bytes("\ufeff*.txt\r\n".encode())
    assert found(look(tmp_path)) == ["b.md"]


def test_includes_narrow_and_excludes_win(tmp_path: Path) -> None:
    plant(tmp_path, "docs/a.md", "docs/b.txt", "src/a.md")
    assert found(look(tmp_path, include=("docs/",))) == ["docs/a.md", "docs/b.txt"]
    assert found(look(tmp_path, include=("*.md",), exclude=("src/",))) == ["docs/a.md"]


def test_one_file_tells_nothing_of_others_and_is_taken_whatever_the_rules(tmp_path: Path) -> None:
    plant(tmp_path, "a.md", "b.md")
    plant(tmp_path, ".kbignore", text="*.md\n")
    for scan in (look(tmp_path / "a.md"), look(tmp_path, "a.md")):
        assert found(scan) == ["a.md"]
        assert scan.single
        assert not scan.complete


def test_a_part_of_the_root_keeps_the_rules_above_it(tmp_path: Path) -> None:
    plant(tmp_path, "sub/a.md", "sub/b.txt", "other/a.md")
    plant(tmp_path, ".kbignore", text="*.txt\n")
    scan = look(tmp_path, "sub/")
    assert found(scan) == ["sub/a.md"]
    assert scan.complete


def test_links_are_followed_inside_the_root_only(tmp_path: Path) -> None:
    root = tmp_path / "root"
    plant(root, "real/a.md", ".hidden/b.md")
    plant(tmp_path, "outside/c.md")
    (root / "again").symlink_to("real")
    (root / "shown").symlink_to(".hidden")
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "out.md").symlink_to(tmp_path / "outside" / "c.md")
    (root / "nothing").symlink_to("missing")
    (root / "self").symlink_to("self")
    (root / "real" / "up").symlink_to("..")
    (root / "copy.md").symlink_to("real/a.md")
    scan = look(root)
    assert found(scan) == ["real/a.md", "shown/b.md"]
    assert skipped(scan) == [
        ("again", SkipReason.LINK_REPEATED),
        ("copy.md", SkipReason.LINK_REPEATED),
        ("nothing", SkipReason.LINK_DANGLING),
        ("out", SkipReason.LINK_OUTSIDE),
        ("out.md", SkipReason.LINK_OUTSIDE),
        ("real/up", SkipReason.LINK_LOOP),
        ("self", SkipReason.LINK_LOOP),
    ]
    assert scan.complete


def test_links_that_lead_to_each_other_end(tmp_path: Path) -> None:
    plant(tmp_path, ".one/a.md", ".two/b.md")
    (tmp_path / ".one" / "two").symlink_to("../.two")
    (tmp_path / ".two" / "one").symlink_to("../.one")
    (tmp_path / "start").symlink_to(".one")
    scan = look(tmp_path)
    assert found(scan) == ["start/a.md", "start/two/b.md"]
    assert skipped(scan) == [("start/two/one", SkipReason.LINK_REPEATED)]


def test_a_link_to_the_root_from_the_root_is_a_loop(tmp_path: Path) -> None:
    plant(tmp_path, "a.md")
    (tmp_path / "me").symlink_to(tmp_path)
    assert skipped(look(tmp_path)) == [("me", SkipReason.LINK_LOOP)]


def test_special_files_are_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "link.md").symlink_to("pipe.md")
    scan = look(tmp_path)
    assert found(scan) == []
    assert skipped(scan) == [("link.md", SkipReason.SPECIAL_FILE), ("pipe.md", SkipReason.SPECIAL_FILE)]


def test_a_fifo_named_like_an_ignore_file_does_not_hang_the_walk(tmp_path: Path) -> None:
    plant(tmp_path, "a.md")
    os.mkfifo(tmp_path / ".kbignore")
    assert found(look(tmp_path)) == ["a.md"]


def test_large_files_are_skipped_with_a_reason(tmp_path: Path) -> None:
    plant(tmp_path, "a.md", text="xxxxx")
    assert skipped(look(tmp_path, max_bytes=4)) == [("a.md", SkipReason.TOO_LARGE)]
    assert found(look(tmp_path, max_bytes=5)) == ["a.md"]


def test_names_that_are_no_utf8_are_reported(tmp_path: Path) -> None:
    os.close(os.open(os.fsencode(tmp_path) + b"/caf\xe9.md", os.O_CREAT | os.O_WRONLY))
    plant(tmp_path, "a.md")
    scan = look(tmp_path)
    assert found(scan) == ["a.md"]
    assert skipped(scan) == [("caf\\xe9.md", SkipReason.NAME_ENCODING)]


def test_two_spellings_of_one_name_are_one_document(tmp_path: Path) -> None:
    composed, decomposed = "é.md", unicodedata.normalize("NFD", "é.md")
    plant(tmp_path, decomposed)
    assert found(look(tmp_path)) == [composed]
    plant(tmp_path, composed, text="other")
    scan = look(tmp_path)
    assert [(f.relative, f.path.name) for f in scan.files] == [(composed, composed)]
    assert skipped(scan) == [(composed, SkipReason.NAME_REPEATED)]


def test_two_names_with_one_uri_are_one_document_the_one_without_backslashes(tmp_path: Path) -> None:
    plant(tmp_path, "a\\b.md", "c\\d.md")
    assert found(look(tmp_path)) == ["a\\b.md", "c\\d.md"]
    plant(tmp_path, "a/b.md")
    scan = look(tmp_path)
    assert found(scan) == ["a/b.md", "c\\d.md"]
    assert skipped(scan) == [("a\\b.md", SkipReason.NAME_REPEATED)]
    assert skipped(look(tmp_path, "a\\b.md")) == [("a\\b.md", SkipReason.NAME_REPEATED)]
    assert found(look(tmp_path, "c\\d.md")) == ["c\\d.md"]


def test_a_path_that_no_uri_could_hold_is_skipped_with_a_reason(tmp_path: Path) -> None:
    plant(tmp_path, "é.md", "ab.md", "abc.md")
    scan = look(tmp_path, max_name_bytes=5)
    assert found(scan) == ["ab.md", "é.md"]
    assert skipped(scan) == [("abc.md", SkipReason.NAME_TOO_LONG)]


def test_many_links_are_followed_in_the_order_of_their_names(tmp_path: Path) -> None:
    plant(tmp_path, ".kept/1.md", ".kept/2.md")
    for n in reversed(range(200)):
        (tmp_path / f"link{n:03}.md").symlink_to(f".kept/{n % 2 + 1}.md")
    scan = look(tmp_path)
    assert found(scan) == ["link000.md", "link001.md"]
    assert {reason for _, reason in skipped(scan)} == {SkipReason.LINK_REPEATED}


def test_a_part_may_be_named_in_nfc_whatever_the_disk_says(tmp_path: Path) -> None:
    folder = unicodedata.normalize("NFD", "é")
    plant(tmp_path, f"{folder}/a.md")
    assert found(look(tmp_path, "é/")) == ["é/a.md"]
    assert found(look(tmp_path, "é/a.md")) == ["é/a.md"]


def test_a_root_that_vanished_withholds_deletions(tmp_path: Path) -> None:
    scan = look(tmp_path / "gone")
    assert (found(scan), skipped(scan), scan.complete) == ([], [(".", SkipReason.VANISHED)], False)


def test_what_cannot_be_listed_or_read_is_said(tmp_path: Path) -> None:
    """Run as a user who is not root, whom permissions bind."""
    root = tmp_path / "root"
    plant(root, "open/a.md", "shut/b.md", "c.md", "blind/d.md", "blind/.kbignore")
    (root / "shut").chmod(0)
    (root / "c.md").chmod(0)
    (root / "blind" / ".kbignore").chmod(0)
    for path in (*root.parents, root):
        if path.is_relative_to(tmp_path.parents[2]):
            path.chmod(0o755)
    script = f"""
import os, sys
from pathlib import Path
from ingest.walk import WalkRules, read_file, walk
from kb.errors import DocumentError
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
scan = walk(Path({str(root)!r}), WalkRules())
print([f.relative for f in scan.files], [(s.relative, str(s.reason)) for s in scan.skipped], scan.complete)
try:
    read_file(scan.files[0], 10)
except DocumentError as error:
    print(error.code, error.hint != "")
"""
    ran = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    (root / "shut").chmod(0o755)
    assert ran.stdout.splitlines() == [
        "['c.md', 'open/a.md'] [('blind', 'unreadable_folder'), ('shut', 'unreadable_folder')] False",
        "permission True",
    ]


def only(root: Path) -> FoundFile:
    (file,) = look(root).files
    return file


def failure(file: FoundFile, max_bytes: int = 100) -> FailureCode:
    with pytest.raises(DocumentError) as caught:
        read_file(file, max_bytes)
    assert caught.value.hint
    return caught.value.code


def test_a_found_file_is_read(tmp_path: Path) -> None:
    plant(tmp_path, "a.md", text="hello")
    assert read_file(only(tmp_path), 5) == b"hello"
    assert failure(only(tmp_path), 4) is FailureCode.TOO_LARGE


def test_a_file_that_is_gone_has_vanished(tmp_path: Path) -> None:
    plant(tmp_path, "a.md")
    file = only(tmp_path)
    (tmp_path / "a.md").unlink()
    assert failure(file) is FailureCode.VANISHED


def test_another_file_in_its_place_is_not_read(tmp_path: Path) -> None:
    plant(tmp_path, "a.md")
    file = only(tmp_path)
    plant(tmp_path, "b.md", text="secret")
    (tmp_path / "b.md").replace(tmp_path / "a.md")
    assert failure(file) is FailureCode.VANISHED


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: Path(path).mkdir()])
def test_a_special_file_in_its_place_does_not_hang(tmp_path: Path, make) -> None:
    plant(tmp_path, "a.md")
    file = only(tmp_path)
    (tmp_path / "a.md").unlink()
    make(tmp_path / "a.md")
    assert failure(file) is FailureCode.VANISHED


def test_a_file_that_grows_while_it_is_read_has_changed(tmp_path: Path) -> None:
    writer = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys\nf = open(sys.argv[1], 'ab', 0)\nwhile True: f.write(b'x')",
            tmp_path / "a.md",
        ]
    )
    try:
        while not (tmp_path / "a.md").exists() or not (tmp_path / "a.md").stat().st_size:
            assert writer.poll() is None
        said = ""
        while not said:  # one attempt may fall between two writes
            try:
                read_file(only(tmp_path), 10**9)
            except DocumentError as error:
                said = str(error)
        assert "changing while it was read" in said
    finally:
        writer.kill()
        writer.wait()
