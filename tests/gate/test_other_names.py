"""A closed file stays closed whatever it is called: hard links, case, trailing dots, detours (BND-17)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gate.kit import gate, judged, pinned, policy, workspace

from drawbar.boundary.gate import PolicyGate
from drawbar.boundary.other_names import OtherNames, TooManyNames
from drawbar.boundary.reach import deny_matcher, folded

TOOLS: tuple[tuple[str, dict[str, Any]], ...] = (("read", {}), ("write", {"content": ""}), ("edit", {"content": ""}))


async def closed(made: PolicyGate, path: str, rule: str) -> None:
    for tool, more in TOOLS:
        verdict = await judged(made, tool, path=path, **more)
        assert (verdict.outcome, verdict.code, verdict.rule) == ("refuse", "unreachable_path", rule), (tool, path)


async def open_to_reads(made: PolicyGate, path: str) -> None:
    assert (await judged(made, "read", path=path)).outcome == "allow", path


@pytest.mark.clause("BND-17")
@pytest.mark.bug("APR-08", "SBX-02")
async def test_a_hard_link_of_a_denied_file_is_that_file(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    (root / "secrets").mkdir()
    for name in (".env", "d/.env", "secrets/key"):
        (root / name).write_text("KEY=1")
        os.link(root / name, root / name.replace("/", "-").replace(".", "plain"))
    os.link(root / "a.txt", root / "d" / "b.txt")
    made = gate(root, deny_read=(".env", "secrets/"))
    for alias in ("plainenv", "d-plainenv", "secrets-key"):
        await closed(made, alias, "path:deny_read")
    for fine in ("a.txt", "d/b.txt"):
        await open_to_reads(made, fine)
        assert (await judged(made, "edit", path=fine, content="")).outcome == "allow"
    for alias in ("plainenv", "d-plainenv"):
        await open_to_reads(gate(root), alias)


@pytest.mark.clause("BND-17")
@pytest.mark.bug("APR-08")
async def test_a_link_that_is_made_while_the_run_goes_on_is_found(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    (root / ".env").write_text("KEY=1")
    os.link(root / "a.txt", root / "other.txt")
    made = gate(root, deny_read=(".env",))
    await open_to_reads(made, "other.txt")
    os.link(root / ".env", root / "new.txt")
    await closed(made, "new.txt", "path:deny_read")


@pytest.mark.clause("BND-16", "BND-17")
async def test_a_hard_link_of_what_is_closed_outside_is_closed_inside(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    home, data, notes = tmp_path / "home", tmp_path / "data", tmp_path / "notes"
    for folder in (home / ".ssh", data / "runs", notes):
        folder.mkdir(parents=True)
    (home / ".ssh" / "id_rsa").write_text("key")
    (data / "runs" / "events").write_text("event")
    (notes / "diary").write_text("dear diary")
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "package.js").write_text("js")
    os.link(home / ".ssh" / "id_rsa", root / "one.txt")
    os.link(data / "runs" / "events", root / "two.txt")
    os.link(notes / "diary", root / "three.txt")
    os.link(tmp_path / "store" / "package.js", root / "package.js")
    for deny in ((str(notes),), (str(notes / "diary"), "*.pem")):
        made = PolicyGate(policy(root, hidden=(data,), deny_read=deny), _specs(), homes=(home,))
        await closed(made, "one.txt", "path:credential")
        await closed(made, "two.txt", "path:hidden")
        await closed(made, "three.txt", "path:deny_read")
        await open_to_reads(made, "package.js")


def _specs() -> Any:
    from tests.gate.kit import SPECS

    return SPECS


@pytest.mark.clause("BND-17", "BND-7")
@pytest.mark.bug("APR-08")
@pytest.mark.parametrize(
    "path",
    [
        ".ENV",
        ".Env",
        ".env.",
        ".env ",
        ".env. .",
        "./.env",
        "d/../.env",
        ".//.env",
        "SECRETS/x",
        "secrets./x",
        "Secrets /x",
        "\u017fecrets/x",
        ".e\u200bnv",
        "re\u0301sume\u0301.txt",
        "R\u00c9SUM\u00c9.TXT",
    ],
)
async def test_other_ways_to_write_a_closed_name(tmp_path: Path, path: str) -> None:
    """Each is the same file to some file system: without case, dropping trailing dots, or normalising letters."""
    made = gate(workspace(tmp_path), deny_read=(".env", "secrets/", "r\u00e9sum\u00e9.txt"))
    for tool, more in (*TOOLS, ("ls", {})):
        verdict = await judged(made, tool, path=path, **more)
        assert (verdict.outcome, verdict.rule) == ("refuse", "path:deny_read"), (tool, path)


@pytest.mark.clause("BND-7", "BND-16", "BND-17")
async def test_other_ways_to_write_what_is_closed_by_place(tmp_path: Path) -> None:
    root, home, data = workspace(tmp_path), tmp_path / "home", tmp_path / "data"
    home.mkdir()
    made = PolicyGate(policy(root, hidden=(data,), approval="ask"), _specs(), homes=(home,))
    for path, rule in [
        (home / ".SSH" / "id_rsa", "path:credential"),
        (home / ".ssh." / "id_rsa", "path:credential"),
        (home / ".Aws" / "Credentials", "path:credential"),
        (tmp_path / "DATA" / "runs", "path:hidden"),
        (tmp_path / "data " / "runs", "path:hidden"),
    ]:
        assert (await judged(made, "read", path=str(path))).rule == rule, path
    for name in (".GIT/config", ".git./config", ".git /x", "GIT~1/config", ".g\u200cit/x", ".Drawbar/x", "d/.git. ./x"):
        verdict = await judged(made, "write", path=name, content="")
        assert verdict.code == "unreachable_path", name


@pytest.mark.clause("BND-17")
@pytest.mark.bug("APR-08", "SBX-10")
async def test_detours_lead_to_the_same_answer(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    (root / ".env").write_text("KEY=1")
    (root / "l1").symlink_to(".env")
    (root / "l2").symlink_to("l1")
    (root / "d" / "l3").symlink_to("../l2")
    (root / "up").symlink_to("d/..")
    (root / "proc").symlink_to("/proc/self/root" + str(root / ".env"))
    (root / "cwd").symlink_to("/proc/self/cwd")
    made = gate(root, deny_read=(".env",))
    for path in ("l1", "l2", "d/l3", "up/.env", "up/up/l2", "proc", f"{root}/../{root.name}/.env"):
        verdict = await judged(made, "read", path=path)
        assert (verdict.outcome, verdict.rule) == ("refuse", "path:deny_read"), path
    direct = await judged(made, "read", path="/proc/self/root" + str(root / ".env"))
    assert direct.rule in ("path:kernel", "path:deny_read")
    assert (await judged(made, "read", path="/dev/fd/0")).rule == "path:kernel"


@pytest.mark.clause("BND-17")
def test_a_look_that_takes_too_long_closes_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import drawbar.boundary.other_names as module

    root = workspace(tmp_path)
    os.link(root / "a.txt", root / "b.txt")
    found = (root / "a.txt").stat()
    assert OtherNames(str(root), tuple, inside=True).of(found, str(root / "a.txt")) == (str(root / "b.txt"),)
    monkeypatch.setattr(module, "_LIMIT_S", -1.0)
    with pytest.raises(TooManyNames):
        OtherNames(str(root), tuple, inside=True).of(found, str(root / "a.txt"))


@pytest.mark.clause("BND-17")
async def test_one_look_serves_a_burst_of_reads(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    for number in range(300):
        (root / "d" / f"{number}").write_text("")
        os.link(root / "d" / f"{number}", root / f"{number}")
    looks: list[int] = []

    def places() -> list[str]:
        looks.append(1)
        return []

    names = OtherNames(str(root.resolve()), places, inside=True)
    for number in range(300):
        path = root.resolve() / f"{number}"
        assert names.of(path.stat(), str(path)) == (str(root.resolve() / "d" / f"{number}"),)
    assert looks == [], "all names were found inside"
    assert pinned(root) is not None


@pytest.mark.clause("BND-17")
@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0/"), min_size=1, max_size=8))
def test_folding_is_stable_and_closes_every_case_of_a_name(name: str) -> None:
    assert folded(folded(f"/ws/{name}/x")) == folded(f"/ws/{name}/x")
    matches: Callable[[Path], bool] = deny_matcher(("secret.key",), Path("/ws"))
    for spelled in ("secret.key", "SECRET.KEY", "Secret.Key"):
        assert matches(Path(f"/ws/{spelled}"))
        if name.strip(". "):
            assert matches(Path("/ws") / name / spelled)


@pytest.mark.clause("BND-17")
@pytest.mark.bug("APR-08")
async def test_the_shell_gets_the_other_names_masked_too(tmp_path: Path) -> None:
    from drawbar.boundary.root_scan import RootScan

    root = workspace(tmp_path).resolve()
    (root / "secrets").mkdir()
    for name in (".env", "secrets/key"):
        (root / name).write_text("KEY=1")
        os.link(root / name, root / "d" / name.replace("/", "-").replace(".", "plain"))
    os.link(root / "a.txt", root / "d" / "b.txt")
    scanned = await RootScan(root, (".env", "secrets/")).result()
    masked = {str(path.relative_to(root)) for path in scanned.denied}
    assert masked == {".env", "secrets", "d/plainenv", "d/secrets-key"}
