"""Standing approvals on disk: what was saved counts, what was torn or revoked doesn't (SES-18, BND-6)."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawbar.contracts.boundary import StandingRule
from drawbar.contracts.errors import NotFound, NotPermitted, StorageFailed
from drawbar.stores.approvals import ApprovalStore

HERE = Path(__file__).resolve().parent.parent.parent


def rule(number: int = 1, pattern: str = "npm test", **more: str) -> StandingRule:
    return StandingRule(id=f"a_{number}", tool="bash", scope="workspace", pattern=pattern, **more)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "approvals.jsonl"


@pytest.mark.clause("SES-18", "BND-6", "CON-28")
def test_rules_are_kept_exactly_listed_and_revocable(path: Path) -> None:
    store = ApprovalStore(path)
    assert store.list() == []
    rules = [
        rule(1, "git log *", root="/home/me/ws"),
        rule(2, "echo 'a\nb' \u202e é"),
        StandingRule("a_3", "read", "outside", "/usr/include/"),
    ]
    for one in rules:
        store.add(one)
    assert ApprovalStore(path).list() == rules
    assert store.revoke("a_2") == rules[1]
    assert ApprovalStore(path).list() == [rules[0], rules[2]]
    for unknown in ("a_2", "a_9"):
        with pytest.raises(NotFound):
            store.revoke(unknown)
    store.add(rules[1])
    assert {one.id for one in store.list()} == {"a_1", "a_2", "a_3"}
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.clause("SES-18", "CON-15")
def test_a_torn_line_never_becomes_a_rule_and_the_next_stands_alone(path: Path) -> None:
    store = ApprovalStore(path)
    store.add(rule(1))
    store.add(rule(2))
    whole = path.read_bytes()
    second = whole.index(b"\n") + 1
    for cut in range(second, len(whole)):
        path.write_bytes(whole[:cut])
        assert [one.id for one in store.list()] == ["a_1"]
        store.add(rule(3))
        assert [one.id for one in store.list()] == ["a_1", "a_3"], cut
        assert whole[:cut] in path.read_bytes(), "the fragment is kept as evidence"


@pytest.mark.clause("SES-18", "CON-8")
@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\0\0\0\0",
        b"{",
        b"[]",
        b"null",
        b'{"op":"add"}',
        b'{"op":"add","rule":{}}',
        b'{"op":"add","rule":{"id":"a_9","tool":"bash","scope":"everything","pattern":"*"}}',
        b'{"op":"add","rule":{"id":7,"tool":"bash","scope":"workspace","pattern":"ls"}}',
        b'{"op":"grant","rule":{"id":"a_9","tool":"bash","scope":"workspace","pattern":"ls"}}',
        b'\xff\xfe{"op":"add"}',
    ],
)
def test_a_line_that_is_no_rule_is_passed_over(path: Path, line: bytes) -> None:
    store = ApprovalStore(path)
    store.add(rule(1))
    with path.open("ab") as file:
        file.write(line + b"\n")
    store.add(rule(2))
    assert [one.id for one in store.list()] == ["a_1", "a_2"]


@pytest.mark.clause("CON-8")
def test_what_a_later_release_adds_to_a_line_is_no_reason_to_lose_it(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(
        b'{"op":"add","at":"x","why":"new","rule":{"id":"a_1","tool":"bash","scope":"workspace","pattern":"ls","new":1}}\n'
    )
    path.chmod(0o600)
    assert ApprovalStore(path).list() == [rule(1, "ls")]


@pytest.mark.clause("SES-18", "CON-28")
def test_a_file_that_others_can_write_grants_nothing(path: Path, tmp_path: Path) -> None:
    store = ApprovalStore(path)
    store.add(rule(1))
    path.chmod(0o666)
    with pytest.raises(NotPermitted, match="others"):
        store.list()
    with pytest.raises(NotPermitted):
        store.add(rule(2))
    path.chmod(0o600)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageFailed):
        store.list()


@pytest.mark.clause("SES-18", "QLT-6")
def test_a_disk_that_refuses_saves_no_rule(path: Path) -> None:
    program = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from tests.gate.test_approval_store import rule\n"
        "from drawbar.stores.approvals import ApprovalStore\n"
        "from drawbar.contracts.errors import StorageFailed\n"
        "store = ApprovalStore(Path(sys.argv[1]))\n"
        "store.add(rule(1))\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "limit = Path(sys.argv[1]).stat().st_size + 20\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))\n"
        "try:\n"
        "    store.add(rule(2))\n"
        "except StorageFailed as error:\n"
        "    print(error.code, [one.id for one in store.list()])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, path], cwd=HERE, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "storage_failed ['a_1']"
    assert path.read_bytes().endswith(b"\n")


@pytest.mark.clause("SES-18", "CON-28")
def test_several_writers_lose_no_rule(path: Path) -> None:
    def add(first: int) -> None:
        for number in range(first, first + 20):
            ApprovalStore(path).add(rule(number))

    threads = [threading.Thread(target=add, args=(first,)) for first in (0, 100, 200, 300)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ApprovalStore(path).list()) == 80


@pytest.mark.slow
@pytest.mark.clause("SES-18")
def test_what_was_acknowledged_before_a_kill_counts(path: Path) -> None:
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tests.gate.test_approval_store import rule\n"
        "from drawbar.stores.approvals import ApprovalStore\n"
        "store, number = ApprovalStore(Path(sys.argv[1])), int(sys.argv[2])\n"
        "while True:\n"
        "    number += 1\n"
        "    store.add(rule(number))\n"
        "    print(number, flush=True)\n"
    )
    acknowledged: set[str] = set()
    for seed in range(12):
        writer = subprocess.Popen(
            [sys.executable, "-c", program, path, str(seed * 10_000)], cwd=HERE, stdout=subprocess.PIPE
        )
        assert writer.stdout is not None
        first = writer.stdout.readline()
        time.sleep(random.Random(seed).uniform(0, 0.05))
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read().splitlines(keepends=True)
        writer.wait()
        writer.stdout.close()
        acknowledged.update(f"a_{int(line)}" for line in [first, *rest] if line.endswith(b"\n"))
        counted = {one.id for one in ApprovalStore(path).list()}
        assert acknowledged <= counted
        assert len(counted - acknowledged) <= seed + 1, "at most the one that was being saved"


@pytest.mark.clause("SES-18")
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["add", "revoke", "tear"]), st.integers(0, 4), st.text(max_size=10)), max_size=15
    )
)
@settings(max_examples=60, deadline=None)
def test_a_history_of_saves_and_revocations(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, str]]
) -> None:
    path = tmp_path_factory.mktemp("approvals") / "approvals.jsonl"
    store = ApprovalStore(path)
    expected: dict[str, StandingRule] = {}
    for step, number, pattern in steps:
        name = f"a_{number}"
        if step == "add":
            store.add(rule(number, pattern))
            expected[name] = rule(number, pattern)
        elif step == "revoke":
            if name in expected:
                store.revoke(name)
                del expected[name]
            else:
                with pytest.raises(NotFound):
                    store.revoke(name)
        elif path.exists():
            with path.open("ab") as file:
                file.write(b'{"op":"revoke","id":"a_0"')
            os.stat(path)
    assert {one.id: one for one in store.list()} == expected
