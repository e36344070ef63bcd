"""The person's part of a judgement: from the gate's ask to a verdict that may run, or to a refusal (SES-18)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from drawbar.contracts.boundary import Approval, ApprovalAsk, Approver, Grant, StandingRule, Verdict
from drawbar.contracts.tool import ToolCall

__all__ = ["Judge", "ask_person", "judged_arguments", "refusal"]

_YES: Final = frozenset({"once", "session", "always"})


class Judge(Protocol):
    """Judges one call now; never raises (see :class:`~drawbar.tools.judging.GuardedGate`)."""

    async def judge(self, call: ToolCall, *, grant: Grant | None = None) -> Verdict: ...

    def remember(self, rule: StandingRule) -> None: ...


def refusal(code: str, cause: str, message: str, *, scope: str = "workspace", rule: str | None = None) -> Verdict:
    """A refusal of the executor's own, in the gate's form."""
    return Verdict(outcome="refuse", code=code, cause=cause, message=message, scope=scope, rule=rule)  # pyright: ignore[reportArgumentType]


def judged_arguments(call: ToolCall, verdict: Verdict) -> Any:
    """The arguments that were judged and would run: the call's own, unless a hook rewrote them."""
    return call.arguments if verdict.arguments is None else verdict.arguments


async def ask_person(
    call: ToolCall,
    asked: Verdict,
    gate: Judge,
    approver: Approver,
    *,
    save_rule: Callable[[StandingRule], None],
    on_needs_approval: Callable[[], None],
) -> Verdict:
    """Put ``asked`` to a person and judge ``call`` again with the answer.

    A yes is a grant for exactly these bytes; *session* and *always* also make the gate remember the rule that
    the person was shown, and *always* saves it. Judging again after the answer is what binds the run to what was
    judged: whatever changed meanwhile (a file swapped, a mode narrowed) counts.

    Args:
        asked: the gate's ask; its descriptors are given back before anybody waits.
        gate: judges again.
        approver: asks on every surface.
        save_rule: keeps a standing approval on disk; never raises.
        on_needs_approval: told when nobody took the question.

    Returns:
        An allow, or a refusal: ``needs_approval`` when nobody answered, ``denied`` on a person's no, with their
        words for the model.
    """
    asked.close()
    ask = ApprovalAsk(
        call_id=call.id,
        tool=call.name,
        arguments=judged_arguments(call, asked),
        scope=asked.scope,
        reason=asked.message,
        rule=asked.proposed,
    )
    try:
        approval = await approver.request_approval(ask)
    except Exception as error:
        return refusal("approval_failed", "fault", f"{call.name} was not run: asking a person failed ({error}).")
    if approval.decision is None:
        on_needs_approval()
        return refusal(
            "needs_approval",
            "policy",
            f"{call.name} was not run: it needs a person's approval ({asked.message}) and nobody answered. Go on "
            "without it where you can, and say in your answer what is still to be done and why.",
            scope=asked.scope,
            rule=asked.rule,
        )
    if approval.decision == "deny":
        words = (approval.message or "").strip()
        said = f" They say: {words}{'' if words.endswith(('.', '!', '?', '…')) else '.'}" if words else ""
        return refusal(
            "denied",
            "person",
            f"{call.name} was not run: a person said no.{said} Don't try it again in another form.",
            scope=asked.scope,
            rule=asked.rule,
        )
    if approval.decision not in _YES:
        return refusal("approval_failed", "fault", f"{call.name} was not run: the answer could not be understood.")
    return await _judge_again(call, asked, approval, gate, save_rule)


async def _judge_again(
    call: ToolCall, asked: Verdict, approval: Approval, gate: Judge, save_rule: Callable[[StandingRule], None]
) -> Verdict:
    if asked.proposed is not None and approval.decision in ("session", "always"):
        if approval.decision == "always":
            save_rule(asked.proposed)
        try:
            gate.remember(asked.proposed)
        except Exception as error:
            return refusal(
                "approval_failed", "fault", f"{call.name} was not run: the gate can't hold a rule ({error})."
            )
    grant = Grant(
        approval_id=approval.approval_id,
        arguments_sha256=asked.arguments_sha256,
        scope=asked.scope,
        by=approval.by,
    )
    verdict = await gate.judge(call, grant=grant)
    if verdict.outcome != "ask":
        return verdict
    verdict.close()
    return refusal(
        "needs_approval",
        "fault",
        f"{call.name} was not run: what it would do changed after a person had approved it. Send it again.",
        scope=asked.scope,
    )
