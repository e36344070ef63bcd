"""Untrusted text on a person's screen: nothing in it may move, hide or write anything (APR-13)."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gate.kit import FIXTURES, gate, judged, workspace

from drawbar.boundary.shown import shown

DIRECTIONS = ("LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI")


@pytest.mark.clause("SES-18")
@pytest.mark.bug("APR-13")
def test_the_reported_output_and_command_show_their_controls() -> None:
    command = (FIXTURES / "APR-13" / "command.txt").read_text()
    assert shown(command) == "rm -rf build\\x1b[1A\\x1b[2Kls -la   # harmless\n"
    output = (FIXTURES / "APR-13" / "tool_output.bin").read_bytes().decode("utf-8", "replace")
    safe = shown(output)
    assert "\x1b" not in safe
    assert "\x07" not in safe
    assert "\u202e" not in safe
    assert "\\u202e" in safe
    assert "cm0gLXJmIH4=" in safe, "the whole text is there to be seen"


@pytest.mark.clause("SES-18")
@pytest.mark.bug("APR-13")
@given(st.text())
def test_nothing_that_is_not_seen_stays(text: str) -> None:
    for safe in (shown(text), shown(text, one_line=True)):
        for char in safe:
            kind = unicodedata.category(char)
            assert char in "\n\t" or kind not in ("Cc", "Cs", "Zl", "Zp")
            assert kind != "Cf" or unicodedata.bidirectional(char) not in (
                "LRE",
                "RLE",
                "PDF",
                "LRO",
                "RLO",
                "LRI",
                "PDI",
            )
    assert not {"\n", "\t"} & set(shown(text, one_line=True))


@pytest.mark.clause("SES-18")
def test_ordinary_text_is_left_alone() -> None:
    text = "grep -rn 'naïve café 日本語 🙂' src \\\n\t| head\n"
    assert shown(text) == text
    assert shown(text, one_line=True) == text.replace("\n", "\\n").replace("\t", "\\t")
    assert shown("caf\udce9") == "caf\\xe9"
    assert shown("\ud800") == "\\ud800"
    assert shown("\U000e0041") == "\\U000e0041"


@pytest.mark.clause("SES-18")
@pytest.mark.bug("APR-13")
async def test_the_gates_own_words_never_carry_controls(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    (root / "out\x1b[2J").symlink_to(tmp_path / "outside" / "secret.txt")
    made = gate(root, approval="ask")
    for tool, path in [
        ("write", "/etc/\x1b[2J"),
        ("read", "out\x1b[2J"),
        ("write", "d/\x1b]52;c;x\x07/.git"),
        ("\x1b[2J", "x"),
    ]:
        verdict = await judged(made, tool, path=path, **({"content": ""} if tool == "write" else {}))
        assert verdict.outcome != "allow"
        assert "\x1b" not in verdict.message
        assert verdict.message
