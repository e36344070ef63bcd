"""A turn that begins with the person's own command: ``!ls``, ``!outside id`` (RUN-7)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runs.kit import Bench, bench, of, types
from tests.runs.test_asking import Person

from drawbar.contracts.errors import InvalidInput
from drawbar.sessions.initial_bash import initial_call, leading_command
from drawbar.testing.scripted_model import say

ANSWER = [say("I see.")]


async def begin(b: Bench, text: str, **fields: Any) -> Any:
    return await b.run(text, initial_bash=leading_command(text), **fields)


def seen_by_the_model(b: Bench) -> str:
    request = b.server.requests[0].parsed
    assert request is not None
    return json.dumps(request["messages"])


@pytest.mark.clause("RUN-7", "SES-21", "CON-34", "BND-9")
async def test_the_command_runs_before_the_first_request_and_the_model_sees_it(tmp_path: Path) -> None:
    async with bench(tmp_path, ANSWER) as b:
        (b.project / "found.txt").write_text("x")
        record, events = await begin(b, "!ls; exit 3\nWhat is this?")
        assert record.status == "completed"
        order = types(events)
        assert order.index("tool.started") < order.index("tool.completed") < order.index("context.snapshot")
        started, completed = of(events, "tool.started")[0], of(events, "tool.completed")[0]
        assert (started["tool"], started["arguments"]) == ("bash", {"command": "ls; exit 3"})
        assert (started["scope"], started["decision"]["outcome"]) == ("workspace", "allow")
        assert (completed["call_id"], completed["exit_code"]) == (started["call_id"], 3)
        user, bash, assistant = b.messages(record)
        assert (user["role"], user["content"][0]["text"]) == ("user", "!ls; exit 3\nWhat is this?")
        assert (bash["role"], bash["command"], bash["exitCode"]) == ("bashExecution", "ls; exit 3", 3)
        assert (bash["cancelled"], bash["truncated"]) == (False, False)
        assert "found.txt" in bash["output"]
        assert isinstance(bash["timestamp"], int)
        assert assistant["role"] == "assistant"
        entries = {entry["message"]["role"]: entry["id"] for entry in _entries(record.native_history)}
        assert started["entry_id"] == entries["user"]
        assert completed["entry_id"] == entries["bashExecution"]
        assert len(b.server.requests) == 1
        assert b.server.errors == []
        said = seen_by_the_model(b)
        assert "Ran `ls; exit 3`" in said
        assert "found.txt" in said
        assert said.index("What is this?") < said.index("found.txt")
        assert b.harness.runs.verify(record.id).ok


def _entries(path: str | None) -> list[dict[str, Any]]:
    assert path is not None
    entries = [json.loads(line) for line in Path(path).read_text().splitlines()[1:]]
    return [entry for entry in entries if entry["type"] == "message"]


@pytest.mark.clause("RUN-7", "SES-1")
async def test_a_text_that_is_only_a_command_goes_to_the_model_with_its_result(tmp_path: Path) -> None:
    async with bench(tmp_path, [*ANSWER, say("Still there.")]) as b:
        record, _ = await begin(b, "!echo hello")
        assert [message["role"] for message in b.messages(record)] == ["user", "bashExecution", "assistant"]
        assert "hello" in seen_by_the_model(b)
        later, _ = await b.run("And now?", session_id=record.session_id, resume=True)
        assert later.status == "completed"
        resumed = b.server.requests[1].parsed
        assert resumed is not None
        assert "Ran `echo hello`" in json.dumps(resumed["messages"]), "the history rebuilds what was sent"
        assert len(of([e async for e in b.harness.runs.follow(later.id)], "tool.started")) == 0


@pytest.mark.clause("RUN-7", "BND-3", "BND-6", "SES-18")
async def test_it_is_asked_about_like_the_models_own_command(tmp_path: Path) -> None:
    async with bench(tmp_path, ANSWER * 2) as b:
        yes, no = Person(("once", None)), Person(("deny", "not today"))
        allowed, events = await begin(b, "!touch sentinel", approval="ask", ask_handler=yes)
        assert (b.project / "sentinel").exists()
        assert len(yes.asked) == 1
        assert types(events).index("approval.resolved") < types(events).index("tool.started")
        assert allowed.status == "completed"
        (b.project / "sentinel").unlink()
        denied, events = await begin(b, "!touch sentinel", approval="ask", ask_handler=no)
        assert not (b.project / "sentinel").exists()
        assert (of(events, "tool.refused")[0]["cause"], denied.status) == ("person", "completed")
        bash = b.messages(denied)[1]
        assert (bash["role"], bash["cancelled"]) == ("bashExecution", True)
        assert "not today" in bash["output"]


@pytest.mark.clause("RUN-7", "BND-6", "BND-9")
async def test_outside_is_asked_about_before_it_runs_whatever_the_mode(tmp_path: Path) -> None:
    async with bench(tmp_path, ANSWER * 2) as b:
        person = Person(("deny", None))
        _, events = await begin(b, "!outside touch sentinel", ask_handler=person)
        assert (person.asked[0].scope, person.asked[0].rule) == ("outside", None)
        assert person.asked[0].arguments == {"command": "touch sentinel", "scope": "outside"}
        assert of(events, "tool.refused")[0]["code"] == "denied"
        assert not (b.project / "sentinel").exists()
        _, events = await begin(b, "!outside touch sentinel", approval="never")
        assert of(events, "tool.refused")[0]["code"] == "scope_unavailable"
        assert not (b.project / "sentinel").exists()


@pytest.mark.clause("RUN-7", "QLT-20")
async def test_a_secret_in_its_output_is_nowhere(tmp_path: Path) -> None:
    secret = "planted-secret-9d1f77c0aa5e4b21"
    async with bench(tmp_path, ANSWER, environ={"MY_API_KEY": secret}) as b:
        (b.project / "f").write_text(secret)
        record, _ = await begin(b, f"!cat f # {secret}")
        assert secret not in json.dumps(b.messages(record))
        assert secret not in seen_by_the_model(b)


@pytest.mark.clause("RUN-7", "RUN-1")
@pytest.mark.parametrize(
    ("text", "fields", "why"),
    [
        ("!ls", {"initial_bash": "rm x"}, "must equal"),
        ("ls", {"initial_bash": "ls"}, "must equal"),
        ("Please\n!ls", {"initial_bash": "ls"}, "must equal"),
        ("!ls", {"initial_bash": "!ls"}, "must equal"),
        ("!ls\nrm x", {"initial_bash": "ls\nrm x"}, "must equal"),
        ("!ls", {"initial_bash": ""}, "must equal"),
        ("!outside", {"initial_bash": "outside"}, "names no command"),
        ("!ls", {"initial_bash": "ls", "automatic": True}, "automatic"),
        ("!ls", {"initial_bash": "ls", "trigger": "probe"}, "probe"),
        ("!ls", {"initial_bash": "ls", "trigger": "improver"}, "improver"),
        ("!ls", {"initial_bash": "ls", "trigger": "reflection"}, "reflection"),
        ("!ls", {"initial_bash": "ls", "trigger": "side-question"}, "side-question"),
        ("!ls", {"initial_bash": "ls", "trigger": "role"}, "role"),
        ("!ls", {"initial_bash": "ls", "trigger": "slice"}, "slice"),
        ("!ls", {"initial_bash": "ls", "session_id": "s1", "resume": True}, "new conversation"),
        ("!ls", {"initial_bash": 7}, "initial_bash"),
    ],
)
async def test_where_it_may_not_stand_the_input_is_refused(
    tmp_path: Path, text: str, fields: dict[str, Any], why: str
) -> None:
    async with bench(tmp_path, ANSWER) as b:
        with pytest.raises(InvalidInput, match=why) as refused:
            await b.run(text, **fields)
        assert refused.value.code == "invalid_request"
        assert refused.value.facts["field"] == "initial_bash"
        assert b.server.requests == []
        assert not list((b.data / "runs").glob("r_*")), "nothing is on disk"


@pytest.mark.clause("RUN-7")
async def test_a_text_alone_runs_nothing(tmp_path: Path) -> None:
    async with bench(tmp_path, ANSWER) as b:
        record, events = await b.run("!touch sentinel")
        assert not (b.project / "sentinel").exists()
        assert "tool.started" not in types(events)
        assert [message["role"] for message in b.messages(record)] == ["user", "assistant"]


@pytest.mark.clause("RUN-7")
@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("!ls", "ls"),
        ("  ! ls -l \nand then?", "ls -l"),
        ("!a \\\n b\nc", "a \\\n b"),
        ("!echo \\\\\nx", "echo \\\\"),
        ("!outside id", "outside id"),
        ("ls", None),
        ("", None),
        ("!", None),
        ("!\nls", None),
        ("!!ls", None),
        ("![logo](x.png)", None),
        ("hello !ls", None),
    ],
)
def test_what_the_leading_command_is(text: str, command: str | None) -> None:
    assert leading_command(text) == command


@pytest.mark.clause("RUN-7")
@given(st.text(max_size=30))
def test_any_text_has_one_command_or_none_and_it_is_what_would_run(text: str) -> None:
    command = leading_command("!" + text)
    if command is not None:
        assert command in text
        if not command.startswith(("!", "[")):  # typed with a space before, since these two begin no command
            assert command == leading_command("!" + command)
        if command.split()[0] != "outside":
            assert initial_call(command).arguments == {"command": command}


@pytest.mark.clause("RUN-7", "BND-9")
def test_outside_is_a_word_of_its_own() -> None:
    assert initial_call("outside  id -u").arguments == {"command": "id -u", "scope": "outside"}
    assert initial_call("outsider id").arguments == {"command": "outsider id"}


@pytest.mark.clause("RUN-7", "CLI-1")
def test_the_command_line_runs_what_was_typed_and_never_what_was_piped() -> None:
    from drawbar.surfaces.cli.request import build_request

    assert build_request("!ls\nmore", typed=True).initial_bash == "ls"
    assert build_request("!ls\nmore").initial_bash is None
    assert build_request("ls", typed=True).initial_bash is None


@pytest.mark.clause("RUN-7", "BND-9", "CON-34")
async def test_an_allowed_command_outside_runs_once_with_the_persons_rights(tmp_path: Path) -> None:
    async with bench(tmp_path, ANSWER * 2) as b:
        beyond = tmp_path / "beyond"
        beyond.mkdir()
        record, events = await begin(b, f"!outside echo ran >> {beyond}/log", ask_handler=Person(("once", None)))
        assert (beyond / "log").read_text() == "ran\n"
        assert record.status == "completed"
        (started,) = of(events, "tool.started")
        assert (started["scope"], started["decision"]["by"]) == ("outside", "test")
        assert started["decision"]["rule"].startswith("approval:")
        _, events = await begin(b, f"!echo ran >> {beyond}/log")
        assert (beyond / "log").read_text() == "ran\n", "what makes the line above mean something"
