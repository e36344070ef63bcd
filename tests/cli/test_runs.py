"""``drawbar runs``, ``doctor`` and ``reindex``: records looked into, as lines and as JSON (CLI-2, CLI-4, CLI-7)."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Place

from drawbar.contracts.codec import field_names
from drawbar.contracts.run import RunRecord
from drawbar.testing.scenario import say, use


@pytest.fixture
def run(place: Place) -> str:
    """A completed run's id."""
    place.play([use("bash", {"command": "cat a.txt"}), say("Done.")])
    assert place.drawbar("run", "look at a.txt", "--approval", "auto-workspace", "--title", "First").returncode == 0
    return place.logs[0].parent.name


def parsed(place: Place, *argv: str, code: int = 0) -> Any:
    done = place.drawbar(*argv, "--json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


@pytest.mark.clause("CLI-2", "CON-1")
def test_a_listing_is_one_object_and_pages(place: Place, run: str) -> None:
    place.play([say("Done.")])
    assert place.drawbar("run", "again").returncode == 0
    page = parsed(place, "runs", "list", "--limit", "1")
    assert set(page) == {"runs", "cursor"}
    rest = parsed(place, "runs", "list", "--cursor", page["cursor"])
    assert [r["id"] for r in rest["runs"]] == [run]
    assert rest["cursor"] is None
    one = rest["runs"][0]
    assert set(field_names(RunRecord)) - {"loaded_skills", "activated_plugins"} <= set(one)
    assert (one["status"], one["title"], one["plan"], one["terminal_code"]) == (
        "completed",
        "First",
        False,
        "completed",
    )
    assert parsed(place, "runs", "list", "--status", "failed") == {"runs": [], "cursor": None}
    assert [r["id"] for r in parsed(place, "runs", "list", "--session", one["session_id"])["runs"]] == [run]


@pytest.mark.clause("CLI-2")
def test_a_listing_for_people_fits_the_terminal(place: Place, run: str) -> None:
    lines = place.drawbar("runs", "list").stdout.decode().splitlines()
    assert lines[0].split() == ["RUN", "STATUS", "AGE", "MODEL", "REQUEST"]
    assert lines[1].startswith(f"{run}  completed  ")
    assert lines[1].endswith("First")
    place.env["COLUMNS"] = "50"
    for line in place.drawbar("runs", "list").stdout.decode().splitlines():
        assert len(line) <= 50
    assert place.drawbar("runs", "list", "--status", "failed").stdout == b""


@pytest.mark.clause("CLI-2", "CON-2")
def test_a_run_is_named_by_any_beginning_that_fits_it_alone(place: Place, run: str) -> None:
    assert parsed(place, "runs", "show", run[:8])["id"] == run
    assert f"run        {run}" in place.drawbar("runs", "show", run).stdout.decode()
    for wrong in ("r_nothing", "x"):
        done = place.drawbar("runs", "show", wrong, "--json")
        assert done.returncode == 2
        assert json.loads(done.stderr)["error"]["code"] == "not_found"


@pytest.mark.clause("CLI-2")
def test_events_are_the_lines_of_the_log(place: Place, run: str) -> None:
    lines = place.logs[0].read_bytes().splitlines(keepends=True)
    assert place.drawbar("runs", "events", run).stdout == b"".join(lines)
    assert place.drawbar("runs", "events", run, "--from", "5").stdout == b"".join(lines[5:])
    assert place.drawbar("runs", "follow", run, "--from", "5", "--json").stdout == b"".join(lines[5:])


@pytest.mark.clause("CLI-2", "API-2")
def test_a_settled_run_is_followed_as_it_was_shown(place: Place, run: str) -> None:
    text = place.drawbar("runs", "follow", run).stdout.decode()
    assert text.splitlines()[:2][0].startswith("• bash   cat a.txt  … exit 0 in ")
    assert "Done.\n" in text
    assert f"run    {run}" in text


@pytest.mark.clause("PRM-5")
def test_the_prompt_is_what_the_model_was_told(place: Place, run: str) -> None:
    told = parsed(place, "runs", "prompt", run)
    sent = place.model.requests[0].parsed
    assert sent is not None
    system = json.dumps(sent["system"])
    for section in told["sections"]:
        if not section["dynamic"]:
            assert json.dumps(section["text"].strip("\n"))[1:-1] in system
    assert "── identity (" in place.drawbar("runs", "prompt", run).stdout.decode()


def change(log: Path, how: str) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    if how == "altered":
        lines[3] = lines[3].replace(b'"seq":3', b'"seq":3 ')
    elif how == "dropped":
        del lines[3]
    elif how == "reordered":
        lines[3], lines[4] = lines[4], lines[3]
    else:
        del lines[-2:]
    log.write_bytes(b"".join(lines))


@pytest.mark.clause("CLI-7", "CON-11")
@pytest.mark.parametrize("how", ["altered", "dropped", "reordered", "cut"])
def test_verify_names_what_was_changed(place: Place, run: str, how: str, tmp_path: Path) -> None:
    assert parsed(place, "runs", "verify", run)["ok"] is True
    assert place.drawbar("runs", "verify", run).stdout.decode().endswith(" events, all as they were written\n")
    copy = shutil.copytree(place.logs[0].parent, tmp_path / "copy")
    change(copy / "events.jsonl", how)
    shutil.rmtree(place.home)  # a folder needs no data root
    found = parsed(place, "runs", "verify", str(copy), code=1)
    assert found["ok"] is False
    assert found["first_bad"]["cause"] == how
    assert how in place.drawbar("runs", "verify", str(copy)).stdout.decode()
    assert not place.home.exists()


@pytest.mark.clause("CLI-7")
def test_inspect_reads_a_damaged_folder(place: Place, run: str, tmp_path: Path) -> None:
    copy = shutil.copytree(place.logs[0].parent, tmp_path / "copy")
    log = copy / "events.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole[:200] + b"\x00" * 50 + whole[250:] + b'{"seq":99')
    found = parsed(place, "runs", "inspect", str(copy))
    assert set(found) == {"record", "events", "skipped", "first_bad", "todo"}
    assert found["record"]["id"] == run
    assert [set(s) for s in found["skipped"]] == [{"kind", "line", "offset", "bytes"}] * len(found["skipped"])
    assert found["skipped"][-1]["kind"] == "torn"
    assert "skipped" in place.drawbar("runs", "inspect", str(copy)).stdout.decode()
    assert parsed(place, "runs", "inspect", run)["skipped"] == []


@pytest.mark.clause("CLI-4")
def test_doctor_says_what_is_well_and_how_to_mend_the_rest(place: Place) -> None:
    ill = place.drawbar("doctor")
    assert ill.returncode == 1
    assert "ANTHROPIC_API_KEY" in ill.stdout.decode()
    place.play([])
    found = parsed(place, "doctor")
    checks = {check["name"]: check for check in found["checks"]}
    assert {"sandbox", "git", "accounts", "data root"} <= set(checks)
    assert all(check["ok"] for check in checks.values())
    assert "sk-scripted" not in json.dumps(found)


@pytest.mark.clause("CON-29", "CLI-2")
def test_reindex_makes_the_index_anew(place: Place, run: str) -> None:
    (place.home / "index.sqlite").unlink(missing_ok=True)
    assert parsed(place, "reindex") == {"runs": 1, "skipped": 0}
    assert [r["id"] for r in parsed(place, "runs", "list")["runs"]] == [run]
    assert place.drawbar("reindex").stdout == b"1 run indexed\n"


@pytest.mark.clause("CLI-2", "RUN-34")
def test_the_next_page_keeps_what_was_asked_for(place: Place, run: str) -> None:
    place.play([say("Done.")])
    assert place.drawbar("run", "again").returncode == 0
    said = place.drawbar("runs", "list", "--limit", "1", "--status", "completed", "--project", str(place.repo)).stderr
    words = shlex.split(said.decode().removeprefix("more: "))
    assert words[0] == "drawbar"
    assert {word.partition("=")[0] for word in words[3:]} == {"--status", "--project", "--limit", "--cursor"}
    assert place.drawbar(*words[1:]).stdout.decode().splitlines()[1].startswith(run)


@pytest.mark.clause("CLI-2")
def test_no_run_and_no_fitting_run_are_two_things(place: Place, run: str) -> None:
    assert place.drawbar("runs", "list", "--status", "failed").stderr.startswith(b"no run fits")
    shutil.rmtree(place.home)
    for argv in (["runs", "list"], ["runs", "list", "--status", "failed"], ["approvals", "list"]):
        done = place.drawbar(*argv)
        assert done.returncode == 0
        assert done.stderr.startswith((b"no runs; start one", b"no rule is saved"))
    assert parsed(place, "runs", "list") == {"runs": [], "cursor": None}
    missing = place.drawbar("runs", "show", run)
    assert missing.returncode == 2
    assert b"nothing was recorded yet" in missing.stderr
    assert not place.home.exists(), "looking made a data root"


@pytest.mark.clause("CLI-7")
@pytest.mark.parametrize("command", ["verify", "inspect"])
def test_a_folder_that_is_not_there_is_named(place: Place, command: str) -> None:
    done = place.drawbar("runs", command, "/nowhere/r_1")
    assert done.returncode == 2
    assert done.stderr == b"drawbar: there is no folder /nowhere/r_1\n"


@pytest.mark.clause("CLI-4")
def test_doctor_works_when_things_are_broken(place: Place, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    place.env |= {
        "DRAWBAR_HOME": str(tmp_path / "file" / "root"),
        "ANTHROPIC_API_KEY": "sk-x",
        "ANTHROPIC_BASE_URL": "user:hunter2@localhost:80",
    }
    checks = {check["name"]: check for check in parsed(place, "doctor", code=1)["checks"]}
    assert not checks["data root"]["ok"]
    assert "DRAWBAR_HOME" in checks["data root"]["cure"]
    assert not checks["accounts"]["ok"]
    assert "ANTHROPIC_BASE_URL" in checks["accounts"]["cure"]
    assert "hunter2" not in json.dumps(checks)
    assert checks["git"]["ok"], "the rest is looked at all the same"
    for folder in ("data ", "state ", "config "):
        assert folder + str(tmp_path / "file" / "root") in checks["folders"]["message"]


@pytest.mark.clause("CLI-4", "CON-36")
@pytest.mark.parametrize("made", [False, True])
@pytest.mark.parametrize(
    ("text", "named"), [('approval = "yolo"', "mend approval"), ("approval = [", "mend that file")]
)
def test_doctor_names_what_is_wrong_in_the_settings(place: Place, made: bool, text: str, named: str) -> None:
    place.play([say("Done.")])
    if made:
        assert place.drawbar("run", "go").returncode == 0
    config = place.home / "config" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(text)
    checks = {check["name"]: check for check in parsed(place, "doctor", code=1)["checks"]}
    assert not checks["settings"]["ok"]
    assert str(config) in checks["settings"]["message"]
    assert checks["settings"]["cure"].startswith(named)
    assert checks["data root"]["ok"]


@pytest.mark.clause("CLI-4", "CON-30")
def test_doctor_makes_no_root_and_leaves_a_newer_one_alone(place: Place) -> None:
    place.play([])
    found = {check["name"]: check for check in parsed(place, "doctor")["checks"]}
    assert "the first run makes it" in found["data root"]["message"]
    assert not place.home.exists()
    place.home.mkdir()
    (place.home / "format.json").write_text('{"format": 99, "needs": 99}')
    found = {check["name"]: check for check in parsed(place, "doctor", code=1)["checks"]}
    assert "upgrade drawbar" in found["data root"]["message"]
    assert [path.name for path in place.home.iterdir()] == ["format.json"]
