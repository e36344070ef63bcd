"""The one decision about a connection: is the host listed, and where may it lead (BND-13)."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal

from drawbar.boundary.addresses import why_refused
from drawbar.boundary.hosts import AllowList, HostRefused, address_of, split_host
from drawbar.boundary.proxy.resolver import Resolver

__all__ = ["Decider", "Decision"]

_LONGEST_SHOWN: Final = 200

Outcome = Literal["allowed", "not_listed", "no_host", "refused_address", "no_address", "unrecorded"]


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided about one request.

    Args:
        host, port: what was asked for, in its one spelling.
        outcome: ``allowed``, or what stood in the way.
        rule: the entry of the list that covers the host; also where its addresses were refused.
        reason: why not, for the record; None when allowed.
        message: the same for whoever asked, with what can be done.
        addresses: where the connection may go, checked; nothing else is ever looked up for it.
    """

    host: str
    port: int
    outcome: Outcome
    rule: str | None = None
    reason: str | None = None
    message: str = ""
    addresses: tuple[str, ...] = ()

    @property
    def allowed(self) -> bool:
        return self.outcome == "allowed"


class Decider:
    """Decides, and lets nothing through that could not be recorded.

    Args:
        resolve: looks names up.
        record: writes the decision down, under the tool call's id; whatever it raises refuses.
    """

    def __init__(self, resolve: Resolver, record: Callable[[str, Decision], None]) -> None:
        self._resolve = resolve
        self._record = record

    async def decide(self, listed: AllowList, host: str, port: int, call_id: str) -> Decision:
        """Decide about ``host`` at ``port`` once; recorded exactly once."""
        decision = await self._judge(listed, host, port)
        try:
            self._record(call_id, decision)
        except Exception as error:
            message = f"the decision about {decision.host} could not be recorded ({error}), so nothing was connected"
            return replace(decision, outcome="unrecorded", reason=message, message=message, addresses=())
        return decision

    async def _judge(self, listed: AllowList, text: str, port: int) -> Decision:
        try:
            host, _ = split_host(text)
        except HostRefused as error:
            shown = ascii(text[:_LONGEST_SHOWN])
            return Decision(shown, port, "no_host", reason=f"no host name: {error}", message=str(error))
        rule = listed.rule_for(text, port)
        if rule is None:
            return Decision(host, port, "not_listed", reason="not listed", message=_how_to_allow(host, port))
        literal = address_of(host)
        try:
            found = [str(literal)] if literal is not None else list(await self._resolve(host))
        except (OSError, TimeoutError) as error:
            why = (
                "the name could not be resolved in time"
                if isinstance(error, TimeoutError)
                else "the name has no address"
            )
            return Decision(host, port, "no_address", rule, why, f"{host}: {why}")
        good, bad = _checked(found, listed=literal is not None)
        if good:
            return Decision(host, port, "allowed", rule, addresses=tuple(good))
        if not bad:
            return Decision(host, port, "no_address", rule, "the name has no address", f"{host} has no address")
        address, why = bad[0]
        reason = f"leads to {why} ({address})"
        return Decision(host, port, "refused_address", rule, reason, f"{host} {reason}. {_CLOSED}")


_CLOSED: Final = (
    "No name may lead there, so that a listed name can't open what is close to this machine; a person can list the "
    "address itself under `network` in settings, unless it is a metadata service."
)


def _how_to_allow(host: str, port: int) -> str:
    entry = host if port in (80, 443) else f"{host}:{port}"
    return (
        f"{host}:{port} is not on the list of hosts that this run may reach. Retrying won't help. A person can allow "
        f'it: name "{entry}" in the call\'s hosts, or have it listed under `network` in settings.'
    )


def _checked(found: list[str], *, listed: bool) -> tuple[list[str], list[tuple[str, str]]]:
    good: list[str] = []
    bad: list[tuple[str, str]] = []
    for text in found:
        try:
            # With a zone it is link-local, whatever else it looks like.
            why = "a link-local address" if "%" in text else why_refused(ipaddress.ip_address(text), listed=listed)
        except ValueError:
            why = "no address at all"
        if why is None:
            good.append(text)
        else:
            bad.append((text, why))
    return good, bad
