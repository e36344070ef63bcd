"""The network hosts of a call: which of them are new, and what a saved rule for hosts covers (BND-6, BND-13).

A call names the hosts that it would reach. Those that the policy lists are open; each other one is put to a person,
whose yes holds for this one call. A saved rule covers exactly the hosts that it names: the list's entries stand for
whole trees, but a yes to ``bucket.example.com`` says nothing about what else lives below ``example.com``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from drawbar.boundary.case import Case, Refusal
from drawbar.contracts.boundary import Policy, StandingRule
from drawbar.contracts.ids import new_id
from drawbar.contracts.tool import ToolSpec

if TYPE_CHECKING:
    from drawbar.boundary.hosts import AllowList

__all__ = ["RULE_TOOL", "HostCheck", "covering_hosts", "propose_host_rule"]

RULE_TOOL: Final = "network"
"""The tool that a saved rule for hosts names: it holds for every tool that reaches the network."""

_MOST_HOSTS: Final = 16
_MAX_RULE: Final = 2_000


class HostCheck:
    """Finds the hosts of a call that a person would have to allow.

    Args:
        policy: its ``network``, ``sandbox`` and ``plan`` are read.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._listed: AllowList | None = None

    def new_hosts(self, case: Case, spec: ToolSpec) -> tuple[str, ...]:
        """The hosts that the call names and the policy doesn't list, in their one spelling.

        Raises:
            Refusal: for a text that names no host, too many of them, or any where there is no network at all.
        """
        hosts = _spelled(spec, case.input)
        if not hosts:
            return ()
        if case.command is not None:
            if case.scope == "read-only":
                message = "a command in the `read-only` scope reaches no network; leave `hosts` out"
                raise Refusal("no_network", "scope:read-only", message)
            if case.unconfined or self._policy.sandbox == "off":
                return ()  # nothing stands between such a command and the network: it is asked about as a whole
        from drawbar.boundary.hosts import AllowList

        if self._listed is None:
            self._listed = AllowList(self._policy.network)
        return tuple(host for host in hosts if not _listed(self._listed, host))


def _spelled(spec: ToolSpec, given: Any) -> tuple[str, ...]:
    named = tuple(spec.hosts(given))
    if not named:
        return ()  # the usual case loads nothing
    from drawbar.boundary.hosts import AllowList, HostRefused, join_host, split_host

    if len(named) > _MOST_HOSTS:
        raise Refusal("invalid_arguments", "network:invalid", f"a call may name at most {_MOST_HOSTS} hosts")
    found: dict[str, None] = {}
    for text in named:
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"the tool `{spec.name}` names a host that is no text")
        try:
            host, port = split_host(text)
            AllowList((text,))  # what no list may hold, no person is asked about
        except HostRefused as error:
            message = f"{error}; name hosts as `name` or `name:port`"
            raise Refusal("invalid_arguments", "network:invalid", message) from error
        found[host if port is None else join_host(host, port)] = None
    return tuple(found)


def _listed(listed: AllowList, text: str) -> bool:
    """Whether the list opens all that ``text`` stands for: without a port, both ports of the web."""
    from drawbar.boundary.hosts import WEB_PORTS, split_host

    host, port = split_host(text)
    return all(listed.allows(host, one) for one in (WEB_PORTS if port is None else (port,)))


def covering_hosts(rules: Iterable[StandingRule], hosts: Sequence[str]) -> tuple[StandingRule, ...] | None:
    """The saved rules that together name every one of ``hosts``; None when one is named by none of them."""
    candidates = [(rule, frozenset(rule.pattern.split())) for rule in rules]
    found: dict[str, StandingRule] = {}
    for host in hosts:
        rule = next((rule for rule, names in candidates if not names.isdisjoint(_spellings(host))), None)
        if rule is None:
            return None
        found[rule.id] = rule
    return tuple(found.values())


def _spellings(text: str) -> set[str]:
    """What a rule may say to cover ``text``: itself, or its host alone where it names a port of the web."""
    from drawbar.boundary.hosts import WEB_PORTS, split_host

    host, port = split_host(text)
    return {text, host} if port in WEB_PORTS else {text}


def propose_host_rule(hosts: Sequence[str], *, root: str) -> StandingRule | None:
    """The rule that *always* would save: exactly these hosts, for this workspace."""
    pattern = " ".join(hosts)
    if len(pattern) > _MAX_RULE:
        return None
    return StandingRule(id=new_id("approval"), tool=RULE_TOOL, scope="workspace", pattern=pattern, root=root)
