"""Odd file names are shown so that they can be told apart and used again (WTR-12)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tools.kit import Workshop

from drawbar.tools.names import given_path, shown

any_name = st.binary(min_size=1, max_size=30).filter(lambda raw: b"\0" not in raw).map(os.fsdecode)
readable = st.text(st.sampled_from('ab \\"\n\té日\u202e\u00a0\udcff[]x{}u41'), min_size=1, max_size=12)


@pytest.mark.bug("WTR-12")
@given(any_name | readable)
def test_a_shown_name_leads_back_to_the_same_name(path: str) -> None:
    text = shown(path)
    assert given_path(text) == path
    text.encode("utf-8")
    assert "\n" not in text


@pytest.mark.bug("WTR-12")
@given(any_name | readable, any_name | readable)
def test_two_names_never_look_the_same(first: str, second: str) -> None:
    assert (shown(first) == shown(second)) == (first == second)


@pytest.mark.bug("WTR-12")
@pytest.mark.parametrize("name", ["café ü.txt", "日本語.md", 'with "quote".txt', "a", "it's", "a\\nb", "👩‍💻.py"])
def test_ordinary_names_are_shown_to_the_letter(name: str) -> None:
    assert shown(name) == name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a\nb", '"a\\nb"'),
        (os.fsdecode(b"caf\xe9"), '"caf\\xe9"'),
        ('"x"', '"\\"x\\""'),
        ("at 3\u202fPM.png", '"at 3\\u202fPM.png"'),
        ('"é"', '"\\"é\\""'),
        (" lead", '" lead"'),
        ("é ", '"é "'),
        ("\u202egpj.exe", '"\\u202egpj.exe"'),
    ],
)
def test_odd_names_are_quoted(name: str, text: str) -> None:
    assert shown(name) == text


@pytest.mark.parametrize("text", ['"', '"a', 'a"', '"a"b"', '"\\q"', '"\\x4"', '"\\ud800"', '"\\xzz"'])
def test_what_only_looks_quoted_is_taken_as_it_stands(text: str) -> None:
    assert given_path(text) == text


@pytest.mark.bug("WTR-12")
@pytest.mark.clause("QLT-1")
async def test_names_of_any_bytes_go_through_every_tool(workshop: Workshop) -> None:
    names = [
        b"caf\xc3\xa9 \xc3\xbc.txt",
        "日本語.md".encode(),
        b'with "quote".txt',
        b"new\nline",
        b"bad\xff\xfe",
        b" sp ",
    ]
    bench = workshop.bench()
    for raw in names:
        Path(os.fsdecode(os.fsencode(bench.root) + b"/" + raw)).write_text("needle\n")
    for tool, arguments in (("ls", {}), ("find", {"pattern": "*"})):
        listed = [line for line in (await bench.text(tool, **arguments)).splitlines() if not line.startswith("[")]
        assert sorted(os.fsencode(given_path(line)) for line in listed) == sorted(names)
        for line in listed:
            assert await bench.text("read", path=line) == "needle\n"
    found = (await bench.text("grep", pattern="needle")).splitlines()
    assert sorted(os.fsencode(given_path(line.rpartition(":1: ")[0])) for line in found) == sorted(names)
    edited = await bench.call("edit", path='"bad\\xff\\xfe"', edits=[{"oldText": "needle", "newText": "thread"}])
    assert not edited.is_error
    assert Path(os.fsdecode(os.fsencode(bench.root) + b"/bad\xff\xfe")).read_text() == "thread\n"
    (bench.folder / "events.jsonl").read_bytes().decode("utf-8")
