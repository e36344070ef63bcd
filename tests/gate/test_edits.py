"""Edits change only what they say, whatever line ends, marks and encodings the file has (QLT-10, ENG-6)."""

from __future__ import annotations

import json
import re
import subprocess
import unicodedata

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tests.gate.kit import FIXTURES

from drawbar.boundary.diffs import unified_diff
from drawbar.boundary.edit_match import Haystack, fold
from drawbar.boundary.edits import EditFailed, edit_bytes
from drawbar.boundary.text_files import read_text


def edited(old: bytes | str, *edits: tuple[str, str]) -> bytes:
    return edit_bytes(old if isinstance(old, bytes) else old.encode(), edits).data


def reason(old: bytes | str, *edits: tuple[str, str]) -> tuple[str, str]:
    with pytest.raises(EditFailed) as caught:
        edited(old, *edits)
    return caught.value.facts["reason"], caught.value.message


@pytest.mark.clause("QLT-10", "ENG-6")
@pytest.mark.bug("EDT-01", "EDT-02", "EDT-03")
@pytest.mark.parametrize("name", ["EDT-01", "EDT-02", "EDT-03"])
def test_reported_files(name: str) -> None:
    folder = FIXTURES / name
    edit = json.loads((folder / "edit.json").read_text())
    before, after = (folder / "file.txt").read_bytes(), (folder / "after.txt").read_bytes()
    assert edited(before, (edit["old"], edit["new"])) == after


@pytest.mark.clause("QLT-10")
@pytest.mark.bug("EDT-09")
@pytest.mark.parametrize("patch", ["lf.patch", "crlf.patch"])
def test_a_patch_with_either_line_end_gives_the_same_file(patch: str) -> None:
    folder = FIXTURES / "EDT-09"
    text = (folder / patch).read_bytes().decode()
    lines = re.findall(r"^([ +-])(?![+-]{2} )(.*\n)", text, re.MULTILINE)
    old = "".join(line for sign, line in lines if sign in " -")
    new = "".join(line for sign, line in lines if sign in " +")
    assert edited((folder / "file.txt").read_bytes(), (old, new)) == (folder / "after.txt").read_bytes()


@pytest.mark.clause("QLT-10")
def test_a_failed_edit_says_why_and_changes_nothing() -> None:
    text = "alpha\nbeta\nalpha\ngamma delta\n"
    assert reason(text, ("", "x"))[0] == "empty"
    assert reason(text)[0] == "empty"
    assert reason(text, ("beta", "beta"))[0] == "no_change"
    why, message = reason(text, ("alpha", "x"))
    assert (why, "2 times (lines 1, 3)" in message) == ("several", True)
    why, message = reason(text, ("gama delta", "x"))
    assert why == "not_found"
    assert "line 4" in message
    assert "gamma delta" in message
    assert "read the file again" in reason(text, ("zzzzz qqqq", "x"))[1]
    assert reason("aaa", ("aa", "b"))[0] == "several"
    why, message = reason(text, ("beta\nalpha", "x"), ("alpha\ngamma", "y"))
    assert (why, "edits 1 and 2 of 2 overlap at line 3" in message) == ("overlap", True)
    assert "edit 2 of 2" in reason(text, ("beta", "x"), ("nothing", "y"))[1]
    assert reason(text, ("beta", "x"), ("beta", "y"))[0] == "overlap"


@pytest.mark.clause("QLT-10", "ENG-6")
def test_several_edits_are_all_found_in_the_original() -> None:
    assert edited("one two three", ("three", "one"), ("one", "two"), ("two", "three")) == b"two three one"
    assert edited("ab", ("a", "b"), ("b", "a")) == b"ba"
    outcome = edit_bytes(b"1\n2\n3\n", [("3", "c"), ("1", "a")])
    assert (outcome.data, outcome.replaced, outcome.tolerant, outcome.first_changed_line) == (b"a\n2\nc\n", 2, 0, 1)


@pytest.mark.clause("ENG-6", "QLT-10")
@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        # white space at line ends, in the file or in what the model sends
        ("a  \nb\t\nc\n", "a\nb", "x\nb", "x  \nb\t\nc\n"),
        ("a\nb\nc\n", "a  \nb  \n", "a  \nx  \n", "a\nx\nc\n"),
        ("a  \nb\n", "a\nb", "a\nc", "a  \nc\n"),
        # typographic characters
        ("say “hi”\nfoo\n", 'say "hi"\nfoo', 'say "hi"\nbar', "say “hi”\nbar\n"),
        ("it’s – fine\n", "it's - fine", "it's - good", "it’s – good\n"),
        ("a\u00a0b\u202fc\n", "a b c", "a b d", "a\u00a0b\u202fd\n"),
        ("x — y\n", "x - y", "x - z", "x — z\n"),
        # compatibility forms
        ("ﬁle ½ ①\n", "file 1⁄2 1", "file 1⁄2 2", "ﬁle ½ 2\n"),
        ("ｆｕｌｌ width\n", "full width", "full wide", "ｆｕｌｌ wide\n"),
        (unicodedata.normalize("NFD", "café au lait\n"), "café au lait", "café au thé", "cafe\u0301 au thé\n"),
        # the repeated lines around a change keep their own bytes
        (
            "“one”  \ntwo\n“three”\t\n",
            '"one"\ntwo\n"three"',
            '"one"\nTWO\nmore\n"three"',
            "“one”  \nTWO\nmore\n“three”\t\n",
        ),
    ],
)
def test_tolerant_edits_keep_every_byte_that_is_repeated(before: str, old: str, new: str, after: str) -> None:
    outcome = edit_bytes(before.encode(), [(old, new)])
    assert outcome.data.decode() == after
    assert outcome.tolerant == 1


@pytest.mark.clause("ENG-6")
def test_an_exact_match_is_preferred_and_a_tolerant_one_must_be_the_only_one() -> None:
    assert edited('“a”\n"a"\n', ('"a"', "b")) == "“a”\nb\n".encode()
    assert reason("“a”\n„a‟\n", ('"a"', "b"))[0] == "several"
    assert reason("ﬁx", ("f", "g"))[0] == "not_found", "a match never splits a character of the file"
    assert reason("a  b", ("a b", "c"))[0] == "not_found", "white space inside a line counts"
    assert reason("  a", ("\ta", "c"))[0] == "not_found"


@pytest.mark.clause("QLT-10")
@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\nc\r\n", "a\nb\nc", "a\nB\nc", b"a\r\nB\nc\r\n"),
        (b"a\r\nb\nc\r\n", "b", "b1\nb2", b"a\r\nb1\nb2\nc\r\n"),
        (b"a\r\nb\r\n", "a", "a1\na2\na3", b"a1\r\na2\r\na3\r\nb\r\n"),
        (b"a\r\nb", "b", "b\nc\n", b"a\r\nb\r\nc\r\n"),
        (b"a\nb", "b", "b\nc", b"a\nb\nc"),
        (b"a\r\nb\r\nc\r\n", "a\r\nb\r\n", "x\ny\n", b"x\r\ny\r\nc\r\n"),
        (b"a\nb\n", "a\r\nb", "x\r\ny", b"x\ny\n"),
        (b"a\r\nb\r\nc\r\n", "b\n", "", b"a\r\nc\r\n"),
        (b"a\rb\rc", "b", "x\ny", b"a\rx\ry\rc"),
        (b"progress\r50%\rdone\nnext\n", "next", "last", b"progress\r50%\rdone\nlast\n"),
        (b"only", "only", "one\ntwo", b"one\ntwo"),
    ],
)
def test_every_line_keeps_its_own_end(before: bytes, old: str, new: str, after: bytes) -> None:
    assert edited(before, (old, new)) == after


@pytest.mark.clause("QLT-10")
@pytest.mark.bug("EDT-03")
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_encodings_and_marks_stay(encoding: str) -> None:
    mark = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}.get(encoding, b"")
    before, after = ("first ä 日\r\nsecond\r\n", "first ö 本\r\nnew\r\nsecond\r\n")
    wanted = mark + after.encode(encoding)
    assert edited(mark + before.encode(encoding), ("first ä 日", "first ö 本\nnew")) == wanted
    if mark or encoding != "utf-8":
        assert "\ufeff" not in read_text(wanted).text, "the mark isn't shown"


@pytest.mark.clause("QLT-10")
def test_bytes_that_are_no_text_stay_and_new_ones_are_not_guessed() -> None:
    latin = b"caf\xe9 = 1\nother = 2\n"
    assert edited(latin, ("other = 2", "other = 3")) == b"caf\xe9 = 1\nother = 3\n"
    assert reason(latin, ("other", "autre é"))[0] == "encoding"
    assert edited(b"\x00\x01binary\xff tail", ("tail", "end")) == b"\x00\x01binary\xff end"
    assert reason(b"\xff\xfea\x00b", ("a", "b"))[0] == "encoding"
    assert reason("\ufeffx".encode("utf-16-le"), ("x", "\ud800"))[0] == "encoding"


LINES = st.lists(st.text(st.sampled_from("ab “\"'’–-\u00a0ﬁéx\u0301日\t"), max_size=6), min_size=1, max_size=8)
ENDS = st.sampled_from(["\n", "\r\n"])


@st.composite
def files(draw: st.DrawFn) -> str:
    return "".join(line + draw(ENDS) for line in draw(LINES)) + draw(st.sampled_from(["", "tail"]))


def spans(text: str, old: str) -> list[int]:
    return [at for at in range(len(text)) if text.startswith(old, at)]


@pytest.mark.clause("QLT-10")
@given(text=files(), data=st.data(), new=st.text(st.sampled_from("ab\n “é"), max_size=12))
@settings(max_examples=600)
def test_an_exact_edit_is_a_plain_replacement_and_no_byte_outside_it_changes(
    text: str, data: st.DataObject, new: str
) -> None:
    """Against the simplest thing that could be right: replace in the text with plain line ends."""
    view = text.replace("\r\n", "\n")
    start = data.draw(st.integers(0, len(view) - 1))
    end = data.draw(st.integers(start + 1, len(view)))
    old = view[start:end]
    assume(old != new)
    before = text.encode()
    if len(spans(view, old)) > 1:
        assert reason(before, (old, new))[0] == "several"
        return
    try:
        after = edited(before, (old, new))
    except EditFailed:
        assert view[:start] + new + view[end:] == view
        return
    assert after.decode().replace("\r\n", "\n") == view[:start] + new + view[end:]
    haystack = Haystack(text)
    head, tail = text[: haystack.offset(start)].encode(), text[haystack.offset(end) :].encode()
    assert after.startswith(head)
    assert after.endswith(tail)


@pytest.mark.clause("ENG-6", "QLT-10")
@given(text=files(), data=st.data())
@settings(max_examples=600)
def test_a_tolerant_edit_of_one_line_leaves_all_others(text: str, data: st.DataObject) -> None:
    """The model sends the folded form of a few lines and changes one: every other byte of the file stays."""
    lines = text.replace("\r\n", "\n").split("\n")
    first = data.draw(st.integers(0, len(lines) - 1))
    last = data.draw(st.integers(first, len(lines) - 1))
    changed = data.draw(st.integers(first, last))
    old_lines = [fold(line) for line in lines[first : last + 1]]
    new_lines = list(old_lines)
    new_lines[changed - first] = "CHANGED"
    try:
        after = edited(text, ("\n".join(old_lines), "\n".join(new_lines)))
    except EditFailed:
        return
    ends = re.findall(r"\r\n|\n", text)
    got_ends = re.findall(r"\r\n|\n", after.decode())
    got = after.decode().replace("\r\n", "\n").split("\n")
    assert got_ends == ends
    assert len(got) == len(lines)
    differing = [number for number, (a, b) in enumerate(zip(lines, got, strict=True)) if a != b]
    assert len(differing) <= 1
    for number in differing:
        assert "CHANGED" in got[number]


@pytest.mark.clause("ENG-6", "QLT-10")
@given(
    text=st.text(max_size=60),
    edits=st.lists(st.tuples(st.text(max_size=8), st.text(max_size=8)), min_size=1, max_size=3),
)
@settings(max_examples=400)
@example(text="e\u0301x", edits=[("e\u0301x", "ex")])
@example(text="\u1112\u1161\u11ab", edits=[("한", "글")])
def test_any_edit_of_any_text_gives_bytes_or_a_reason(text: str, edits: list[tuple[str, str]]) -> None:
    before = text.encode("utf-8", "surrogatepass")
    try:
        outcome = edit_bytes(before, edits)
    except EditFailed:
        return
    assert outcome.data != before
    assert outcome.diff


@pytest.mark.clause("QLT-10")
@given(st.binary(max_size=80))
@example(b"\xff\xfea\x00\r\x00\n\x00")
@example(b"\xef\xbb\xbf\xff")
def test_reading_as_text_loses_nothing(data: bytes) -> None:
    try:
        file = read_text(data)
    except ValueError:
        assert data[:2] in (b"\xff\xfe", b"\xfe\xff", b"\x00\x00")
        return
    assert file.encode(file.text) == data


TEXTS = st.lists(st.sampled_from(["a", "b", "c", "", "long line", "d\r", "é"]), max_size=14).map("\n".join)


@pytest.mark.clause("QLT-10")
@given(before=TEXTS, after=TEXTS, ended=st.booleans())
@settings(max_examples=80, deadline=None)
@example(before="a\n" * 20, after="a\n" * 9 + "b\n" + "a\n" * 10, ended=False)
@example(before="", after="new", ended=False)
@example(before="gone", after="", ended=True)
def test_git_applies_the_reported_diff(
    tmp_path_factory: pytest.TempPathFactory, before: str, after: str, ended: bool
) -> None:
    """The diff is true: applied to the old file by another program it gives the new one."""
    if ended:
        before, after = before + "\n", after + "\n"
    folder = tmp_path_factory.mktemp("diff")
    (folder / "f").write_bytes(before.encode())
    diff = unified_diff(before.encode(), after.encode(), path="f")
    assert bool(diff) == (before != after)
    if not diff:
        return
    argv = ["git", "apply", "--unidiff-zero", "--whitespace=nowarn", "-"]
    done = subprocess.run(argv, cwd=folder, input=diff.encode(), capture_output=True)
    assert done.returncode == 0, (done.stderr, diff)
    assert (folder / "f").read_bytes() == after.encode()


@pytest.mark.clause("QLT-10")
def test_a_diff_of_what_is_no_text_is_still_one() -> None:
    assert "\ufffd" in unified_diff(b"a\xff\n", b"b\xff\n", path="f")
    assert unified_diff(b"\xff\xfea", b"\xff\xfeb", path="f").startswith("--- a/f\n+++ b/f\n@@ -1 +1 @@\n")
    assert "\\ No newline at end of file" in unified_diff(b"a", b"b", path="f")


@pytest.mark.clause("QLT-10")
def test_a_diff_of_two_large_files_stays_quick() -> None:
    before = b"".join(b"line %d\n" % number for number in range(20_000))
    after = b"".join(b"other %d\n" % number for number in range(20_000))
    diff = unified_diff(before, after, path="f")
    assert diff.count("\n-") == diff.count("\n+") - 1 == 20_000
