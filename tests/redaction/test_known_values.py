"""Known secret values never get through, in any common encoding; ordinary words always do (CON-31, QLT-20)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.redaction.planting import disguises, redactors, secrets, texts, unhurried

from drawbar.stores.redaction import SecretRedactor
from drawbar.stores.redaction.views import views

BUGS = Path(__file__).parent.parent / "fixtures" / "bugs"


@pytest.mark.clause("CON-31")
@pytest.mark.bug("SEC-01")
def test_printing_the_environment_hides_the_values_and_keeps_the_rest() -> None:
    folder = BUGS / "SEC-01"
    known = json.loads((folder / "known.json").read_text())
    wanted = json.loads((folder / "expect.json").read_text())
    redactor = SecretRedactor((value, name) for name, value in known.items())
    shown = redactor.text((folder / "output.txt").read_text())
    assert not [value for value in wanted["values"] if value in shown]
    assert all(line in shown.splitlines() for line in wanted["kept"])
    assert "DEMO_API_KEY=[redacted:demo-api-key]" in shown
    assert "postgres://app:[redacted:db-password]@db.example/x" in shown


@pytest.mark.clause("CON-31", "QLT-20")
@pytest.mark.bug("SEC-05")
@pytest.mark.parametrize(
    "case", [json.loads(line) for line in (BUGS / "SEC-05" / "cases.jsonl").read_text().splitlines()]
)
def test_encoded_forms_are_found_and_short_values_hide_nothing(case: dict[str, str]) -> None:
    redactor = SecretRedactor([(case["value"], case["name"])])
    shown = redactor.text(case["text"])
    if case["want"] == "kept":
        assert shown == case["text"]
    else:
        assert shown != case["text"]
        assert case["value"] not in shown
        assert f"[redacted:{case['name'].lower().replace('_', '-')}]" in shown


@pytest.mark.clause("CON-31", "QLT-20")
@pytest.mark.parametrize("disguise", sorted(disguises))
@pytest.mark.parametrize(
    "secret",
    [
        "acmekeyZ9z8y7x6w5",
        "p@ss/w0rd+1",
        "q\"uo\\te'd $9",
        "line1secret\nline2secret",
        "pä55wörd😀x",
        "with some blanks 7",
    ],
)
def test_each_encoding_of_a_value_is_hidden_where_it_stands(secret: str, disguise: str) -> None:
    redactor = SecretRedactor([(secret, "acme")])
    text = f"before {disguises[disguise](secret)} after"
    shown = redactor.text(text)
    assert "[redacted:acme]" in shown
    assert shown.startswith("before ")
    assert shown.endswith(" after")
    # What is left beside the placeholder is at most the bits that neighbours share with it.
    assert len(shown) <= len("before [redacted:acme] after") + 10


@pytest.mark.clause("CON-31", "QLT-20")
@unhurried
@given(
    secret=secrets, disguise=st.sampled_from(sorted(disguises)), before=st.text(max_size=6), after=st.text(max_size=6)
)
def test_any_value_in_any_encoding_is_hidden(secret: str, disguise: str, before: str, after: str) -> None:
    form = disguises[disguise](secret)
    text = before + form + after
    assume(not set(before) & set('\\%["]') and not set(after) & set("\\%["))
    shown = SecretRedactor([(secret, "acme")]).text(text)
    assert shown != text
    assert form not in shown


@pytest.mark.clause("CON-31", "QLT-20")
@unhurried
@given(st.data())
def test_no_known_value_is_left_in_the_text_or_in_what_it_decodes_to(data: st.DataObject) -> None:
    redactor, known = data.draw(redactors())
    shown = redactor.text(data.draw(texts(known)))
    for view in views(shown, final=True).layers:
        assert not [value for value in known if value in view.text]


@pytest.mark.clause("CON-31")
@unhurried
@given(st.data())
def test_redacting_twice_changes_nothing(data: st.DataObject) -> None:
    redactor, known = data.draw(redactors())
    once = redactor.text(data.draw(texts(known, long=True)))
    assert redactor.text(once) == once


@pytest.mark.clause("CON-31")
@pytest.mark.bug("SEC-05")
@pytest.mark.parametrize(
    "value",
    ["", " ", "dev", "abc1234", "********", "aaaaaaaaaaaa", "abababababab", "password", "localhost", "  short  "],
)
def test_what_is_too_short_or_too_ordinary_is_never_learnt(value: str) -> None:
    text = f"npm run {value} on localhost with a password: ******** aaaaaaaaaaaaaaaa abababababababab"
    assert SecretRedactor([(value, "x")]).text(text) == text


@pytest.mark.clause("CON-31")
def test_words_of_placeholders_are_not_secrets() -> None:
    redactor = SecretRedactor([("redacted", "a"), ("private-key", "b"), ("[redacted:c]", "c"), ("realsecret1", "d")])
    assert redactor.text("private-key realsecret1 redacted") == "private-key [redacted:d] redacted"


@pytest.mark.clause("CON-31")
def test_a_placeholder_needs_no_escape_and_never_shows_the_value() -> None:
    redactor = SecretRedactor([("Zq7Not4Real", 'A "kind" of <Zq7>\n& ünknown'), ("hunter2pw", "hunter2pw")])
    shown = redactor.text("Zq7Not4Real hunter2pw")
    assert shown == "[redacted:a-kind-of-zq7-nknown] [redacted:secret]"
    assert json.dumps(shown)[1:-1] == shown


@pytest.mark.clause("CON-31")
def test_overlapping_values_leave_no_rest_of_either() -> None:
    redactor = SecretRedactor([("abcdefgh1234", "one"), ("1234ijklmnop", "two")])
    assert redactor.text("x abcdefgh1234ijklmnop y") == "x [redacted:one] y"
    assert redactor.text("abcdefgh1234 1234ijklmnop") == "[redacted:one] [redacted:two]"


@pytest.mark.clause("CON-31")
def test_a_value_learnt_later_is_hidden_from_then_on() -> None:
    redactor = SecretRedactor()
    assert redactor.text("hunter2pw99") == "hunter2pw99"
    redactor.add("hunter2pw99", "late")
    redactor.add("hunter2pw99", "again")
    assert redactor.text("hunter2pw99") == "[redacted:late]"


@pytest.mark.clause("CON-31")
def test_the_lines_of_a_key_are_hidden_one_by_one() -> None:
    lines = [
        "-----BEGIN PRIVATE KEY-----",
        "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcw",
        "ggSjAgEAAoIBAQC7VJTUt9Us8cKjMzEfYyji",
        "9u6=",
    ]
    redactor = SecretRedactor([("\n".join([*lines, "-----END PRIVATE KEY-----"]), "deploy-key")])
    assert (
        redactor.text(f"   2\t{lines[1]}\n   3\t{lines[2]}")
        == "   2\t[redacted:deploy-key]\n   3\t[redacted:deploy-key]"
    )
    assert redactor.text("-----BEGIN PUBLIC KEY-----") == "-----BEGIN PUBLIC KEY-----"


@pytest.mark.clause("CON-31")
def test_halves_of_surrogate_pairs_are_no_obstacle() -> None:
    redactor = SecretRedactor([("hunter2pw99", "a"), ("odd\udcffname99", "b")])
    assert redactor.text("\ud800 hunter2pw99 \udfff") == "\ud800 [redacted:a] \udfff"
    assert redactor.text("odd\udcffname99") == "[redacted:b]"
    assert "".join([*map((stream := redactor.stream()).feed, ["\ud800 hunt", "er2pw99"]), stream.end()]).endswith(
        " [redacted:a]"
    )


@pytest.mark.clause("CON-31")
def test_values_that_end_like_a_placeholder_begins_stay_hidden_beside_one() -> None:
    redactor = SecretRedactor([("hunter2pw9[", "a"), ("secondvalue1", "b"), ("b]thirdvalue1", "c")])
    once = redactor.text("hunter2pw9secondvalue1thirdvalue1")
    assert once == "[redacted:a][redacted:b][redacted:c]"
    assert redactor.text(once) == once
    assert redactor.text("hunter2pw9[ b]thirdvalue1") == "[redacted:a][ b][redacted:c]"


@pytest.mark.clause("CON-31")
def test_a_long_value_takes_little_memory_and_time() -> None:
    script = (
        "import random, resource, time\n"
        "from drawbar.stores.redaction import SecretRedactor\n"
        "value = ''.join(random.Random(3).choices('abcdefghijklmnopqrstuvwxyz0123456789', k=60_000))\n"
        "SecretRedactor([('hunter2pw99', 'y')]).text('x')\n"
        "before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()\n"
        "assert SecretRedactor([(value, 'x')]).text(f'a {value} b') == 'a [redacted:x] b'\n"
        "grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024\n"
        "assert grown < 20 and time.process_time() - started < 2, grown\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
