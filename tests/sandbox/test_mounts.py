"""The mount plan as data: the most specific path wins, nothing redundant is mounted (BND-10)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbar.boundary.mounts import Mount, MountTable, mount_table, unconfined_table
from drawbar.contracts.boundary import PinnedRoot, SandboxPlan

pytestmark = pytest.mark.clause("BND-8", "BND-9", "BND-10")

ROOT = Path("/home/me/project")
CACHE = "/home/me/.cache"

parts = st.lists(st.sampled_from(["home", "me", "project", "x", ".git", "hooks", "tmp", "opt"]), min_size=1, max_size=5)
paths = st.builds(lambda names: Path("/", *names), parts)
some = st.lists(paths, max_size=4, unique=True).map(tuple)


def plan(root: Path = ROOT, **rest: object) -> SandboxPlan:
    pinned = PinnedRoot(path=root, device=1, inode=2, working_directory=root)
    defaults: dict[str, object] = {
        "scope": "workspace",
        "private_tmp": Path("/state/tmp/s_1"),
        "masked": (Path("/home"), Path("/home/me"), Path("/root")),
        "env": (("XDG_CACHE_HOME", CACHE),),
    }
    return SandboxPlan(root=pinned, cwd=root, **(defaults | rest))  # pyright: ignore[reportArgumentType]


def view(table: MountTable, path: Path, base: str = "read-only") -> str:
    """What a command sees at ``path``: the kind of the last mount above it."""
    seen = base
    for mount in table.mounts:
        if path == mount.path or path.is_relative_to(mount.path):
            seen = mount.kind
    return seen


plans = st.builds(
    plan,
    root=paths.filter(lambda path: len(path.parts) > 2),
    scope=st.sampled_from(["workspace", "read-only"]),
    private_tmp=st.sampled_from([None, Path("/state/tmp/s_1")]),
    masked=some,
    masked_files=some,
    readable=some,
    writable=some,
    read_only=some,
)


@given(plans)
def test_parents_come_before_children(made: SandboxPlan) -> None:
    table = mount_table(made)
    ordered = [mount.path for mount in table.mounts]
    assert len(set(ordered)) == len(ordered)
    for position, path in enumerate(ordered):
        assert not any(later in path.parents for later in ordered[position + 1 :])


@given(plans)
def test_what_is_hidden_stays_hidden(made: SandboxPlan) -> None:
    """Nothing below a hidden path shows, unless something more specific was granted."""
    table = mount_table(made)
    granted = {made.root.path, *made.readable, *made.writable, *made.read_only}
    for hidden in (*made.masked, *made.masked_files):
        for path in (hidden, hidden / "deep" / "er"):
            if not any(
                hidden != grant and path.is_relative_to(grant) and grant.is_relative_to(hidden) for grant in granted
            ):
                assert view(table, path) not in ("read-only", "writable"), (hidden, path)


@given(plans)
def test_writes_go_only_where_they_were_granted(made: SandboxPlan) -> None:
    table = mount_table(made)
    granted = {*made.writable, *((made.root.path,) if made.scope == "workspace" else ())}
    assert {mount.path for mount in table.mounts if mount.kind == "writable"} <= granted
    for closed in made.read_only:
        if closed not in (*made.masked, *made.masked_files):
            assert view(table, closed) in ("read-only",), closed


@given(plans)
def test_no_mount_point_lies_loose_in_a_private_folder(made: SandboxPlan) -> None:
    """A command may have left a symlink under any name in a kept folder; each name used is a mount of its own."""
    table = mount_table(made)
    mounts = {mount.path: mount for mount in table.mounts}
    anchored = {(anchor.folder, anchor.name) for anchor in table.anchors}
    for mount in table.mounts:
        above = mount.path.parent
        while above not in mounts and above != Path("/"):
            above = above.parent
        parent = mounts.get(above)
        if parent is not None and parent.kind == "private":
            assert mount.path.parent == parent.path, "never deeper than one name"
            assert (parent.source, mount.path.name) in anchored


@given(plans)
def test_private_folders_are_shared_only_with_the_same_names(made: SandboxPlan) -> None:
    first, second = mount_table(made), mount_table(plan(root=Path("/srv/other")))
    by_source = {mount.source: mount.path for mount in first.mounts if mount.kind == "private"}
    anchored = {anchor.folder for anchor in first.anchors}
    for mount in second.mounts:
        if mount.source in anchored and mount.kind == "private":
            names = {anchor.name for anchor in second.anchors if anchor.folder == mount.source}
            assert names >= {anchor.name for anchor in first.anchors if anchor.folder == mount.source}
        if mount.source in by_source:
            assert by_source[mount.source] == mount.path


@given(plans)
def test_nothing_redundant_is_mounted(made: SandboxPlan) -> None:
    table = mount_table(made)
    for position, mount in enumerate(table.mounts):
        before = MountTable(table.mounts[:position])
        if mount.kind == "read-only":
            assert view(before, mount.path) != "read-only", mount


def test_an_ordinary_project_below_the_home() -> None:
    table = mount_table(
        plan(
            readable=(Path("/home/me/.cargo"), Path("/usr/lib/x")),
            writable=(ROOT / ".git",),
            read_only=(ROOT / ".git" / "hooks",),
            masked_files=(Path("/home/me/.cargo/credentials"), ROOT / ".env", Path("/home/me/.netrc")),
        )
    )
    shown = {str(mount.path): mount.kind for mount in table.mounts}
    assert "/home/me" not in shown, "already hidden with /home"
    assert view(table, Path("/home/me/.ssh/id")) == "hidden-folder"
    assert "/home/me/.netrc" not in shown, "already hidden with the home"
    assert "/usr/lib/x" not in shown, "already visible read-only"
    assert shown["/home/me/.cargo"] == "read-only"
    assert shown["/home/me/.cargo/credentials"] == "hidden-file"
    assert shown[str(ROOT)] == "writable"
    assert shown[f"{ROOT}/.git/hooks"] == "read-only"
    assert shown[CACHE] == shown["/tmp"] == shown["/var/tmp"] == "private"
    assert shown["/run"] == shown["/dev/shm"] == "fresh"
    opened = {str(mount.path) for mount in table.mounts if mount.open}
    assert opened == {"/home"}
    assert table.anchors == ()


def test_a_read_only_scope_has_nothing_writable_that_lasts() -> None:
    table = mount_table(plan(scope="read-only", private_tmp=None))
    assert {mount.kind for mount in table.mounts} == {"read-only", "hidden-folder", "fresh"}


def test_a_root_in_the_temporary_folder() -> None:
    table = mount_table(plan(root=Path("/tmp/a/b/root"), masked=(), env=()))
    kinds = {str(mount.path): (mount.kind, mount.source) for mount in table.mounts}
    assert kinds["/tmp/a"][0] == kinds["/tmp/a/b"][0] == "private"
    assert kinds["/tmp/a/b/root"] == ("writable", None)
    assert len({source for kind, source in kinds.values() if kind == "private"}) == 4
    assert [anchor.name for anchor in table.anchors] == ["a", "b", "root"]


def test_without_the_file_sandbox_only_the_masks_remain() -> None:
    table = unconfined_table(
        plan(
            scope="outside",
            masked=(Path("/data"), Path("/data/inner")),
            masked_files=(Path("/other.sock"),),
            readable=(Path("/data/skills"), Path("/opt/x")),
        )
    )
    assert table.mounts == (
        Mount(Path("/data"), "hidden-folder", open=True),
        Mount(Path("/data/skills"), "read-only"),
        Mount(Path("/other.sock"), "hidden-file"),
    )
