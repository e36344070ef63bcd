"""A text in pieces is redacted as the whole is, whatever the cuts (CON-32)."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.redaction.planting import cuts, disguises, json_escaped, redactors, split, texts, unhurried
from tests.redaction.samples import LOWER, MIXED, jwt, key_block

from drawbar.stores.redaction import SecretRedactor

BUGS = Path(__file__).parent.parent / "fixtures" / "bugs"
BLOCK = 16 * 1024


@pytest.mark.clause("CON-32", "QLT-20")
@pytest.mark.bug("SEC-02")
@pytest.mark.parametrize("pieces", ["deltas", "also_tool_stdout_reads"])
def test_a_secret_over_several_pieces_is_hidden(pieces: str) -> None:
    given_ = json.loads((BUGS / "SEC-02" / "chunks.json").read_text())
    wanted = json.loads((BUGS / "SEC-02" / "expect.json").read_text())
    shown = "".join(split(SecretRedactor([(given_["secret"], "demo")]), given_[pieces]))
    assert given_["secret"] not in shown
    assert "[redacted:demo]" in shown
    assert pieces != "deltas" or shown.endswith(wanted["text_after_secret_kept"])


@pytest.mark.clause("CON-32")
@unhurried
@given(st.data())
def test_joined_pieces_are_the_whole_text_redacted(data: st.DataObject) -> None:
    redactor, known = data.draw(redactors())
    text = data.draw(texts(known))
    assert "".join(split(redactor, data.draw(cuts(text)))) == redactor.text(text)


@pytest.mark.clause("CON-32")
@unhurried
@given(st.data())
def test_long_secrets_too(data: st.DataObject) -> None:
    redactor, known = data.draw(redactors())
    text = data.draw(texts(known, long=True))
    assert "".join(split(redactor, data.draw(cuts(text)))) == redactor.text(text)


@pytest.mark.clause("CON-32")
@unhurried
@given(st.data())
def test_no_piece_shows_a_known_value_not_even_with_what_came_before(data: st.DataObject) -> None:
    redactor, known = data.draw(redactors())
    shown = ""
    for piece in split(redactor, data.draw(cuts(data.draw(texts(known))))):
        shown += piece
        assert not [value for value in known if value in shown]


@pytest.mark.clause("CON-32")
@pytest.mark.parametrize("disguise", sorted(disguises))
def test_every_cut_of_every_encoding(disguise: str) -> None:
    secret = 'p@ss/"w\\0rd é1'
    redactor = SecretRedactor([(secret, "pw")])
    text = f"x {disguises[disguise](secret)} y"
    whole = redactor.text(text)
    assert "[redacted:pw]" in whole
    for at in range(len(text) + 1):
        assert "".join(split(redactor, [text[:at], text[at:]])) == whole


@pytest.mark.clause("CON-32")
def test_tool_arguments_stay_json_when_their_escapes_are_split() -> None:
    secret = 'zq7"Not4\nReal\\0001'
    redactor = SecretRedactor([(secret, "demo")])
    arguments = json.dumps({"command": f"export TOKEN='{secret}' && run \\d \"x\"", "after": "kept"})
    for size in (1, 2, 3, 7):
        pieces = [arguments[at : at + size] for at in range(0, len(arguments), size)]
        shown = json.loads("".join(split(redactor, pieces)))
        assert shown == {"command": "export TOKEN='[redacted:demo]' && run \\d \"x\"", "after": "kept"}


@pytest.mark.clause("CON-32", "QLT-20")
def test_no_escape_is_cut_in_two() -> None:
    """A value that ends with a backslash is found where JSON has that backslash for a quote behind it."""
    redactor = SecretRedactor([("Zq7Not4Real\\", "demo"), ("nZq8Not4Real", "other")])
    for text in ('Zq7Not4Real"quoted"', "Zq7Not4Real\\", "a\nZq8Not4Real"):
        arguments = json.dumps({"command": text, "after": "kept"})
        for at in range(len(arguments) + 1):
            shown = "".join(split(redactor, [arguments[:at], arguments[at:]]))
            assert "[redacted:" in shown
            assert json.loads(shown)["after"] == "kept"


@pytest.mark.clause("CON-32")
@unhurried
@given(st.text(alphabet="etaoin shrdlu,.\n", max_size=300), st.data())
def test_clean_text_comes_through_whole_and_at_once(text: str, data: st.DataObject) -> None:
    redactor = SecretRedactor([(MIXED, "key"), ("hunter2pw", "pw")])
    stream = redactor.stream()
    given_ = shown = ""
    for piece in data.draw(cuts(text)):
        given_ += piece
        shown += stream.feed(piece)
        # Nothing here goes on for more than a word that could begin a secret.
        assert len(given_) - len(shown) <= 24
    assert shown + stream.end() == text


@pytest.mark.clause("CON-32")
def test_only_what_could_begin_a_known_value_is_held() -> None:
    redactor = SecretRedactor([("Zq7Not4Real0001abcd", "demo")])
    stream = redactor.stream()
    assert stream.feed("value: Zq7Not4Real0001abc") == "value: "
    assert stream.feed("x, (2)") == "Zq7Not4Real0001abcx, (2)"
    assert stream.feed(" Zq7Not4Real0001abc") == " "
    assert stream.feed("d.") == "[redacted:demo]."
    assert stream.end() == ""


@pytest.mark.clause("CON-32")
def test_a_key_block_is_replaced_at_once_and_swallowed_to_its_end() -> None:
    redactor = SecretRedactor()
    stream = redactor.stream()
    head, *body, foot = key_block(size=4000).split("\n")
    assert stream.feed(f"here: {head}\n{body[0]}\n") == "here: [redacted:private-key]"
    assert "".join(stream.feed(line + "\n") for line in body[1:]) == ""
    assert stream.feed(foot[:12]) == ""
    assert stream.feed(foot[12:] + "\nnext, ") == "\nnext, "
    assert stream.end() == ""


@pytest.mark.clause("CON-32")
def test_a_block_without_end_takes_16_kib_at_most() -> None:
    text = "-----BEGIN PRIVATE KEY-----\n" + ("A" * 63 + "\n") * 400
    redactor = SecretRedactor()
    shown = "".join(split(redactor, [text[at : at + 100] for at in range(0, len(text), 100)]))
    assert shown == "[redacted:private-key]" + text[BLOCK:] == redactor.text(text)


@pytest.mark.clause("CON-32")
def test_a_token_is_held_to_a_delimiter_or_512_characters() -> None:
    stream = SecretRedactor().stream()
    assert stream.feed("key sk-ant-" + "a1" * 200) == "key "
    assert stream.feed(" next ") == "[redacted:anthropic-api-key] next "
    assert stream.feed("sk-ant-" + "a1" * 252) == ""
    assert stream.feed("a") == "[redacted:anthropic-api-key]"
    assert stream.feed("a" * 3000) == ""
    assert stream.feed("a, ") == ", "
    assert stream.feed("sk-ant-") == ""
    assert stream.feed("? ") == "sk-ant-? "


@pytest.mark.clause("CON-32")
def test_a_secret_directly_behind_another_is_hidden_to_its_end() -> None:
    redactor = SecretRedactor()
    first, long = "AKIA" + "AB2CD3EF4GH5IJ6K", jwt("x" * 600) + "x" * 900
    for text, wanted in (
        (f"{first}sk-{LOWER} ok", "[redacted:aws-access-key-id][redacted:provider-api-key] ok"),
        (f"{first}{long} ok", "[redacted:aws-access-key-id][redacted:jwt] ok"),
    ):
        assert redactor.text(text) == wanted == redactor.text(wanted)
        for size in (1, 13, 100, 700):
            assert "".join(split(redactor, [text[at : at + size] for at in range(0, len(text), size)])) == wanted


@pytest.mark.clause("CON-32")
def test_a_piece_never_begins_with_the_end_of_a_word() -> None:
    """It would look like a token to whoever sees that piece alone, as the event log does."""
    redactor = SecretRedactor()
    text = f"the task-{LOWER} and disk-{LOWER} are done"
    for at in range(len(text)):
        shown = split(redactor, [text[:at], text[at:]])
        assert "".join(shown) == text
        assert [redactor.text(piece) for piece in shown] == shown


@pytest.mark.clause("CON-32")
def test_an_ended_stream_begins_anew() -> None:
    stream = SecretRedactor([("hunter2pw99", "pw")]).stream()
    assert stream.feed("hunter2") == ""
    assert stream.end() == "hunter2"
    assert stream.feed("pw99") + stream.end() == "pw99"
    assert stream.feed("hunter2pw99") + stream.end() == "[redacted:pw]"


@pytest.mark.clause("CON-32")
def test_a_value_learnt_while_a_stream_is_open_is_hidden_in_what_follows() -> None:
    redactor = SecretRedactor()
    stream = redactor.stream()
    shown = stream.feed("a hunter2pw99 b ")
    redactor.add("hunter2pw99", "pw")
    assert shown + stream.feed("hunter2") + stream.feed("pw99 c ") == "a hunter2pw99 b [redacted:pw] c "


@pytest.mark.clause("CON-32")
@unhurried
@given(st.data())
def test_each_piece_given_out_stands_by_itself(data: st.DataObject) -> None:
    """The event log looks at each delta again; that must not change what the joined deltas say."""
    redactor, known = data.draw(redactors())
    known = [value for value in known if value.isalnum()] or [MIXED]
    text = data.draw(texts(known))
    for piece in split(redactor, [text[at : at + 3] for at in range(0, len(text), 3)]):
        assert redactor.text(piece) == piece


@pytest.mark.clause("CON-32")
def test_many_small_pieces_of_a_long_secret_cost_no_more_than_their_number() -> None:
    redactor = SecretRedactor()

    def seconds(text: str) -> float:
        started = time.process_time()
        split(redactor, [text[at : at + 4] for at in range(0, len(text), 4)])
        return time.process_time() - started

    block = key_block(size=15_000)
    seconds(block)
    # A scan of all that was swallowed at each piece would take over a hundred times as long as plain text.
    assert seconds(block) < 8 * seconds("plain words. " * (len(block) // 13)) + 0.2


@pytest.mark.clause("CON-32")
def test_escapes_in_a_piece_of_arguments_are_undone_across_layers() -> None:
    redactor = SecretRedactor([("acmekeyZ9z8y7x6w5", "acme")])
    hidden = "acmekey\\u005a9z8y7x6w5"
    text = json_escaped(f'{{"a": "{hidden}"}}')
    for at in range(len(text)):
        assert "".join(split(redactor, [text[:at], text[at:]])) == text.replace(json_escaped(hidden), "[redacted:acme]")
