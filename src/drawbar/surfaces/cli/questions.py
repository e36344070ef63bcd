"""A question of the model as a person sees it: what it is about, numbered choices, sketches in boxes (SES-19, CON-22).

All of it is foreign text, so nothing here reaches a terminal but through :mod:`drawbar.surfaces.cli.text`.
"""

from __future__ import annotations

from dataclasses import dataclass

from drawbar.contracts.events.human import Answer, Choice, Question
from drawbar.contracts.question import QuestionAsk
from drawbar.runs.answers import keys_of
from drawbar.surfaces.cli.output import Look
from drawbar.surfaces.cli.text import cells, label, visible, visible_exact, wrapped

__all__ = ["answer_text", "ask_lines", "prompt_of", "question_lines", "ways_of"]

INDENT = 2
GAP = 2
NARROWEST = 16
"""Columns that running text gets, however narrow the terminal is."""
BLOCK = 28
"""Columns of a choice with its sketch, however narrow that is: its words need them."""


def ask_lines(ask: QuestionAsk, look: Look) -> list[str]:
    """Every question of one ask, whole."""
    lines: list[str] = []
    for place, question in enumerate(ask.questions, 1):
        lines += question_lines(question, look, place=place, of=len(ask.questions))
    return lines


def question_lines(question: Question, look: Look, *, place: int = 1, of: int = 1) -> list[str]:
    """One question: header, text, and each choice with its description and sketch; nothing is left out.

    Args:
        question: as it was put.
        look: what the terminal can show.
        place, of: which of how many.
    """
    about = label(question.header) if question.header else "question"
    which = f" ({place} of {of})" if of > 1 else ""
    first, *rest = wrapped(f"{look.glyphs.ask} {about}{which}", look.width, words=True)
    lines = [look.paint(line, "yellow", "bold") for line in (first, *rest)]
    lines += [f"{' ' * INDENT}{line}" for line in _lines(question.text, look.width - INDENT)]
    if any(choice.sketch is not None for choice in question.choices):
        return [*lines, *_drawn(question, look)]
    for key, choice in zip(keys_of(question), question.choices, strict=True):
        margin = " " * (INDENT + cells(key) + 2)
        room = max(NARROWEST, look.width - len(margin))
        name, *more = wrapped(label(choice.label), room, words=True)
        lines.append(f"{' ' * INDENT}{look.paint(key, 'bold')}  {name}")
        lines += [f"{margin}{line}" for line in more]
        lines += [f"{margin}{look.paint(line, 'dim')}" for line in _lines(choice.description or "", room) if line]
    return lines


def prompt_of(question: Question) -> str:
    """The line that is open for the answer."""
    return f"  {ways_of(question)} (Ctrl-D: no answer) > "


def ways_of(question: Question) -> str:
    """How the question can be answered, in a few words."""
    if not question.choices:
        return "your own words"
    key = "letter" if keys_of(question)[0].isalpha() else "number"
    ways = f"{key}s or labels, with commas" if question.multiple else f"a {key} or a label"
    return f"{ways}, or your own words" if question.free_text else ways


def answer_text(answer: Answer) -> str:
    """An answer in one line."""
    return "; ".join([*map(label, answer.choices), *([label(answer.text)] if answer.text is not None else [])])


def _lines(text: str, room: int) -> list[str]:
    """Running text in lines of at most ``room`` columns."""
    shown = visible(text).strip("\n").expandtabs(4)
    return [
        piece.rstrip(" ") for line in shown.split("\n") for piece in wrapped(line, max(NARROWEST, room), words=True)
    ]


# -- sketches -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Block:
    """One choice with its sketch: its own words, then the frame, all ``width`` columns wide.

    ``open`` is one that has no room for a frame; it stands alone, from the first column.
    """

    words: list[str]
    frame: list[str]
    width: int
    open: bool = False


def _drawn(question: Question, look: Look) -> list[str]:
    """The choices with their sketches: as many side by side as fit, the others below."""
    rows: list[list[_Block]] = []
    used = 0
    for key, choice in zip(keys_of(question), question.choices, strict=True):
        block = _block(key, choice, look)
        needed = block.width + (GAP if rows and rows[-1] else INDENT)
        if not rows or block.open or rows[-1][-1].open or used + needed > look.width:
            rows.append([])
            used, needed = 0, INDENT + block.width
        rows[-1].append(block)
        used += needed
    return [line for row in rows for line in _row(row, look)]


def _block(key: str, choice: Choice, look: Look) -> _Block:
    sketch = visible_exact(choice.sketch or "").split("\n")
    widest = max(map(cells, sketch))
    line, bar, (a, b, c, d) = ("─", "│", "┌┐└┘") if look.glyphs.rule == "─" else ("-", "|", "++++")
    if widest + 4 + INDENT > look.width:
        rule = line * look.width
        room = look.width - INDENT
        return _Block(_words(key, choice, room), [rule, *_whole(sketch, look.width), rule], look.width, open=True)
    width = min(max(widest + 4, BLOCK), look.width - INDENT)
    inner = width - 4
    frame = [f"{bar} {text}{' ' * (inner - cells(text))} {bar}" for text in sketch]
    rule = line * (inner + 2)
    return _Block(_words(key, choice, width), [f"{a}{rule}{b}", *frame, f"{c}{rule}{d}"], width)


def _words(key: str, choice: Choice, room: int) -> list[str]:
    named = wrapped(f"{key}  {label(choice.label)}", room, words=True)
    return [*(line.rstrip(" ") for line in named), *(line for line in _lines(choice.description or "", room) if line)]


def _whole(sketch: list[str], columns: int) -> list[str]:
    return [piece for line in sketch for piece in wrapped(line, columns)]


def _row(blocks: list[_Block], look: Look) -> list[str]:
    if blocks[0].open:
        (block,) = blocks
        return [*(f"{' ' * INDENT}{line}" for line in block.words), *block.frame]
    high = max(len(block.words) for block in blocks)
    deep = max(len(block.frame) for block in blocks)
    lines = [
        _beside([(block.words + [""] * high)[place] for block in blocks], blocks, look, "bold") for place in range(high)
    ]
    lines += [_beside([(block.frame + [""] * deep)[place] for block in blocks], blocks, look) for place in range(deep)]
    return lines


def _beside(texts: list[str], blocks: list[_Block], look: Look, *styles: str) -> str:
    padded = [
        look.paint(text, *styles) + " " * (block.width - cells(text)) for text, block in zip(texts, blocks, strict=True)
    ]
    return (" " * INDENT + (" " * GAP).join(padded)).rstrip(" ")
