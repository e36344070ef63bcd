"""The composition root: the only place that constructs and wires (ARC-1)."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from drawbar import __version__
from drawbar.boundary.session_rules import SessionRules
from drawbar.config import load_servers, load_settings
from drawbar.contracts.clock import Clock, SystemClock
from drawbar.contracts.errors import DrawbarError, InvalidInput, StorageFailed, UnsupportedFeature
from drawbar.contracts.methods import Check, Recovery, ReindexOutput
from drawbar.contracts.settings import Settings
from drawbar.runs.control import socket_folder
from drawbar.runs.peers import MARKER
from drawbar.runs.recover import recover
from drawbar.runs.registry import RunRegistry
from drawbar.sessions.assembly import Connectors, Equipment
from drawbar.sessions.service import Sessions
from drawbar.stores.accounts import ACCOUNTS_FILE, Accounts
from drawbar.stores.approvals import ApprovalStore
from drawbar.stores.layout import Layout
from drawbar.stores.redaction import SecretRedactor, known_from_environment
from drawbar.stores.runs import RunStore

if TYPE_CHECKING:
    from drawbar.boundary.gate import PolicyGate
    from drawbar.boundary.runner import SandboxRunner
    from drawbar.contracts.boundary import CommandRunner, NetworkGate, PinnedRoot, Policy, SandboxBackend, StandingRule
    from drawbar.contracts.capability import CapabilitySet, Scope
    from drawbar.contracts.decision import GateDecision, PolicyFile
    from drawbar.contracts.engine import Engine, Redactor
    from drawbar.contracts.model import Account
    from drawbar.contracts.run import ApprovalMode, RunRecord
    from drawbar.contracts.tool import ToolCall, ToolSpec
    from drawbar.runs.live import LiveRun
    from drawbar.tools.mcp.room import Checked, ServerRoom
    from drawbar.tools.mcp.settings import ServerSettings

__all__ = ["Harness", "decide", "diagnose", "look_at_servers", "open_harness", "open_sandbox", "root_exists"]


class Harness:
    """An open data root: start runs, follow them, look into them.

    Made by :func:`open_harness`; use it as ``async with drawbar.open() as harness``.
    """

    def __init__(self, *, sessions: Sessions, runs: RunRegistry, approvals: ApprovalStore, store: RunStore,
                 recovery: Recovery, checks: Callable[[], AsyncIterator[Check]]) -> None:  # fmt: skip
        self.sessions = sessions
        self.runs = runs
        self.approvals = approvals
        self.recovery = recovery
        self._store = store
        self._checks = checks

    async def doctor(self) -> list[Check]:
        """Sandbox, kernel, git, engines, accounts and the health of the data root, each with its cure (CLI-4)."""
        return [check async for check in self._checks()]

    def reindex(self) -> ReindexOutput:
        """Rebuild the run index from the runs (CON-29)."""
        return self._store.reindex()


@asynccontextmanager
async def open_harness(
    root: Path | str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    accounts: Iterable[Account] = (),
    clock: Clock | None = None,
    recover_runs: bool = True,
) -> AsyncGenerator[Harness]:
    """Open a data root and settle what a crash left in it.

    Args:
        root: the data root; None takes ``$DRAWBAR_HOME``, else the platform's user-data folder (CON-30).
        environ: the environment to read keys and settings from; None takes the process's own.
        accounts: accounts that the embedding program brings besides those of the environment.
        clock: time source.
        recover_runs: settle runs whose owner is gone (RUN-13); only looking tools switch it off.

    Raises:
        IncompatibleRoot: the root was made by a newer, incompatible release; nothing was changed.
        StorageFailed: the root can't be made or written.
    """
    environment = dict(os.environ if environ is None else environ)
    clock = clock or SystemClock()
    layout = Layout.resolve(environment, Path(root) if root is not None else None)
    layout.open()
    redactor = SecretRedactor(known_from_environment(environment))
    store = RunStore(layout, redactor=redactor, clock=clock)
    recovery = recover(store, clock) if recover_runs else Recovery(interrupted_run_ids=[])
    sockets = socket_folder(layout.data, environment)
    registry = RunRegistry(store, sockets)
    account_list = Accounts(environment, redactor, accounts, file=layout.config / ACCOUNTS_FILE)
    approvals = ApprovalStore(layout.approvals_file)
    assembly = _Assembly(layout, redactor, clock, environment, approvals, sockets)

    def settings(project: Path | None) -> Settings:
        return load_settings(layout.config, layout.data, project)

    async def checks() -> AsyncIterator[Check]:
        from drawbar.runs.health import examine

        async for check in examine(layout, account_list, assembly.backend(), lambda: settings(None), store):
            yield _redacted(check, redactor)

    sessions = Sessions(
        layout=layout,
        store=store,
        registry=registry,
        accounts=account_list,
        approvals=approvals,
        redactor=redactor,
        clock=clock,
        settings=settings,
        assembly=assembly,
        sockets=sockets,
        version=__version__,
    )
    harness = Harness(
        sessions=sessions, runs=registry, approvals=approvals, store=store, recovery=recovery, checks=checks
    )
    try:
        yield harness
    finally:
        await registry.close()
        await sessions.close()


def root_exists(environ: Mapping[str, str]) -> bool:
    """Whether anything is where the data root belongs; what can't be looked at counts, and opening it says why."""
    try:
        os.lstat(Layout.resolve(environ).data)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True


async def diagnose(*, environ: Mapping[str, str] | None = None) -> list[Check]:
    """What :meth:`Harness.doctor` finds, also where the data root isn't there yet or can't be opened (CLI-4).

    Nothing is made: a root that isn't there is only named.
    """
    from drawbar.boundary.bubblewrap import Bubblewrap
    from drawbar.runs.health import examine

    environment = dict(os.environ if environ is None else environ)
    layout = Layout.resolve(environment)
    fault: DrawbarError | None = None
    if root_exists(environment):
        try:
            async with open_harness(environ=environment) as harness:
                return await harness.doctor()
        except DrawbarError as error:
            fault = error
        except OSError as error:
            fault = StorageFailed(f"{layout.data} can't be used: {error}", path=str(layout.data))
    redactor = SecretRedactor(known_from_environment(environment))
    accounts = Accounts(environment, redactor, file=layout.config / ACCOUNTS_FILE)

    def settings() -> Settings:
        return load_settings(layout.config, layout.data, None)

    return [
        _redacted(check, redactor) async for check in examine(layout, accounts, Bubblewrap(), settings, fault=fault)
    ]


def _redacted(check: Check, redactor: Redactor) -> Check:
    """Addresses, folders and settings may hold what nobody should print (QLT-20)."""
    return Check(
        name=check.name,
        ok=check.ok,
        message=redactor.text(check.message),
        cure=redactor.text(check.cure) if check.cure else check.cure,
    )


async def decide(
    call: ToolCall,
    where: Path | PolicyFile,
    *,
    approval: ApprovalMode = "ask",
    plan: bool = False,
    engine: str = "native",
    environ: Mapping[str, str] | None = None,
) -> GateDecision:
    """What the gate says to a call, without anything being carried out, remembered or written (CLI-6).

    Args:
        call: the tool and its arguments.
        where: a folder, for a person's run in it with its settings and saved rules; or a policy.
        approval: the mode, for a folder; a policy brings its own.
        plan: judge as in plan mode.
        engine: whose path rules hold (BND-5).
        environ: where the harness's folders are; None takes the process's own.

    Raises:
        InvalidInput: the policy or a settings file is wrong.
        WorkspaceRefused: the folder can't be a workspace (BND-1).
        UnsupportedFeature: the engine's path rules aren't there.
    """
    from drawbar.runs.policies import check_engine, decision_of

    assembly = _Assembly.at(dict(os.environ if environ is None else environ))
    check_engine(engine)
    if isinstance(where, Path):
        rules = assembly.standing()
        policy, typed = assembly.folder_policy(where, approval=approval, plan=plan, standing=rules), ()
    else:
        policy, typed = assembly.file_policy(where, plan=plan), tuple(where.typed_tools)
    return decision_of(await assembly.gate(policy, typed=typed).explain(call), assembly.redactor)


@asynccontextmanager
async def open_sandbox(
    folder: Path,
    *,
    scope: Scope = "workspace",
    session: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> AsyncGenerator[CommandRunner]:
    """The very sandbox that a run in ``folder`` would have for its commands, without a run (CLI-6).

    Args:
        folder: the effective working directory (BND-1), in which commands start.
        scope: in which commands are going to run; in ``read-only`` the root need not be writable.
        session: names a private temporary folder that is kept between calls, and needs a data root; without it
            the folder is thrown away, and nothing is made in the data root.
        environ: as for :func:`open_harness`.

    Raises:
        InvalidInput: the name is none, or a settings file is wrong.
        NotPermitted: scope ``outside``, and the caller may itself have been started by a run (BND-16).
        WorkspaceRefused: the folder can't be a workspace (BND-1).
        StorageFailed: the temporary folder can't be made.
    """
    from drawbar.boundary.proxy import NetworkProxy
    from drawbar.stores.scratch import kept_scratch, passing_scratch

    environment = dict(os.environ if environ is None else environ)
    assembly = _Assembly.at(environment)
    if scope == "outside":
        assembly.refuse_inside_a_run()
    policy = assembly.folder_policy(folder, approval="read-only" if scope == "read-only" else "ask")
    scratch = passing_scratch() if session is None else kept_scratch(Layout.resolve(environment), session)
    with scratch as private_tmp:
        # There is no run and so no log: whoever typed the command sees what it says of a host that was refused.
        network = NetworkProxy(policy.network, lambda _decision: None)
        runner = assembly.runner(policy, private_tmp=private_tmp, marker=f"{MARKER}=sandbox", network=network)
        try:
            yield runner
        finally:
            try:
                await runner.close()
            finally:
                await network.close()


async def look_at_servers(
    folder: Path, names: Sequence[str] | None, *, environ: Mapping[str, str] | None = None
) -> tuple[list[Checked], tuple[str, ...]]:
    """The MCP servers that a run in ``folder`` would have, and what was ignored (PRO-3).

    Args:
        folder: as for :func:`open_sandbox`.
        names: servers to start and ask for their tools; empty is every enabled one, None starts nothing and tells
            what was last listed.
        environ: as for :func:`open_harness`.

    Raises:
        InvalidInput: a settings file is wrong, or there is no server of a name.
        NotPermitted: the caller may itself have been started by a run (BND-16).
        WorkspaceRefused: the folder can't be a workspace (BND-1).
    """
    from drawbar.tools.mcp.room import Checked

    assembly = _Assembly.at(dict(os.environ if environ is None else environ))
    if names is not None:
        assembly.refuse_inside_a_run()
    root = assembly.pin(str(folder), read_only=True)
    servers, notices = assembly.listed_servers(root)
    room = assembly.servers(root, marker="mcp")
    if names is None:
        return [_printable(Checked(server, room.known(server)), assembly.redactor) for server in servers], notices
    unknown = sorted(set(names) - {server.name for server in servers})
    if unknown:
        known = ", ".join(server.name for server in servers) or "none"
        raise InvalidInput(f"there is no MCP server {unknown[0]!r}; known are {known}", field="name")
    chosen = [server for server in servers if server.name in names or (server.enabled and not names)]
    found = await room.check(chosen)
    return [_printable(one, assembly.redactor) for one in found], notices


def _printable(one: Checked, redactor: Redactor) -> Checked:
    """Command lines and addresses may hold what nobody should print (QLT-20)."""
    return replace(one, fault=redactor.text(one.fault), where=redactor.text(one.server.where))


class _Assembly:
    """Builds one run's parts; every import here is lazy, so that a command loads only what it needs (ARC-4)."""

    def __init__(
        self,
        layout: Layout,
        redactor: Redactor,
        clock: Clock,
        environ: Mapping[str, str],
        approvals: ApprovalStore,
        sockets: Path,
    ) -> None:
        self.redactor = redactor
        self._layout = layout
        self._clock = clock
        self._environ = environ
        self._approvals = approvals
        self._sockets = sockets
        self._backend: SandboxBackend | None = None
        self._session_rules = SessionRules()

    @classmethod
    def at(cls, environ: Mapping[str, str]) -> _Assembly:
        """For what needs no open data root; nothing is made."""
        layout = Layout.resolve(environ)
        redactor = SecretRedactor(known_from_environment(environ))
        sockets = socket_folder(layout.data, environ)
        return cls(layout, redactor, SystemClock(), environ, ApprovalStore(layout.approvals_file), sockets)

    def engine(self, name: str) -> Engine:
        if name != "native":
            raise UnsupportedFeature(f"the engine {name!r} isn't built yet; only `native` is", feature=name)
        from drawbar.engines.native import NativeEngine
        from drawbar.models import provider_for

        return NativeEngine(lambda account: provider_for(account, clock=self._clock), self._clock)

    def check(self, account: Account) -> None:
        from drawbar.models import provider_for

        provider_for(account, clock=self._clock)  # opens nothing yet

    def specs(self) -> tuple[ToolSpec, ...]:
        from drawbar.tools.registry import builtin_tools

        return tuple(tool.spec for tool in builtin_tools())

    def pin(self, cwd: str, *, read_only: bool) -> PinnedRoot:
        from drawbar.boundary.roots import pin_root

        return pin_root(Path(cwd), hidden=self._hidden(), read_only=read_only)

    def _hidden(self) -> tuple[Path, ...]:
        return (*self._layout.hidden(), self._sockets)

    def folder_policy(
        self, folder: Path, *, approval: ApprovalMode, plan: bool = False, standing: Iterable[StandingRule] = ()
    ) -> Policy:
        """That of a person's run in ``folder``, started in this mode."""
        from drawbar.runs.policies import person_policy

        root = self.pin(str(folder), read_only=approval == "read-only")
        settings = load_settings(self._layout.config, self._layout.data, root.path)
        tools = [spec.name for spec in self.specs()]
        return person_policy(
            root, settings, tools, approval=approval, hidden=self._hidden(), standing=standing, plan=plan
        )

    def standing(self) -> list[StandingRule]:
        """Every saved rule."""
        return self._approvals.list()

    def file_policy(self, file: PolicyFile, *, plan: bool) -> Policy:
        """The one that ``file`` describes."""
        from drawbar.runs.policies import check_policy_file, policy_of_file

        check_policy_file(file, [spec.name for spec in self.specs()])
        reading = "workspace" not in file.scopes or file.approval == "read-only"
        root = self.pin(os.path.expanduser(file.root), read_only=reading)
        return policy_of_file(file, root, hidden=self._hidden(), plan=plan)

    def refuse_inside_a_run(self) -> None:
        """Raises :class:`NotPermitted` where a run may have started this process (BND-16)."""
        from drawbar.runs.inside import refuse_inside_a_run

        known = root_exists(self._environ)
        refuse_inside_a_run(RunStore(self._layout, redactor=self.redactor, clock=self._clock) if known else None)

    def backend(self) -> SandboxBackend:
        if self._backend is None:
            from drawbar.boundary.bubblewrap import Bubblewrap

            self._backend = Bubblewrap()
        return self._backend

    def namespaced(self) -> bool:
        from drawbar.boundary.unconfined import pid_namespace_available

        return pid_namespace_available()

    def gate(
        self,
        policy: Policy,
        *,
        typed: Iterable[str] = (),
        offered: bool = False,
        connectors: Iterable[ToolSpec] = (),
    ) -> PolicyGate:
        """The gate of a policy.

        Args:
            policy: what it decides from.
            typed: further tools that pass by their name (BND-4).
            offered: whether it knows only the tools that the policy offers, as the model does.
            connectors: tools of MCP servers.
        """
        from drawbar.boundary.gate import PolicyGate
        from drawbar.runs.policies import typed_spec

        specs = [spec for spec in self.specs() if not offered or spec.name in policy.tools]
        specs += [*(typed_spec(name) for name in typed), *connectors]
        return PolicyGate(policy, {spec.name: spec for spec in specs}, rules_for_commands=self.namespaced())

    def runner(
        self,
        policy: Policy,
        *,
        private_tmp: Path,
        marker: str,
        network: NetworkGate | None = None,
        notice: Callable[[str, str], None] = lambda _code, _text: None,
    ) -> SandboxRunner:
        """What runs commands under a policy: a run's tools and ``drawbar sandbox`` alike."""
        from drawbar.boundary.runner import SandboxRunner

        return SandboxRunner(
            policy,
            backend=self.backend(),
            private_tmp=private_tmp,
            environ=self._environ,
            marker=marker,
            network=network,
            notice=notice,
        )

    def servers(self, folder: PinnedRoot, *, marker: str) -> ServerRoom:
        """Where MCP servers are looked at or started for work in ``folder`` (PRO-3)."""
        from drawbar.tools.mcp.room import ServerRoom

        return ServerRoom(
            folder=folder,
            hidden=self._hidden(),
            lists=self._layout.state / "mcp",
            environ=self._environ,
            learn=self.redactor.add,
            start=lambda policy: self.runner(
                policy, private_tmp=self._layout.state / "tmp" / "mcp", marker=f"{MARKER}={marker}"
            ),
        )

    def listed_servers(self, root: PinnedRoot) -> tuple[list[ServerSettings], tuple[str, ...]]:
        """The servers that the settings name, and what was ignored."""
        servers, notices = load_servers(self._layout.config, self._layout.data, root.path)
        return servers, tuple(notices)

    async def connectors(self, root: PinnedRoot) -> Connectors:
        servers, notices = self.listed_servers(root)
        if not servers:
            return Connectors(notices=notices)
        found = await self.servers(root, marker="mcp").offers(servers)
        return Connectors(found.names, (*notices, *found.notices), found.offers)

    def equip(
        self,
        live: LiveRun,
        record: RunRecord,
        policy: Policy,
        capabilities: CapabilitySet,
        connectors: Connectors,
    ) -> Equipment:
        from drawbar.boundary.proxy import NetworkProxy
        from drawbar.contracts.tool import ToolContext
        from drawbar.tools.executor import GatedExecutor
        from drawbar.tools.registry import builtin_tools

        pool = self.servers(policy.root, marker=live.id).pool(connectors.offered) if connectors.offered else None
        served = [] if pool is None else [tool for tool in pool.tools() if tool.spec.name in policy.tools]
        tools = [*(tool for tool in builtin_tools() if tool.spec.name in policy.tools), *served]
        private_tmp = self._layout.session_tmp(record.session_id)
        network = NetworkProxy(policy.network, live.emit)
        runner = self.runner(
            policy, private_tmp=private_tmp, marker=f"{MARKER}={live.id}", network=network, notice=live.notice
        )
        context = ToolContext(
            root=policy.root,
            commands=runner,
            artifacts=live.log.artifacts(),
            capabilities=capabilities,
            emit=live.emit,
            facts={
                "approval": policy.approval,
                "sandbox": policy.sandbox,
                "workspace_root": str(policy.root.path),
            },
            questions=live,
            network=network,
        )

        async def close() -> None:
            try:
                if pool is not None:
                    await pool.close()
                await runner.close()
            finally:
                await network.close()

        executor = GatedExecutor(
            gate=self._session_rules.gate(
                self.gate(policy, offered=True, connectors=[tool.spec for tool in served]),
                session_id=record.session_id,
                root=str(policy.root.path),
            ),
            tools=tools,
            context=context,
            approver=live,
            redactor=self.redactor,
            save_rule=self._approvals.add,
            clock=self._clock,
            emit_durable=live.emit_durable,
        )
        return Equipment(executor=executor, trial=runner.trial, begin_turn=runner.begin_turn, close=close)
