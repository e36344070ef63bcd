"""Starts runs of a conversation, in the one order that pins before it acts (RUN-2)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from drawbar.contracts.clock import Clock, stamp
from drawbar.contracts.engine import Binding, EngineSession, EngineSpec, Redactor
from drawbar.contracts.errors import DrawbarError, InvalidInput, NotFound, SessionBusy, WorkspaceRefused
from drawbar.contracts.events.lifecycle import SandboxChanged, Started
from drawbar.contracts.ids import new_id
from drawbar.contracts.methods import RunStart
from drawbar.contracts.model import Account, RequestSettings
from drawbar.contracts.run import NEVER_ASKED, PREVIEW_CHARS, ApprovalMode, RunInput, RunRecord
from drawbar.runs.asking import AskHandler, QuestionHandler
from drawbar.runs.freeze import approval_mode, caller_capabilities, freeze
from drawbar.runs.live import LiveRun
from drawbar.runs.policies import run_policy
from drawbar.runs.settlement import failed
from drawbar.runs.turn import run_turn
from drawbar.sessions.assembly import Connectors
from drawbar.sessions.initial_bash import initial_call
from drawbar.sessions.prompting import conversation_prompt
from drawbar.sessions.validate import refuse_unwritable_name, validate
from drawbar.stores.atomic import private_folder
from drawbar.stores.history import list_histories, select_history
from drawbar.stores.locks import file_lock

if TYPE_CHECKING:
    from drawbar.contracts.boundary import PinnedRoot, Policy
    from drawbar.contracts.capability import CapabilitySet
    from drawbar.contracts.settings import Settings
    from drawbar.runs.registry import RunRegistry
    from drawbar.sessions.assembly import Assembly, Equipment
    from drawbar.stores.accounts import Accounts
    from drawbar.stores.approvals import ApprovalStore
    from drawbar.stores.layout import Layout
    from drawbar.stores.runs import RunStore

__all__ = ["Pins", "Sessions"]

START_LOCK_S = 5.0
"""Two processes that start a run of one session meet here; each holds it for a few milliseconds (SES-3)."""


@dataclass(frozen=True, slots=True)
class Pins:
    """Everything a run fixes when it starts; none of it changes while it lives (RUN-4)."""

    root: PinnedRoot
    history_dir: Path
    history_file: Path | None
    account: Account
    model: str
    effort: str | None
    capabilities: CapabilitySet
    approval: ApprovalMode
    sandbox: Literal["on", "off"]
    explicit_off: bool
    deny_read: tuple[str, ...]
    notices: tuple[str, ...]
    connectors: Connectors


class Sessions:
    """``harness.sessions``."""

    def __init__(
        self,
        *,
        layout: Layout,
        store: RunStore,
        registry: RunRegistry,
        accounts: Accounts,
        approvals: ApprovalStore,
        redactor: Redactor,
        clock: Clock,
        settings: Callable[[Path | None], Settings],
        assembly: Assembly,
        sockets: Path,
        version: str,
    ) -> None:
        self._layout = layout
        self._store = store
        self._registry = registry
        self._accounts = accounts
        self._approvals = approvals
        self._redactor = redactor
        self._clock = clock
        self._settings = settings
        self._assembly = assembly
        self._sockets = sockets
        self._version = version
        self._turns: set[asyncio.Task[None]] = set()
        self._starting: set[str] = set()
        self._closed = False

    async def run(
        self,
        request: RunInput,
        *,
        ask_handler: AskHandler | None = None,
        question_handler: QuestionHandler | None = None,
    ) -> RunStart:
        """Start a run and return its ids at once; the reply streams as events (API-2).

        Args:
            request: what to do, and what to pin.
            ask_handler: a surface of this process that can ask a person for an approval.
            question_handler: the same for the questions of ``ask_user`` (SES-19).

        Raises:
            InvalidInput: a field is wrong; nothing is on disk.
            AccountUnavailable: no such account, or none at all; no run is left.
            WorkspaceRefused: the folder can't be a workspace.
            SessionBusy: another run of this session is active.
            CapabilitiesFrozen: this run id was launched with another capability set.
        """
        if self._closed:
            raise InvalidInput("the harness is closed; open it again to start runs")
        validate(request)
        session_id = request.session_id or new_id("session")
        if session_id in self._starting:
            raise SessionBusy(f"session {session_id} is just starting another run", session=session_id)
        self._starting.add(session_id)
        try:
            pins = await self._pin(request, session_id)
            return await self._start(request, session_id, pins, ask_handler, question_handler)
        finally:
            self._starting.discard(session_id)

    async def close(self) -> None:
        """Start nothing more; wait until every run that was started here has let go of what it opened."""
        self._closed = True
        await asyncio.gather(*self._turns, return_exceptions=True)

    # -- pinning ----------------------------------------------------------------------------------

    def _refuse_if_busy(self, session_id: str) -> None:
        for run_id in self._store.active():
            try:
                record = self._store.load(run_id)
            except DrawbarError:
                continue
            if record.session_id == session_id and (run_id in self._registry.live or self._store.owner_alive(run_id)):
                raise SessionBusy(
                    f"session {session_id} has an active run, {run_id}; wait for it or interrupt it", run=run_id
                )

    async def _pin(self, request: RunInput, session_id: str) -> Pins:
        folder = Path(request.session_dir) if request.session_dir else self._layout.history_dir(session_id)
        history = self._select(folder, request, session_id)
        cwd = request.cwd or self._began_in(history) or os.getcwd()
        narrowed_to_reading = request.narrow_scopes == ["read-only"] or request.approval == "read-only"
        root = self._assembly.pin(cwd, read_only=narrowed_to_reading)
        refuse_unwritable_name(root.path)
        settings = self._settings(root.path)
        account = self._accounts.resolve(request.account or settings.account)
        self._assembly.check(account)
        automatic = request.automatic or request.trigger in NEVER_ASKED or request.trigger == "role"
        mode = approval_mode(request.approval or settings.approval, settings.project_approval, automatic=automatic)
        # Where the mode refuses every call of a server's tool, none is offered and no server is asked (BND-6).
        connectors = Connectors() if mode in ("read-only", "never") else await self._assembly.connectors(root)
        capabilities = freeze(
            caller_capabilities(
                [spec.name for spec in self._assembly.specs()],
                network=settings.network,
                attended=not automatic,
                connectors=connectors.names,
            ),
            narrow_tools=request.narrow_tools,
            narrow_scopes=["read-only"] if mode == "read-only" else request.narrow_scopes,
        )
        sandbox = request.sandbox or settings.sandbox or "on"
        return Pins(
            root=root,
            history_dir=folder,
            history_file=history,
            account=account,
            model=request.model or settings.model or account.model or "",
            effort=request.effort or settings.effort or account.effort,
            capabilities=capabilities,
            approval=mode,
            sandbox=sandbox,
            explicit_off=request.sandbox == "off" and request.approval is not None and request.approval == mode,
            deny_read=settings.deny_read,
            notices=settings.notices,
            connectors=connectors,
        )

    def _began_in(self, history: Path | None) -> str | None:
        """A session resumed without a folder goes on in its own, never silently in another (NAV-04)."""
        if history is None:
            return None
        folder = next((head.cwd for head in list_histories(history.parent) if head.path == history), "")
        if folder and not Path(folder).is_dir():
            raise WorkspaceRefused(
                f"{folder}, where this session worked, is gone; name the folder to go on in", folder=folder
            )
        return folder or None

    def _select(self, folder: Path, request: RunInput, session_id: str) -> Path | None:
        if not request.resume:
            return None
        found = select_history(folder, resume=True) if folder.is_dir() else None
        if found is None and not folder.is_dir():
            raise NotFound(f"session {session_id} has no history to resume", session=session_id)
        return found

    # -- starting ---------------------------------------------------------------------------------

    async def _start(
        self,
        request: RunInput,
        session_id: str,
        pins: Pins,
        ask_handler: AskHandler | None,
        question_handler: QuestionHandler | None,
    ) -> RunStart:
        record = self._record(request, session_id, pins)
        engine = self._assembly.engine(record.engine)
        record.engine_version = engine.version()
        socket = await self._registry.socket()
        wake = self._registry.wake(record.id)
        private_folder(pins.history_dir)  # before the run, so that whatever happens its session can be gone on with
        with file_lock(self._layout.locks / f"session-{session_id}", START_LOCK_S):
            self._refuse_if_busy(session_id)
            log = self._store.create(record, pins.capabilities, socket=socket, relay=lambda _lines: wake.notify())
        live = LiveRun(
            record,
            log,
            self._store,
            self._clock,
            ask_handler=None if record.automatic else ask_handler,
            question_handler=None if record.automatic else question_handler,
            ask_timeout_s=request.ask_timeout_s,
            # Without the sandbox a command can have another program act for it, and no sign would show (BND-16).
            answers_over_socket=pins.sandbox == "on" and self._assembly.namespaced(),
            on_settled=self._registry.finished,
        )
        self._registry.start(live)
        equipment: Equipment | None = None
        try:
            self._open_log(live, record, pins)
            equipment = self._assembly.equip(
                live, record, self._policy(pins, record), pins.capabilities, pins.connectors
            )
            session = await self._open_engine(live, record, pins, equipment, request.initial_bash)
        except BaseException as error:
            if equipment is not None:
                await equipment.close()
            await live.finish(live.stop_reason or failed(error))
            if not isinstance(error, Exception):
                raise
            return RunStart(run_id=record.id, session_id=session_id, native_session_id=None)
        self._begin(live, session, equipment, request.text, pins)
        return RunStart(run_id=record.id, session_id=session_id, native_session_id=session.native_session_id)

    def _record(self, request: RunInput, session_id: str, pins: Pins) -> RunRecord:
        preview = " ".join(request.text.split())[: PREVIEW_CHARS * 2]
        return RunRecord(
            id=request.run_id or new_id("run"),
            session_id=session_id,
            status="queued",
            trigger=request.trigger,
            title=request.title,
            harness_version=self._version,
            account=pins.account.id,
            model=pins.model,
            effort=pins.effort,
            capabilities_digest=pins.capabilities.digest(),
            working_directory=str(pins.root.working_directory),
            workspace_root=str(pins.root.path),
            worktree_id=request.worktree_id,
            native_history=str(pins.history_file) if pins.history_file else None,
            automatic=request.automatic or request.trigger in NEVER_ASKED or request.trigger == "role",
            request_preview=self._redactor.text(preview)[:PREVIEW_CHARS],
            created_at=stamp(self._clock.now_ms()),
            sandbox=pins.sandbox,
            approval=pins.approval,
            mode=request.mode,
            harness=request.harness,
            session_type=request.session_type,
            attachment_count=request.attachment_count,
            handoff_id=request.handoff_id,
        )

    def _policy(self, pins: Pins, record: RunRecord) -> Policy:
        return run_policy(
            pins.root,
            pins.capabilities,
            approval=pins.approval,
            hidden=(*self._layout.hidden(), self._sockets),
            deny_read=pins.deny_read,
            standing=self._approvals.list(),
            sandbox=pins.sandbox,
            explicit_off=pins.explicit_off,
            asks=not record.automatic,
        )

    def _open_log(self, live: LiveRun, record: RunRecord, pins: Pins) -> None:
        live.emit(
            Started(
                run_id=record.id,
                session_id=record.session_id,
                engine=record.engine,
                harness_version=self._version,
                account=record.account,
                model=record.model,
                workspace_root=record.workspace_root,
                capabilities_digest=record.capabilities_digest,
                approval_mode=pins.approval,
                sandbox=pins.sandbox,
                automatic=record.automatic,
            )
        )
        if pins.sandbox == "off":
            live.emit(SandboxChanged(state="off", by="caller" if pins.explicit_off else "settings"))
        for notice in pins.notices:
            live.notice("project_not_trusted", notice)
        for notice in pins.connectors.notices:
            live.notice("mcp_server", notice)

    async def _open_engine(
        self, live: LiveRun, record: RunRecord, pins: Pins, equipment: Equipment, initial_bash: str | None
    ) -> EngineSession:
        specs = equipment.executor.specs()
        compiled = conversation_prompt(
            pins,
            specs,
            attended=not record.automatic,
            now_ms=self._clock.now_ms(),
            run_folder=self._store.folder(live.id),
            redactor=self._redactor,
        )
        spec = EngineSpec(
            account=pins.account,
            settings=RequestSettings(model=pins.model, system=compiled.system, tools=tuple(specs), effort=pins.effort),
            history_dir=str(pins.history_dir),
            history_file=str(pins.history_file) if pins.history_file else None,
            working_directory=str(pins.root.working_directory),
            session_id=record.session_id,
        )
        binding = Binding(
            run_id=live.id,
            emit=live.emit,
            tools=equipment.executor,
            redactor=self._redactor,
            notes=tuple(compiled.notes),
            on_request=equipment.begin_turn,
            initial_call=None if initial_bash is None else initial_call(initial_bash),
        )
        session = await self._assembly.engine(record.engine).open(spec, binding)
        self._store.patch(
            live.id,
            {
                "native_session_id": session.native_session_id,
                "native_history": session.native_history,
                "model": session.model,
                "effort": session.effort,
            },
        )
        return session

    def _begin(self, live: LiveRun, session: EngineSession, equipment: Equipment, text: str, pins: Pins) -> None:
        async def release() -> None:
            try:
                await session.close()
            finally:
                await equipment.close()

        async def turn() -> None:
            prove = asyncio.ensure_future(_prove(live, equipment)) if pins.sandbox == "on" else None
            await run_turn(live, session, text, _then(release, prove), self._clock)

        task = asyncio.create_task(turn(), name=f"drawbar-{live.id}")
        self._turns.add(task)
        task.add_done_callback(self._turns.discard)


async def _prove(live: LiveRun, equipment: Equipment) -> None:
    """The sandbox's trial runs beside the first request; a failure is said before the first command needs it."""
    trial = await equipment.trial()
    if not trial.ok:
        live.notice("sandbox_unavailable", f"{trial.cause}. {trial.cure or ''}".strip())


def _then(release: Callable[[], Awaitable[None]], prove: asyncio.Future[None] | None) -> Callable[[], Awaitable[None]]:
    async def both() -> None:
        if prove is not None:
            prove.cancel()
            await asyncio.gather(prove, return_exceptions=True)
        await release()

    return both
