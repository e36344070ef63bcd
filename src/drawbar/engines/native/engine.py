"""Opens native sessions on a history file and a provider client."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from drawbar.contracts.clock import Clock
from drawbar.contracts.engine import Binding, EngineSpec
from drawbar.contracts.errors import InvalidInput
from drawbar.contracts.model import Account, Provider
from drawbar.engines.native.session import NativeSession
from drawbar.models.retry import RetryPolicy
from drawbar.stores.history import HistoryFile, fork_history

ENGINE_NAME = "native"
ENGINE_VERSION = "1"


class NativeEngine:
    """The engine that runs inside this process.

    Args:
        provider_for: makes the client for an account.
        clock: time source.
        retry: how patient conversations are with a provider; None takes the usual patience.
    """

    name = ENGINE_NAME

    def __init__(
        self, provider_for: Callable[[Account], Provider], clock: Clock, retry: RetryPolicy | None = None
    ) -> None:
        self._provider_for = provider_for
        self._clock = clock
        self._retry = retry or RetryPolicy()

    async def open(self, spec: EngineSpec, binding: Binding) -> NativeSession:
        """Open a conversation: a new history, or the given one under its lock.

        Raises:
            SessionBusy: another live process or run writes that history (SES-3).
            InvalidInput: the file is no session history.
            UnsupportedFeature: no client speaks the account's protocol.
        """
        provider = self._provider_for(spec.account)
        try:
            if spec.history_file is None:
                history = HistoryFile.create(
                    Path(spec.history_dir), cwd=spec.working_directory, session_id=None, clock=self._clock
                )
            else:
                history = self._reopen(Path(spec.history_file), Path(spec.history_dir))
            return NativeSession(spec, binding, provider, history, self._clock, self._retry)
        except BaseException:
            await provider.close()
            raise

    def _reopen(self, path: Path, folder: Path) -> HistoryFile:
        """Open a history; one of an older format version goes on in a copy of its branch, and stays as it is."""
        try:
            return HistoryFile.open(path, clock=self._clock)
        except InvalidInput as error:
            if not error.facts.get("fork"):
                raise
            return fork_history(path, folder, clock=self._clock)

    def version(self) -> str:
        return ENGINE_VERSION

    def features(self) -> frozenset[str]:
        return frozenset({"prompt", "abort", "resume", "gate_inside_execution"})
