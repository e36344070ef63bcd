"""Files that several processes share, and the locks that say who may write (SES-24, CON-27, CON-28, CON-30)."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.stores.support import RUN, HeldClock, PlainRedactor, answer_of, fill, new_log, python, small_disk, write_run

from drawbar.contracts.errors import IncompatibleRoot, InvalidInput, SessionBusy, StorageFailed
from drawbar.stores.atomic import update_json, write_atomic
from drawbar.stores.event_log import EventLog
from drawbar.stores.layout import Layout
from drawbar.stores.locks import folder_lock, lock_within, locked_elsewhere
from drawbar.stores.owner import Owner, current_owner, owner_alive, process_alive, read_owner

BUGS = Path(__file__).parents[1] / "fixtures" / "bugs"


# -- whole files ------------------------------------------------------------------------------------------


@pytest.mark.clause("CON-26", "CON-28")
def test_a_file_is_replaced_as_a_whole_and_private(tmp_path: Path) -> None:
    path = tmp_path / "f"
    old = os.umask(0)
    try:
        for data in (b"one", b"", b"three" * 100_000):
            write_atomic(path, data, sync=len(data) == 3)
            assert path.read_bytes() == data
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
    finally:
        os.umask(old)
    assert os.listdir(tmp_path) == ["f"]


@pytest.mark.clause("QLT-6")
def test_a_full_disk_leaves_the_old_file_and_no_rest(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 128) as disk:
        write_atomic(disk / "f", b"old")
        free = fill(disk)
        with pytest.raises(StorageFailed, match="No space left"):
            write_atomic(disk / "f", b"n" * 10_000)
        assert (disk / "f").read_bytes() == b"old"
        assert sorted(os.listdir(disk)) == ["ballast", "f"]
        free()


@pytest.mark.clause("CON-28")
def test_a_link_in_the_files_place_is_replaced_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("mine")
    (tmp_path / "f").symlink_to(tmp_path / "other")
    write_atomic(tmp_path / "f", b"new")
    assert (tmp_path / "other").read_text() == "mine"
    assert not (tmp_path / "f").is_symlink()


@pytest.mark.clause("CON-28")
@pytest.mark.bug("SES-24")
def test_eight_processes_lose_no_update_and_no_reader_sees_a_part(tmp_path: Path) -> None:
    path = tmp_path / "shared.json"
    write_atomic(path, b"{}")
    code = """
        import pathlib, sys
        from drawbar.stores.atomic import update_json
        for number in range(40):
            update_json(pathlib.Path(sys.argv[1]), lambda old: {**old, f"{sys.argv[2]}-{number}": "x" * 50})
    """
    writers = [python(code, str(path), str(n)) for n in range(8)]
    reads = 0
    while any(writer.poll() is None for writer in writers):
        assert isinstance(json.loads(path.read_bytes()), dict)
        reads += 1
    for writer in writers:
        answer_of(writer)
    assert reads > 10
    assert len(json.loads(path.read_bytes())) == 320
    assert os.listdir(tmp_path) == ["shared.json"]


@pytest.mark.bug("SES-24")
@pytest.mark.clause("CON-28")
def test_a_shared_file_that_is_damaged_is_never_reset(tmp_path: Path) -> None:
    path = tmp_path / "shared.json"
    for damaged in (b'{"a": 1', b"[1]", b"null", b"\xff\xfe"):
        path.write_bytes(damaged)
        with pytest.raises(StorageFailed):
            update_json(path, lambda old: {**old, "b": 2})
        assert path.read_bytes() == damaged
    for empty in (b"", b"\0" * 40, b" \n"):
        path.write_bytes(empty)
        assert update_json(path, lambda old: {**old, "b": 2}) == {"b": 2}
    assert update_json(tmp_path / "deep" / "er" / "new.json", lambda old: {**old, "c": 3}) == {"c": 3}
    assert stat.S_IMODE((tmp_path / "deep" / "er").stat().st_mode) == 0o700


@pytest.mark.bug("SES-24")
def test_a_change_that_raises_changes_nothing_and_lets_go(tmp_path: Path) -> None:
    path = tmp_path / "shared.json"
    update_json(path, lambda _old: {"a": 1})
    before = path.stat().st_ino

    def boom(_old: dict[str, object]) -> dict[str, object]:
        raise KeyError("x")

    with pytest.raises(KeyError):
        update_json(path, boom)
    assert update_json(path, lambda old: old) == {"a": 1}
    assert path.stat().st_ino == before, "nothing to write, nothing written"


# -- locks ------------------------------------------------------------------------------------------------


@pytest.mark.clause("CON-27")
def test_a_folder_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    with folder_lock(tmp_path), pytest.raises(SessionBusy), folder_lock(tmp_path, limit_s=0.05):
        pass
    with folder_lock(tmp_path, limit_s=0):
        pass
    with pytest.raises(StorageFailed), folder_lock(tmp_path / "missing"):
        pass


@pytest.mark.clause("CON-27")
def test_probing_a_free_lock_does_not_keep_anybody_from_taking_it(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.touch()
    prober = python(
        """
        import pathlib, sys
        from drawbar.stores.locks import locked_elsewhere
        print("ready", flush=True)
        while True:
            locked_elsewhere(pathlib.Path(sys.argv[1]))
        """,
        str(path),
    )
    assert prober.stdout is not None
    prober.stdout.readline()
    try:
        for _ in range(100):
            fd = os.open(path, os.O_RDWR)
            assert lock_within(fd, 0.5)
            os.close(fd)
    finally:
        prober.kill()
        prober.communicate()


@pytest.mark.clause("CON-27")
def test_a_probe_tells_held_free_and_nothing_there(tmp_path: Path) -> None:
    path = tmp_path / "f"
    assert locked_elsewhere(path) is None
    path.touch()
    assert locked_elsewhere(path) is False
    fd = os.open(path, os.O_RDWR)
    assert lock_within(fd, 0)
    assert locked_elsewhere(path) is True
    os.close(fd)
    assert locked_elsewhere(path) is False


# -- who owns a run ---------------------------------------------------------------------------------------


def written(folder: Path, owner: Owner) -> Owner:
    folder.mkdir(exist_ok=True)
    from drawbar.contracts.codec import encode

    (folder / "owner.json").write_bytes(encode(owner))
    return owner


@pytest.mark.clause("CON-27")
def test_an_owner_is_host_pid_start_and_boot(tmp_path: Path) -> None:
    owner = current_owner("/run/x.sock")
    assert written(tmp_path, owner) == read_owner(tmp_path)
    assert owner.pid == os.getpid()
    assert owner.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert owner.start_time == int(Path(f"/proc/{os.getpid()}/stat").read_text().rsplit(")", 1)[1].split()[19])
    assert len(owner.host) == 16
    assert process_alive(owner)


@pytest.mark.clause("CON-27")
@pytest.mark.bug("STL-03")
def test_a_recycled_pid_is_never_taken_for_the_owner(tmp_path: Path) -> None:
    """The pid lives, as an unrelated program; with a lock to tell by and without one."""
    other = subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL)
    try:
        mine = current_owner()
        for stranger in (
            Owner(host=mine.host, pid=other.pid, start_time=1, boot_id=mine.boot_id),
            Owner(host=mine.host, pid=other.pid, start_time=None, boot_id=mine.boot_id),
            Owner(host=mine.host, pid=mine.pid, start_time=mine.start_time, boot_id="another boot"),
            Owner(pid=other.pid),
            Owner(pid=-1, boot_id=mine.boot_id),
        ):
            assert not process_alive(stranger)
            assert not owner_alive(written(tmp_path, stranger), tmp_path)
            (tmp_path / "events.jsonl").touch()
            assert not owner_alive(stranger, tmp_path)
            (tmp_path / "events.jsonl").unlink()
    finally:
        other.kill()
        other.wait()


@pytest.mark.clause("CON-27")
def test_a_dead_process_that_nobody_waited_for_is_dead() -> None:
    child = subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL)
    started = int(Path(f"/proc/{child.pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
    owner = Owner(host="h", pid=child.pid, start_time=started, boot_id=current_owner().boot_id)
    assert process_alive(owner)
    child.kill()
    time.sleep(0.05)
    assert Path(f"/proc/{child.pid}").exists(), "a zombie"
    assert not process_alive(owner)
    child.wait()


@pytest.mark.clause("CON-27")
@pytest.mark.bug("STL-04", "STL-03")
def test_what_a_file_says_never_blocks_a_free_lock(tmp_path: Path) -> None:
    write_run(tmp_path)
    dead = (BUGS / "STL-04" / "session.jsonl.lock").read_bytes()
    for content in (dead, b"", b"garbage", b"\0\0\0", b"[]", json.dumps({"pid": os.getppid()}).encode()):
        (tmp_path / "owner.json").write_bytes(content)
        start = time.monotonic()
        assert not owner_alive(read_owner(tmp_path), tmp_path)
        EventLog.take_over(tmp_path, RUN, redactor=PlainRedactor(), clock=HeldClock()).close()
        assert time.monotonic() - start < 2


@pytest.mark.clause("CON-27", "RUN-17")
def test_the_lock_decides_also_for_this_very_process(tmp_path: Path) -> None:
    mine = written(tmp_path, current_owner())
    log = new_log(tmp_path)
    assert owner_alive(mine, tmp_path)
    assert owner_alive(None, tmp_path), "held by somebody, whoever that is"
    log.close()
    assert not owner_alive(mine, tmp_path), "the process lives, but let the run go"


@pytest.mark.clause("CON-27", "RUN-17", "QLT-21")
def test_a_run_of_another_machine_is_not_gone_while_its_log_grows(tmp_path: Path) -> None:
    """On a shared disk whose locks don't reach this machine the lock looks free."""
    write_run(tmp_path)
    far = Owner(host="another machine", pid=1, start_time=1, boot_id="another boot")
    assert owner_alive(far, tmp_path)
    quiet = time.time() - 400
    os.utime(tmp_path / "events.jsonl", (quiet, quiet))
    assert not owner_alive(far, tmp_path)
    os.utime(tmp_path / "events.jsonl")
    rebooted = Owner(host=current_owner().host, pid=1, start_time=1, boot_id="another boot")
    assert not owner_alive(rebooted, tmp_path)


# -- the layout -------------------------------------------------------------------------------------------


@pytest.mark.clause("CON-30", "CON-36")
def test_the_folders_are_found_in_order(tmp_path: Path) -> None:
    home = {"DRAWBAR_HOME": str(tmp_path / "home"), "XDG_DATA_HOME": "/x/data"}
    assert Layout.resolve(home, tmp_path / "flag").data == tmp_path / "flag"
    named = Layout.resolve(home)
    assert (named.data, named.state, named.config) == (
        tmp_path / "home", tmp_path / "home" / "state", tmp_path / "home" / "config"
    )  # fmt: skip
    xdg = Layout.resolve({"XDG_DATA_HOME": "/x/data", "XDG_STATE_HOME": "/x/state", "XDG_CONFIG_HOME": "/x/config"})
    assert xdg.hidden() == (Path("/x/data/drawbar"), Path("/x/state/drawbar"), Path("/x/config/drawbar"))
    platform = Layout.resolve({"DRAWBAR_HOME": "  "})
    assert all(folder.is_absolute() and "drawbar" in folder.name for folder in platform.hidden())
    assert len(set(platform.hidden())) == 3
    assert Layout.resolve({"DRAWBAR_HOME": "relative"}).data == Path.cwd() / "relative"
    assert not (tmp_path / "home").exists(), "resolving touches nothing"


@pytest.mark.clause("CON-36", "CON-26")
def test_every_file_has_its_place(tmp_path: Path) -> None:
    layout = Layout.resolve({}, tmp_path)
    assert layout.run("r_1") == tmp_path / "runs" / "r_1"
    assert layout.history_dir("s_1") == tmp_path / "sessions" / "s_1" / "history"
    assert tmp_path / "state" in layout.session_tmp("s_1").parents
    assert layout.approvals_file == tmp_path / "approvals.jsonl"
    assert layout.trust_file == tmp_path / "trust.json"
    assert layout.worktrees_file == tmp_path / "worktrees.json"
    assert layout.index_file == tmp_path / "index.sqlite"
    assert (layout.snapshots, layout.registry) == (tmp_path / "snapshots", tmp_path / "registry")


@pytest.mark.clause("CON-2", "CON-36")
@given(st.text(max_size=20) | st.sampled_from(["..", ".", "../x", "a/b", "/etc", "", ".building", "a\0b", "x\n"]))
def test_no_id_leads_out_of_its_folder(name: str) -> None:
    layout = Layout(Path("/data"), Path("/data/state"), Path("/data/config"))
    for place, parent in ((layout.run, layout.runs), (layout.session, layout.sessions), (layout.marker, layout.active)):
        try:
            path = place(name)
        except InvalidInput:
            continue
        assert path.parent == parent
        assert os.path.normpath(path) == str(path)
        assert not path.name.startswith(".")


@pytest.mark.clause("CON-28", "CON-36")
def test_opening_makes_private_folders_and_names_the_format(tmp_path: Path) -> None:
    loose = tmp_path / "root"
    loose.mkdir(mode=0o755)
    layout = Layout.resolve({}, loose)
    old = os.umask(0)
    try:
        layout.open()
        layout.open()
    finally:
        os.umask(old)
    folders = [loose, *(path for path in loose.rglob("*") if path.is_dir())]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}
    assert json.loads(layout.format_file.read_bytes())["needs"] == 1
    assert stat.S_IMODE(layout.format_file.stat().st_mode) == 0o600


@pytest.mark.clause("CON-28")
def test_a_folder_with_other_peoples_files_keeps_its_mode(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    (shared / "theirs").touch()
    Layout.resolve({}, shared).open()
    assert stat.S_IMODE(shared.stat().st_mode) == 0o755
    assert stat.S_IMODE((shared / "runs").stat().st_mode) == 0o700


@pytest.mark.clause("CON-30", "CON-8")
def test_a_newer_incompatible_root_is_left_alone(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "format.json").write_text(json.dumps({"format": 9, "needs": 2, "made_by": "7.0"}))
    layout = Layout.resolve({}, root)
    with pytest.raises(IncompatibleRoot, match=r"7\.0.*Nothing was changed"):
        layout.open()
    assert os.listdir(root) == ["format.json"]
    (root / "format.json").write_text("not json")
    with pytest.raises(IncompatibleRoot):
        layout.open()
    assert os.listdir(root) == ["format.json"]
    (root / "format.json").write_text(json.dumps({"format": 9, "needs": 1, "made_by": "7.0", "new": True}))
    layout.open()
    assert json.loads((root / "format.json").read_text())["made_by"] == "7.0", "a compatible newer one stays as it is"


@pytest.mark.clause("CON-30")
def test_a_format_file_that_a_power_cut_emptied_is_written_anew(tmp_path: Path) -> None:
    layout = Layout.resolve({}, tmp_path)
    for empty in (b"", b"\0" * 54):
        layout.format_file.write_bytes(empty)
        layout.open()
        assert json.loads(layout.format_file.read_bytes())["needs"] == 1


def refusal(root: Path) -> str:
    with pytest.raises(StorageFailed) as refused:
        Layout.resolve({"DRAWBAR_HOME": str(root)}).open()
    assert "once the disk has room" not in refused.value.message
    assert "set DRAWBAR_HOME to" in refused.value.message
    return refused.value.message


@pytest.mark.clause("CON-28", "CON-30", "CON-36")
def test_what_is_in_the_way_of_a_root_is_named(tmp_path: Path) -> None:
    file, link, circle, pipe = (tmp_path / name for name in ("file", "link", "circle", "pipe"))
    file.touch()
    link.symlink_to(tmp_path / "gone")
    circle.symlink_to(circle)
    os.mkfifo(pipe)
    said = {
        file: "is a file, not a folder",
        link: f"is a symbolic link to nothing ({tmp_path / 'gone'}), not a folder",
        circle: "is a symbolic link that leads back to itself, not a folder",
        pipe: "is a named pipe, not a folder",
    }
    for path, words in said.items():
        for root in (path, path / "below" / "it"):
            assert f"{path} {words}" in refusal(root)
    assert not (tmp_path / "gone").exists()
    (tmp_path / "gone").mkdir()
    Layout.resolve({}, link).open()
    shutil.rmtree(tmp_path / "gone" / "runs")
    (tmp_path / "gone" / "runs").touch()
    assert "runs is a file, not a folder" in refusal(link)


@pytest.mark.clause("QLT-5", "CON-30")
def test_a_format_that_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "format.json")
    with pytest.raises(StorageFailed, match=r"format\.json is a named pipe"):
        Layout.resolve({}, tmp_path).open()


@pytest.mark.clause("CON-28", "CON-30")
def test_a_root_of_somebody_else_says_whose_it_is(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    with tempfile.TemporaryDirectory() as made:
        shut, closed, used = (Path(made) / name for name in ("shut", "closed", "used"))
        Layout.resolve({}, used).open()
        shut.mkdir(0o755)
        closed.mkdir(0o700)
        Path(made).chmod(0o755)
        os.seteuid(65534)
        try:
            said = {root: refusal(root) for root in (shut, shut / "new", closed, closed / "new", used)}
        finally:
            os.seteuid(0)
        nobody = pwd.getpwuid(65534).pw_name
        for root, words in said.items():
            assert f"belongs to {pwd.getpwuid(0).pw_name} (mode 07" in words, root
            assert f"refuses {nobody}: Permission denied" in words
            assert str(root) in words
