"""The demo: a small real project with a failing test, and the script that the embedded model plays (CLI-3).

Only the model is scripted. The project is a real git repository, the tools really read, edit and run, and the
run goes through the ordinary client, gate, sandbox and recorder.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from drawbar.contracts.methods import Check
from drawbar.contracts.model import Account
from drawbar.runs.machine import find_program, is_of_the_repository
from drawbar.testing.scenario import Block, Expect, Scenario, Turn, reply, say, use

__all__ = ["ACCOUNT", "REQUEST", "Project", "make_project", "obstacles", "scenario", "scripted_account"]

ACCOUNT = "scripted"
MODEL = "scripted-demo"
REQUEST = "The test for discounts fails. Find out why, fix it, and show me what you changed."

_TILL = '''\
"""Adds up a basket."""


def total(prices, discount_percent=0):
    """The sum of `prices` in cents, less the discount, rounded to whole cents."""
    full = sum(prices)
    return full - discount_percent
'''
_WRONG = "return full - discount_percent"
_RIGHT = "return round(full * (100 - discount_percent) / 100)"

_TEST = """\
import unittest

from till import total


class TillTest(unittest.TestCase):
    def test_no_discount(self):
        self.assertEqual(total([250, 750]), 1000)

    def test_ten_percent_off(self):
        self.assertEqual(total([250, 750], discount_percent=10), 900)


if __name__ == "__main__":
    unittest.main()
"""
_CHECK = "python3 -B -m unittest -q"


async def obstacles() -> list[Check]:
    """What keeps the demo from doing real work here, each with its cure; nothing is started or left behind.

    The sandbox is tried with a real command (QLT-1), and this machine's own address is reached once.
    """
    from drawbar.app import diagnose

    return [check for check in [*await diagnose(), _loopback()] if not check.ok and check.name in _NEEDED]


_NEEDED = ("sandbox", "data root", "loopback")


def _loopback() -> Check:
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), timeout=2).close()
    except OSError as error:
        return Check(
            name="loopback",
            ok=False,
            message=f"127.0.0.1 can't be reached ({error.strerror or error}), where the scripted model is served",
            cure="bring up lo: ip link set lo up",
        )
    return Check(name="loopback", ok=True, message="127.0.0.1 answers")


@dataclass(frozen=True, slots=True)
class Project:
    """Where the demo works. ``repository`` is false where git isn't installed."""

    folder: Path
    repository: bool


def make_project(folder: Path) -> Project:
    """Write the project into the existing, empty ``folder`` and commit it, if git is there."""
    (folder / "till.py").write_text(_TILL)
    (folder / "test_till.py").write_text(_TEST)
    git = find_program("git")
    if git is None or is_of_the_repository(git):
        return Project(folder, repository=False)
    # The person's own settings must not matter here: no hooks, no signing, no templates, no other identity.
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_AUTHOR_NAME": "Drawbar demo",
        "GIT_AUTHOR_EMAIL": "demo@example.invalid",
        "GIT_COMMITTER_NAME": "Drawbar demo",
        "GIT_COMMITTER_EMAIL": "demo@example.invalid",
    }
    for arguments in (
        ["init", "--quiet", "--template=", "--initial-branch=main"],
        ["add", "till.py", "test_till.py"],
        ["commit", "--quiet", "--message", "A till that adds up"],
    ):
        subprocess.run([git, *arguments], cwd=folder, env=environment, check=True, stdin=subprocess.DEVNULL)
    return Project(folder, repository=True)


def scenario(project: Project) -> Scenario:
    """What the scripted model says; each turn expects what the real tools must have answered before it."""
    show: list[Turn] = []
    if project.repository:
        show = [use("bash", {"command": "git diff"}, expect=Expect(text="OK"))]
    return Scenario(
        turns=[
            reply(
                Block(text="I'll look at the test and at the code that it tests."),
                Block(tool="read", arguments={"path": "test_till.py"}),
                Block(tool="read", arguments={"path": "till.py"}),
                expect=Expect(tool="bash"),
            ),
            reply(
                Block(text="Before I change anything I want to see it fail."),
                Block(tool="bash", arguments={"command": _CHECK}),
                expect=Expect(text=_WRONG),
            ),
            reply(
                Block(text="The discount is taken off as cents, but it is a percentage."),
                Block(tool="edit", arguments={"path": "till.py", "edits": [{"oldText": _WRONG, "newText": _RIGHT}]}),
                expect=Expect(text="FAILED"),
            ),
            reply(Block(text="Now the tests again."), Block(tool="bash", arguments={"command": _CHECK})),
            *show,
            say(
                "Fixed: `total` took the discount off as a number of cents; it now takes off that percentage and "
                "rounds to whole cents. Both tests pass. Only `till.py` changed.",
                expect=Expect(text=_RIGHT if project.repository else "OK"),
            ),
        ]
    )


@asynccontextmanager
async def scripted_account(project: Project) -> AsyncGenerator[Account]:
    """Serve the scripted model on 127.0.0.1 and give the account that reaches it."""
    from drawbar.testing.scripted_model import ScriptedModel

    async with ScriptedModel(scenario(project)) as server:
        yield Account(
            id=ACCOUNT,
            protocol="anthropic-messages",
            base_url=server.base_url,
            secret="the-scripted-model-takes-any-key",
            model=MODEL,
        )
