"""Nothing that a terminal acts on or doesn't show gets a secret past the redactor (CON-32, QLT-20)."""

from __future__ import annotations

import asyncio
import re
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.tools.kit import SECRET, MadeUp, ScriptedGate, Workshop, allow

from drawbar.contracts.boundary import Verdict
from drawbar.contracts.tool import ToolCall, ToolContext, ToolResult
from drawbar.tools.escapes import PlainText, plain_text, plain_value

ZWJ = "\u200d"
SEQUENCES = [
    *("\x1b[m", "\x1b[K", "\x1b[01;31m", "\x1b[38:2::1:2:3m", "\x1b[?25l", "\x1b[2 q", "\x1b[>c", "\x1b[1@"),
    *("\x1b]0;a title\x07", "\x1b]8;;http://x/\x1b\\", "\x1b]0;t\x9c", "\x1bPq#0~\x1b\\", "\x1b_Ga=T;AA==\x1b\\"),
    *("\x1b^note\x1b\\", "\x1bXtext\x1b\\", "\x1b(B", "\x1b7", "\x1b=", "\x1bc", "\x1b#8", "\x1b\x1b[0m"),
    *("\x9b31m", "\x9d0;t\x07", "\x90q\x9c", "\x9fx\x9c", "\x85", "\x8d"),
    *("\x00", "\x07", "\x08", "\x0b", "\x0c", "\x0e", "\x0f", "\x18", "\x1a", "\x7f"),
    *"\u00ad\u200b\u200c\u200d\u200e\u200f\u202d\u202e\u2060\u2063\u2068\ufeff",
]
"""What stands between the letters of a word without parting them on a screen."""
FRAGMENTS = [
    *SEQUENCES,
    *("\x1b", "[", "]", "P", "(", ";", "3", "1", "m", "\\", "\x9b", "\x9d", "\x9c", " ", "\n", "\r", "\t", "a", "é"),
    *("😀", "ß", "\u200d\u200d", "\x1b[", "\x1b]", "\x1b ", "\ud83d", "\ude00", "ك"),
]
HIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\ufeff]")


@st.composite
def pieces(draw: st.DrawFn, text: str) -> list[str]:
    """``text`` in pieces, often of one character."""
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(text) - 1)), max_size=len(text))))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@st.composite
def sprinkled(draw: st.DrawFn, word: str) -> str:
    """``word`` as a screen would show it, with anything unseen before, between and after its characters."""
    unseen = st.lists(st.sampled_from(SEQUENCES), max_size=2).map("".join)
    return draw(unseen) + "".join(char + draw(unseen) for char in word)


@st.composite
def outputs(draw: st.DrawFn) -> tuple[str, list[str]]:
    """An output in which the secret is sprinkled, whole and in pieces."""
    around = st.lists(st.sampled_from(["key=", "x ", "é", "\n", "😀 ", "10%\r", "", "ok\r\n"]), max_size=2).map("".join)
    text = draw(around) + draw(sprinkled(SECRET)) + draw(around)
    return text, draw(pieces(text))


def joined(cut: list[str]) -> str:
    plain = PlainText()
    return "".join(map(plain.feed, cut))


@pytest.mark.clause("CON-32")
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join).flatmap(lambda text: pieces(text)))
@example(["\x1b[3", "1mx"])
@example(["👩", ZWJ, "\x1b[", "1", "m", "💻"])
@example(["é", "\x9d", "0;t"])
@example(["é", "\x1b[m", "\x9d", "0;t"])
@settings(max_examples=600, deadline=None)
def test_pieces_give_what_the_whole_gives_and_nothing_hidden_is_left(cut: list[str]) -> None:
    whole = plain_text("".join(cut))
    assert joined(cut) == whole
    assert not HIDDEN.search(whole)
    assert plain_text(whole) == whole


@pytest.mark.clause("CON-32")
@given(st.lists(st.sampled_from(SEQUENCES), min_size=1, max_size=3).map("".join), st.text("abc[]m;\\(3", max_size=9))
@settings(deadline=None)
def test_a_whole_sequence_takes_none_of_the_text_around_it(unseen: str, text: str) -> None:
    assert plain_text(f"{text}{unseen}{text}") == text + text


@pytest.mark.clause("ENG-6")
@pytest.mark.parametrize(
    "text",
    [
        "tab\there\nline\r\n10%\r20%",
        "Grüße, 你好, שלום, 10 €",
        "👩‍💻 👨‍👩‍👧 ❤️‍🔥 1️⃣ 🏳️‍🌈",
        "می‌خواهم क्‍ष",
        "C:\\[31m ]0;x ^[",
    ],
)
def test_ordinary_text_is_untouched(text: str) -> None:
    assert plain_text(text) == text
    assert joined(list(text)) == text


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (f"a{ZWJ}b", "ab"),
        (f"é{ZWJ}b{ZWJ}é", "ébé"),
        (f"{ZWJ}é{ZWJ}", "é"),
        # Of a string that doesn't end, at most its line is lost; of a sequence that is none, what belongs to it.
        ("\x1b]0;title\nnext line", "\nnext line"),
        ("a\x1b[12\nb", "a\nb"),
        ("a\x1b[3é", "aé"),
        ("a\x1b", "a"),
        # UTF-8 read as Latin-1 holds what looks like eight-bit sequences; its text stays.
        ("“so”, ‛so’ and Ý".encode().decode("latin-1"), "â\u00a0so"),
    ],
)
def test_what_is_no_whole_sequence_costs_little(raw: str, text: str) -> None:
    if text.startswith("â"):
        assert re.sub("[^a-z, ]", "", plain_text(raw)) == "so, so and "
    else:
        assert plain_text(raw) == text


@pytest.mark.clause("QLT-12")
@pytest.mark.parametrize(
    "piece", ["\x1b", "\x1b[" + "1;" * 500, "\x1b]" + "x" * 999, "\x9d", ZWJ, "\x1b(", "é" + ZWJ, "\x00"]
)
def test_a_flood_of_openings_costs_neither_memory_nor_much_time(piece: str) -> None:
    plain = PlainText()
    block = piece * (64 * 1024 // len(piece))
    plain.feed(block)
    tracemalloc.start()
    began = time.process_time()
    for _ in range(8):
        plain.feed(block)
    spent = time.process_time() - began
    held, _peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 16 * 1024
    assert spent < 5


def test_no_entry_is_lost_where_keys_become_equal() -> None:
    value = {"a": 1, "a\x00": ["x\x1b[mx", 2], "a\u200b": ("\x07", None)}
    assert plain_value(value) == {"a": 1, "a~2": ["xx", 2], "a~3": ["", None]}
    same = {"a": ["b", {"c": "d"}]}
    assert plain_value(same) is same


# -- through a call -----------------------------------------------------------------------------------------


def uncovers(text: str) -> bool:
    return SECRET in text or SECRET in plain_text(text)


def bench_saying(workshop: Workshop, cut: list[str], result: str) -> Any:
    async def work(_verdict: Verdict, context: ToolContext) -> ToolResult:
        for piece in cut:
            context.on_output(piece)
        details: dict[str, Any] = {"diff": result, result: 1}
        return ToolResult.text(result, artifact=context.keep_output(), details=details)

    return workshop.bench(tools=[MadeUp("say", work)], gate=ScriptedGate(lambda call, _grant: allow(call)))


@pytest.mark.clause("CON-32", "QLT-20", "CON-38")
@given(outputs())
@settings(max_examples=60, deadline=None)
def test_no_delta_result_preview_or_kept_output_holds_a_sprinkled_secret(output: tuple[str, list[str]]) -> None:
    text, cut = output

    async def scenario(folder: Path) -> None:
        workshop = Workshop(folder)
        bench = bench_saying(workshop, cut, text)
        try:
            (done,) = await bench.execute(ToolCall("c1", "say", {}, "e_1"))
        finally:
            await workshop.close()
        live = "".join(delta.text for delta in bench.events("tool.delta"))
        (completed,) = bench.events("tool.completed")
        assert completed.artifact is not None
        kept = (bench.folder / completed.artifact).read_bytes().decode()
        ((_call, in_history),) = bench.history
        for seen in (live, kept, completed.preview, done.result.joined, in_history.joined):
            assert not uncovers(seen)
            assert "[redacted:planted]" in seen
        assert live == kept
        for part in (*in_history.details, in_history.details["diff"]):
            assert not uncovers(str(part))
        for path in bench.folder.rglob("*"):
            assert not (path.is_file() and SECRET.encode() in path.read_bytes())

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(scenario(Path(folder)))


@pytest.mark.clause("CON-32", "QLT-20")
async def test_a_search_that_colours_its_hits_streams_and_keeps_no_secret(workshop: Workshop) -> None:
    bench = workshop.bench(files={"config": f"planted {SECRET}\n"})
    hit = SECRET[5:9]
    result = await bench.call("bash", command=f"seq 1 30000; grep --color=always {hit} config; seq 1 30000 >&2")
    assert result.artifact is not None
    result_too = await bench.text("bash", command=f"grep --color=always {hit} config")
    assert result_too == "planted [redacted:planted]"
    live = "".join(delta.text for delta in bench.events("tool.delta"))
    kept = (bench.folder / result.artifact).read_text()
    assert "\nplanted [redacted:planted]\n" in kept
    assert live.endswith("planted [redacted:planted]\n")
    for path in bench.folder.rglob("*"):
        if path.is_file():
            assert SECRET[9:].encode() not in path.read_bytes()


@pytest.mark.clause("QLT-20")
async def test_a_file_is_read_as_it_is_unless_its_escapes_hide_a_secret(workshop: Workshop) -> None:
    shown = "RED = '\x1b[31m'  # soft\u00adhyphen\n"
    bench = workshop.bench(files={"colours.py": shown, "hidden": f"a\x1b[1mb {SECRET[:4]}\x1b[0m\u200b{SECRET[4:]}\n"})
    assert shown.rstrip("\n") in await bench.text("read", path="colours.py")
    assert "ab [redacted:planted]" in await bench.text("read", path="hidden")


@pytest.mark.clause("CON-31", "CON-32")
async def test_a_key_of_a_public_format_is_found_through_colours_too(workshop: Workshop) -> None:
    key = "sk-ant-api03-" + "aB3dE5gH7jK9mN1pQ3sT5vW7" * 3
    bench = bench_saying(workshop, [key[:3], "\x1b[3", "1m", key[3:20], "\x1b[m\x1b[K", key[20:], "\n"], "done")
    await bench.execute(ToolCall("c1", "say", {}, "e_1"))
    live = "".join(delta.text for delta in bench.events("tool.delta"))
    assert live.startswith("[redacted:")
    assert key[20:] not in live
