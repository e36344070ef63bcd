"""A whole run calls a server's tool: offered in a fixed order, asked about, recorded (PRO-3, BND-2, BND-3, QLT-3)."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Place
from tests.mcp.kit import HEAD, TAIL

from drawbar.testing.scenario import Scenario, say, use

TOOL = "mcp__t__one"
BODY = """\
open(os.environ["LOG"], "a").write("started\\n")
def called(id, params):
    open(os.environ["LOG"], "a").write("called\\n"); answer(id, text("the answer is 42"))
TOOLS = [tool("one", {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
              annotations={"readOnlyHint": True})]
"""


def toml(folder: Path, log: Path) -> str:
    program = folder / "server.py"
    program.write_text(HEAD + BODY + TAIL)
    return (
        f"[servers.t]\ncommand = {json.dumps(sys.executable)}\nargs = [{json.dumps(str(program))}]\n"
        f"env = {{ LOG = {json.dumps(str(log))} }}\n"
    )


@pytest.fixture
def log(place: Place, tmp_path: Path) -> Path:
    found = tmp_path / "person" / "log"
    (place.home / "config").mkdir(parents=True)
    (place.home / "config" / "mcp.toml").write_text(toml(tmp_path / "person", found))
    return found


def offered(place: Place) -> list[str]:
    return [tool["name"] for tool in place.model.requests[-1].parsed["tools"]]


def events(place: Place, run: int = -1) -> list[dict[str, Any]]:
    return [json.loads(line) for line in place.logs[run].read_text().splitlines()]


CALL = Scenario(turns=[use(TOOL, {"q": "x"}), say("Done.")])


@pytest.mark.clause("PRO-3", "BND-3")
def test_a_call_is_asked_about_and_its_answer_reaches_the_model(place: Place, log: Path) -> None:
    place.play(CALL)
    with place.at_terminal("run", "ask it") as terminal:
        terminal.expect("tool of another program")
        assert log.read_text() == "started\n"  # once, for its list of tools
        terminal.type("y")
        terminal.expect("Done.")
        terminal.wait()
    assert log.read_text() == "started\nstarted\ncalled\n"
    assert TOOL in offered(place)
    assert "the answer is 42" in json.dumps(place.model.requests[-1].parsed)
    kinds = [event["type"] for event in events(place)]
    assert kinds.count("tool.completed") == 1
    assert kinds.index("approval.requested") < kinds.index("tool.started")


@pytest.mark.clause("PRO-3", "BND-3", "RUN-35")
def test_where_nobody_answers_the_server_is_not_even_started(place: Place, log: Path) -> None:
    place.play(CALL)
    place.drawbar("mcp", "check")
    log.write_text("")
    done = place.drawbar("run", "ask it", "--ask-timeout", "0.2")
    assert done.returncode == 3
    assert log.read_text() == ""


@pytest.mark.clause("PRO-3", "BND-2", "BND-6")
@pytest.mark.parametrize("mode", [["--approval", "read-only"], ["--unattended"]])
def test_a_mode_that_refuses_it_offers_no_tool_and_asks_no_server(place: Place, log: Path, mode: list[str]) -> None:
    place.play(CALL)
    place.drawbar("run", "ask it", *mode)
    assert TOOL not in offered(place)
    assert not log.exists()
    assert [event for event in events(place) if event["type"] == "tool.refused"]


@pytest.mark.clause("PRO-3", "SES-18")
def test_always_covers_the_tool_until_its_server_is_another(place: Place, log: Path) -> None:
    place.play(Scenario(turns=[use(TOOL, {"q": "x"}), say("Done."), use(TOOL, {"q": "y"}), say("Again.")]))
    with place.at_terminal("run", "ask it", columns=200) as terminal:
        terminal.expect(f"{TOOL} (outside): * @")
        terminal.type("a")
        terminal.expect("Done.")
        terminal.wait()
    assert place.drawbar("run", "again", "--ask-timeout", "0.2").returncode == 0
    assert log.read_text().count("called") == 2
    settings = place.home / "config" / "mcp.toml"
    settings.write_text(settings.read_text() + 'tools = ["one"]\n[servers.t.headers]\n')
    assert place.drawbar("run", "again").returncode == 2
    settings.write_text(settings.read_text().partition("tools =")[0].replace("]\nenv", ', "another"]\nenv'))
    place.play(CALL)
    assert place.drawbar("run", "again", "--ask-timeout", "0.2").returncode == 3
    assert log.read_text().count("called") == 2


@pytest.mark.clause("QLT-3", "PRO-3")
def test_a_server_that_a_repository_names_never_starts_before_that_content_is_trusted(
    place: Place, tmp_path: Path
) -> None:
    log = tmp_path / "person" / "log"
    project = place.repo / ".drawbar" / "mcp.toml"
    project.parent.mkdir()
    project.write_text(toml(tmp_path / "person", log))
    place.play([say("Fine."), say("Fine.")])
    for argv in (["run", "go"], ["mcp", "list"], ["mcp", "check"], ["doctor"]):
        place.drawbar(*argv)
    assert not log.exists()
    assert "isn't trusted" in place.drawbar("mcp", "list").stdout.decode()
    assert TOOL not in offered(place)
    digest = hashlib.sha256(project.read_bytes()).hexdigest()
    (place.home / "trust.json").write_text(json.dumps({"files": {str(project): digest}}))
    place.drawbar("run", "go")
    assert TOOL in offered(place)
    assert log.read_text() == "started\n"


@pytest.mark.clause("PRO-3", "QLT-3")
def test_a_server_starts_in_the_home_not_where_the_repository_could_choose_its_programs(
    place: Place, log: Path, tmp_path: Path
) -> None:
    settings = place.home / "config" / "mcp.toml"
    settings.write_text('[servers.t]\ncommand = "sh"\nargs = ["-c", "pwd >&2; exit 7"]\n')
    done = place.drawbar("mcp", "check")
    assert done.returncode == 1
    assert os.path.realpath(tmp_path / "person") in done.stdout.decode()
    assert str(place.repo) not in done.stdout.decode().replace(str(settings), "")


@pytest.mark.clause("PRO-3", "CLI-2")
def test_list_and_check_and_what_is_not_built(place: Place, log: Path) -> None:
    before = json.loads(place.drawbar("mcp", "list", "--json").stdout)
    assert before["servers"][0]["tools"] is None
    assert not log.exists()
    assert place.drawbar("mcp", "check", "t").returncode == 0
    (server,) = json.loads(place.drawbar("mcp", "list", "--json").stdout)["servers"]
    assert [(tool["name"], tool["says_read_only"]) for tool in server["tools"]] == [(TOOL, True)]
    assert place.drawbar("mcp", "check", "other").returncode == 2
    refused = place.drawbar("mcp", "serve")
    assert refused.returncode == 2
    assert b"isn't built yet" in refused.stderr
    (place.home / "config" / "mcp.toml").write_text("[servers.t]\ncommand = 3\n")
    broken = place.drawbar("mcp", "list")
    assert broken.returncode == 2
    assert b"server 't': command must be" in broken.stderr
