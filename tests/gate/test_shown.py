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
            assert char in "\n\t " or unicodedata.category(char)[0] not in "CZ", f"U+{ord(char):04X}"
            assert not any(word in unicodedata.name(char, "") for word in UNSEEN_NAMES), f"U+{ord(char):04X}"
    assert not {"\n", "\t"} & set(shown(text, one_line=True))


UNSEEN_NAMES = (
    "VARIATION SELECTOR",
    "HANGUL FILLER",
    "CHOSEONG FILLER",
    "JUNGSEONG FILLER",
    "PATTERN BLANK",
    "GRAPHEME JOINER",
)
KINDS = {
    "C0": range(0x20),
    "DEL and C1": range(0x7F, 0xA0),
    "no-break space": (0xA0, 0x202F),
    "wide and narrow spaces": (*range(0x2000, 0x200B), 0x205F, 0x3000, 0x1680),
    "blank braille": (0x2800,),
    "direction": (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C),
    "zero width": (0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF, 0xAD, 0x034F),
    "separators": (0x2028, 0x2029),
    "tags": range(0xE0000, 0xE0080),
    "variation selectors": (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0), *range(0x180B, 0x1810)),
    "fillers": (0x115F, 0x1160, 0x3164, 0xFFA0, 0x17B4, 0x17B5),
    "private use": (0xE000, 0xF8FF, 0xF0000, 0x10FFFD),
    "unassigned": (0x0378, 0xFFFE, 0xE0FFF, 0x10FFFF),
    "surrogates": (0xD800, 0xDBFF, 0xDFFF),
    "shorthand and music": (0x1BCA0, 0x1D173),
}


@pytest.mark.clause("SES-18")
@pytest.mark.bug("APR-13")
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_each_kind_of_unseen_character_is_shown_as_its_code(kind: str) -> None:
    for code in KINDS[kind]:
        safe = shown(f"a{chr(code)}b", one_line=True)
        assert safe.isascii(), f"U+{code:04X}"
        assert safe != "ab", f"U+{code:04X}"
        digits = {0x09: "t", 0x0A: "n"}.get(code) or f"{code - 0xDC00 if 0xDC80 <= code <= 0xDCFF else code:x}"
        assert digits in safe, f"U+{code:04X}"


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
