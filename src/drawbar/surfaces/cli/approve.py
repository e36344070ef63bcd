"""``drawbar runs approve``: what is approved is shown whole, and what *always* saved is said (CLI-2, SES-18, QLT-4)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

import click

from drawbar.surfaces.cli.shell import Command

if TYPE_CHECKING:
    from drawbar.app import Harness
    from drawbar.contracts.boundary import ApprovalAsk, StandingRule

__all__ = ["approve"]

Decision = Literal["once", "session", "always", "deny"]

DECISIONS = ("once", "session", "always", "deny")
SAVED_WITHIN_S = 3.0
"""The run's own process saves the rule, after it was answered; this long it is waited for."""


@click.command(
    "approve",
    cls=Command,
    short_help="Answer an approval that a live run waits for.",
    epilog='Example: drawbar runs approve r_01k deny --message "use npm instead"',
)
@click.argument("run")
@click.argument("words", nargs=-1, metavar="[APPROVAL] once|session|always|deny")
@click.option("--message", metavar="TEXT", help="What to tell the model with a denial.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def approve(run: str, words: tuple[str, ...], message: str | None, as_json: bool) -> int:
    """Answer an approval that a live run waits for; APPROVAL may be left out when only one waits.

    Without an answer, shows the whole question: tool, arguments, scope, reason, and the rule that always would save.
    """
    from drawbar.surfaces.cli.harness import call

    named, decision = _answer(words)

    async def work(harness: Harness) -> int:
        return await _carry_out(harness, run, named, decision, message, as_json)

    return call(work)


def _answer(words: tuple[str, ...]) -> tuple[str | None, Decision | None]:
    """The approval and the decision that were typed; either may be missing."""
    if not words or (len(words) == 1 and words[0].startswith("a_")):
        return (words[0] if words else None), None
    decision = words[-1]
    if decision not in DECISIONS or len(words) > 2:
        raise click.UsageError(
            f"end with one of {', '.join(DECISIONS)}, with the approval's id before it if several wait"
        )
    return (words[0] if len(words) == 2 else None), decision


async def _carry_out(
    harness: Harness, run: str, named: str | None, decision: Decision | None, message: str | None, as_json: bool
) -> int:
    from drawbar.contracts.errors import InvalidInput
    from drawbar.contracts.methods import ApproveInput
    from drawbar.surfaces.cli.harness import print_lines, standard_look
    from drawbar.surfaces.cli.output import print_json
    from drawbar.surfaces.cli.pending import how_to_approve, question_lines, read_asks

    run_id = harness.runs.get(run).id
    asks = read_asks(harness.runs.events(run_id))
    waiting = {name: ask for name, ask in asks.waiting.items() if named is None or name.startswith(named)}
    look, home = standard_look(), os.environ.get("HOME")
    if not as_json:
        for name, ask in waiting.items() if decision is None or len(waiting) == 1 else ():
            lines = question_lines(run_id, name, ask, look, home, elsewhere=asks.elsewhere)
            print_lines(lines if decision is None else lines[:-1])
    if not waiting and asks.questions:
        from drawbar.surfaces.cli.pending import how_to_answer

        raise InvalidInput(
            f"the run asks a question, not for an approval: {how_to_answer(run_id, asks.questions)}", field="approval"
        )
    if decision is None and waiting:
        raise InvalidInput(f"say what you decide: {how_to_approve(run_id, waiting)}", field="decision")
    only, ask = next(iter(waiting.items())) if len(waiting) == 1 else (named, None)
    if decision in ("session", "always") and ask is not None and ask.rule is None:
        raise InvalidInput(
            f"no rule covers this call, so there is nothing to remember: {how_to_approve(run_id, waiting)}",
            field="decision",
        )
    # What was shown is what is answered, also if another question came up meanwhile.
    done = await harness.runs.approve(
        ApproveInput(run=run_id, decision=decision or "deny", approval=only, message=message)
    )
    if as_json:
        print_json(done)
        return 0
    print(f"{done.approval_id} {done.decision}", flush=True)
    print_lines(await _remembered(harness, ask, done.decision, home))
    return 0


async def _remembered(harness: Harness, ask: ApprovalAsk | None, decision: str, home: str | None) -> list[str]:
    """What a *session* or an *always* left behind, and how to see and undo it."""
    from drawbar.surfaces.cli.asking import rule_text

    if decision not in ("session", "always") or ask is None or ask.rule is None:
        return []
    rule = rule_text(ask.rule, home)
    if decision == "session":
        return [f"until the run ends: {rule}; nothing was saved"]
    saved = await _saved(harness, ask.rule)
    if saved is None:
        return [f"not saved so far: {rule}; see `drawbar approvals list`, and the run itself for the cause"]
    return [f"saved {saved.id}: {rule_text(saved, home)}", f"take it back with: drawbar approvals revoke {saved.id}"]


async def _saved(harness: Harness, rule: StandingRule) -> StandingRule | None:
    """The rule as it is in the store now, by its own id; None when the run didn't save it in time."""
    import asyncio

    wanted = (rule.tool, rule.scope, rule.pattern, rule.root)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + SAVED_WITHIN_S
    while True:
        for saved in reversed(harness.approvals.list()):
            if (saved.tool, saved.scope, saved.pattern, saved.root) == wanted:
                return saved
        if loop.time() >= deadline:
            return None
        await asyncio.sleep(0.05)
