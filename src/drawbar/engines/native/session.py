"""One native conversation: the loop from a request to the model's own end of the reply (ENG-5, RUN-25).

Order of writes (SES-21): assistant entry, ``tool.started``, the call, its result entry, ``tool.completed``.
A reply counts only after the provider's terminal event, and a tool runs only with arguments that parsed
whole (QLT-14).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from drawbar.contracts.clock import Clock
from drawbar.contracts.engine import Binding, EngineSpec, TurnEnd
from drawbar.contracts.errors import DrawbarError, ProviderError, StorageFailed, UnsupportedFeature
from drawbar.contracts.events.lifecycle import ContextSnapshot, ExtensionNotice
from drawbar.contracts.events.message import MessageCompleted
from drawbar.contracts.events.tool import ToolRefused
from drawbar.contracts.events.usage import RequestUsage
from drawbar.contracts.ids import new_id
from drawbar.contracts.model import Completed, Delta, EncodedRequest, Provider, ToolCallBlock
from drawbar.contracts.tool import ToolCall, ToolResult
from drawbar.engines.native.admission import admit_assistant, text_of
from drawbar.engines.native.call_ids import DistinctCalls
from drawbar.engines.native.retrying import EmptyReply, Retrying
from drawbar.engines.native.streaming import DeltaWriter
from drawbar.engines.native.typed_command import bash_execution
from drawbar.engines.native.usage import UsageMeter, native_usage
from drawbar.models.retry import RetryPolicy
from drawbar.stores.history import HistoryFile
from drawbar.stores.history.roles import visible_message

REPAIRS_SHOWN = 5
SAVE_EVERY_S = 0.25
SAVE_FOR_S = 10.0
"""How long a history that the disk refuses is tried again before it is let go."""
CUT_REPLIES_LIMIT = 3
"""Consecutive replies whose calls the output limit cut off, after which the run fails instead of looping."""

_ENDS = {"stop": "stop", "length": "length", "error": "error", "aborted": "aborted", "refusal": "refusal"}


class NativeSession:
    """Drives one conversation; what it may do comes from the binding of the run that drives it now."""

    def __init__(
        self,
        spec: EngineSpec,
        binding: Binding,
        provider: Provider,
        history: HistoryFile,
        clock: Clock,
        retry: RetryPolicy,
    ) -> None:
        self._retry = retry
        self._spec = spec
        self._binding = binding
        self._provider = provider
        self._history = history
        self._clock = clock
        self._meter = UsageMeter()
        self._builder = provider.builder(spec.settings)
        messages = history.messages()
        self._builder.reset(messages)
        self._distinct = DistinctCalls(messages, binding.redactor)
        self._told: int = 0
        self.native_session_id = history.session_id
        self.native_history = str(history.path)
        self.model = spec.settings.model
        self.effort = spec.settings.effort

    # -- the protocol -----------------------------------------------------------------------------

    async def prompt(self, text: str) -> TurnEnd:
        """Carry one request to the model's own end of the reply."""
        self._tell_repairs()
        self._note_model()
        for kind, note in self._binding.notes:
            self._append_note(kind, note)
        asked_in = self._append_user(text)
        await self._carry_out_initial(asked_in)
        steps = 0
        cut_replies = 0
        while True:
            steps += 1
            reply, entry_id, said = await self._request(steps)
            if not reply.calls:
                return self._end(reply, said, steps)
            cut_replies = cut_replies + 1 if all(call.error for call in reply.calls) else 0
            await self._carry_out(reply.calls, entry_id)
            if cut_replies >= CUT_REPLIES_LIMIT:
                raise ProviderError(
                    f"{cut_replies} replies in a row were cut off before their tool calls were complete; "
                    "raise the output limit or ask for smaller steps",
                    kind="bad_request",
                )

    async def steer(self, text: str) -> None:
        raise UnsupportedFeature("steering isn't built yet for the native engine", feature="steer")

    async def follow_up(self, text: str) -> None:
        raise UnsupportedFeature("follow-ups aren't built yet for the native engine", feature="follow_up")

    async def abort(self) -> None:
        """Cancelling the task that awaits :meth:`prompt` is the abort; there is nothing else to stop."""

    async def compact(self, instructions: str | None = None) -> None:
        raise UnsupportedFeature("compaction isn't built yet for the native engine", feature="compact")

    async def navigate(self, entry_id: str) -> None:
        raise UnsupportedFeature("navigation isn't built yet for the native engine", feature="navigate")

    async def set_model(self, model: str, effort: str | None) -> None:
        raise UnsupportedFeature("changing the model of an open session isn't built yet", feature="set_model")

    def rebind(self, binding: Binding) -> None:
        self._binding = binding

    async def close(self) -> None:
        """Write what the disk refused so far, if it takes it in time; give back the lock and the connection."""
        try:
            deadline = self._clock.monotonic() + SAVE_FOR_S
            while self._history.unsaved and self._clock.monotonic() < deadline:
                with contextlib.suppress(StorageFailed):
                    self._history.flush()
                    break
                await asyncio.sleep(SAVE_EVERY_S)
            self._history.close()
        finally:
            await self._provider.close()

    def _tell_repairs(self) -> None:
        """Say once what was skipped or mended in the history, with place and size (SES-2, QLT-5)."""
        repairs = self._history.repairs[self._told :]
        self._told += len(repairs)
        if repairs:
            shown = "; ".join(f"{one.kind} at line {one.line} ({one.bytes} bytes)" for one in repairs[:REPAIRS_SHOWN])
            more = f" and {len(repairs) - REPAIRS_SHOWN} more" if len(repairs) > REPAIRS_SHOWN else ""
            self._notice(
                "history_damaged",
                f"parts of this conversation's history could not be used: {shown}{more}. "
                "The file keeps them; `drawbar sessions inspect` shows all.",
            )

    # -- the history ------------------------------------------------------------------------------

    def _note_model(self) -> None:
        """Model and effort are entries of their own, written when they differ from the branch's latest (SES-1)."""
        model = self._history.last("model_change")
        level = self._history.last("thinking_level_change")
        wanted = self.effort or "off"
        if model is None or model.get("modelId") != self.model:
            self._history.append({"type": "model_change", "provider": self._provider_name(), "modelId": self.model})
        if level is None or level.get("thinkingLevel") != wanted:
            self._history.append({"type": "thinking_level_change", "thinkingLevel": wanted})

    def _provider_name(self) -> str:
        return self._spec.account.id

    def _append_note(self, kind: str, note: str) -> None:
        text = self._binding.redactor.text(note)
        self._history.append({"type": "custom_message", "customType": kind, "content": text, "display": False})
        self._builder.extend([{"role": "user", "content": [{"type": "text", "text": text}]}])

    def _append_user(self, text: str) -> str:
        clean = self._binding.redactor.text(text)
        message = {
            "role": "user",
            "content": [{"type": "text", "text": clean}],
            "timestamp": self._clock.now_ms(),
        }
        entry_id = self._history.append_message(message)
        self._builder.extend([message])
        self._binding.emit(MessageCompleted(message_id=new_id("message"), entry_id=entry_id, role="user", text=clean))
        return entry_id

    # -- one model request ------------------------------------------------------------------------

    async def _request(self, step: int) -> tuple[Completed, str, str]:
        """One reply of the model, in the history; with its entry and what it says."""
        retrying = Retrying(self._retry, self._binding.emit, self._clock, self._builder.simplify)
        completed, message_id, streamed = await retrying.carry_out(lambda: self._attempt(step))
        if completed.skipped:
            self._notice("unknown_stream_events", f"{completed.skipped} stream events of unknown type were skipped")
        completed = self._distinct.apply(completed)
        return completed, *self._admit(completed, message_id, streamed)

    async def _attempt(self, step: int) -> tuple[Completed, str, dict[int, str]]:
        """One request to the provider; nothing of it is in the history yet (QLT-14)."""
        request = self._builder.build()
        self._snapshot(step, request)
        self._binding.on_request()
        message_id = new_id("message")
        deltas = DeltaWriter(message_id, self._binding.emit, self._binding.redactor, self._clock)
        completed: Completed | None = None
        billed: RequestUsage | None = None
        try:
            async with self._provider.stream(request) as events:
                async for event in events:
                    billed = events.usage
                    if isinstance(event, Delta):
                        deltas.feed(event)
                    else:
                        completed = event
        except ProviderError as error:
            deltas.end()
            spent = error.usage if isinstance(error.usage, RequestUsage) else RequestUsage()
            self._count(spent, ok=False)
            raise
        except asyncio.CancelledError:
            self._keep_partial(deltas.end())
            self._count(billed or RequestUsage(), ok=False)
            raise
        if completed is None:
            self._count(RequestUsage(), ok=False)
            raise ProviderError("the reply ended before the provider said that it was complete", kind="transport")
        attempt = (completed, message_id, deltas.end())
        self._count(completed.usage, ok=True)
        if _says_nothing(completed):
            raise EmptyReply(attempt)
        return attempt

    def _admit(self, completed: Completed, message_id: str, streamed: dict[int, str]) -> tuple[str, str]:
        admitted = admit_assistant(completed.message, streamed, self._binding.redactor)
        facts = {
            "api": self._provider.protocol,
            "provider": self._provider_name(),
            "model": self.model,
            "usage": native_usage(completed.usage),
            "timestamp": self._clock.now_ms(),
        }
        entry_id = self._history.append_message({**facts, **admitted.stored})
        self._builder.extend([{**facts, **admitted.sent}])
        said = text_of(admitted.stored)
        self._binding.emit(
            MessageCompleted(
                message_id=message_id,
                entry_id=entry_id,
                role="assistant",
                text=said,
                stop_reason=completed.stop_reason,
            )
        )
        return entry_id, said

    def _keep_partial(self, streamed: dict[int, str]) -> None:
        """What was said before a stop stays readable; request builders leave an aborted message out."""
        blocks = [{"type": "text", "text": text} for _, text in sorted(streamed.items()) if text.strip()]
        if blocks:
            self._history.append_message(
                {
                    "role": "assistant",
                    "content": blocks,
                    "api": self._provider.protocol,
                    "provider": self._provider_name(),
                    "model": self.model,
                    "usage": native_usage(RequestUsage()),
                    "stopReason": "aborted",
                    "timestamp": self._clock.now_ms(),
                }
            )

    def _snapshot(self, step: int, request: EncodedRequest) -> None:
        digests = request.digests
        self._binding.emit(
            ContextSnapshot(
                request=step,
                model=self.model,
                system_sha256=digests.get("system"),
                tools_sha256=digests.get("tools"),
                last_message_sha256=digests.get("last_message"),
                body_sha256=digests.get("body"),
                messages=request.messages,
                bytes=request.size,
            )
        )
        if request.repairs:
            self._notice("history_repaired", "; ".join(request.repairs))

    def _count(self, usage: RequestUsage, *, ok: bool) -> None:
        usage.ok = ok
        usage.model = usage.model or self.model
        self._binding.emit(self._meter.add(usage))

    def _notice(self, code: str, message: str) -> None:
        self._binding.emit(ExtensionNotice(source="engine", code=code, message=message))

    # -- the person's own command -----------------------------------------------------------------

    async def _carry_out_initial(self, entry_id: str) -> None:
        """Run what the person typed with ``!``, as the model's own call would run; the model sees the result."""
        call, self._binding.initial_call = self._binding.initial_call, None
        if call is not None:
            await self._binding.tools.execute([replace(call, entry_id=entry_id)], self._admit_initial)

    def _admit_initial(self, call: ToolCall, result: ToolResult) -> str:
        command = self._binding.redactor.text(str(call.arguments["command"]))
        message = bash_execution(command, result, self._clock.now_ms())
        entry_id = self._history.append_message(message)
        seen = visible_message(message)
        assert seen is not None
        self._builder.extend([seen])
        return entry_id

    # -- tool calls -------------------------------------------------------------------------------

    async def _carry_out(self, blocks: Sequence[ToolCallBlock], entry_id: str) -> None:
        """Run the complete calls; a cut one gets an error result and never runs (QLT-14).

        The cut ones are answered first, so that an interruption while the others run leaves none open.
        """
        ready: list[ToolCall] = []
        for block in blocks:
            call = ToolCall(id=block.id, name=block.name, arguments=block.arguments, entry_id=entry_id)
            if block.error is None:
                ready.append(call)
            else:
                self._refuse_cut(call, block.error)
        if ready:
            await self._binding.tools.execute(ready, self._admit_result)

    def _refuse_cut(self, call: ToolCall, error: str) -> None:
        message = f"{call.name} was not run: {error}. Send the call again, whole."
        entry = self._admit_result(call, ToolResult.error(message))
        self._binding.emit(
            ToolRefused(
                call_id=call.id,
                tool=call.name,
                arguments=call.arguments,
                code="incomplete_call",
                cause="fault",
                message=message,
                entry_id=entry,
            )
        )

    def _admit_result(self, call: ToolCall, result: ToolResult) -> str:
        message: dict[str, Any] = {
            "role": "toolResult",
            "toolCallId": call.id,
            "toolName": call.name,
            "content": result.content,
            "isError": result.is_error,
            "timestamp": self._clock.now_ms(),
        }
        if result.details:
            message["details"] = result.details
        entry_id = self._history.append_message(message)
        self._builder.extend([message])
        return entry_id

    # -- the end ----------------------------------------------------------------------------------

    def _end(self, reply: Completed, text: str, steps: int) -> TurnEnd:
        if reply.stop_reason == "refusal" or reply.raw_stop_reason == "refusal":
            raise ProviderError("the provider refused to answer this request", kind="refused")
        if reply.stop_reason == "error":
            raise DrawbarError("the provider ended the reply with an error")
        if not text.strip():
            self._notice("empty_reply", "the model ended its reply without saying anything")
        if reply.stop_reason == "length":
            self._notice("output_limit", "the reply was cut off at the output limit")
        return TurnEnd(stop_reason=_ENDS.get(reply.stop_reason, "other"), text=text, steps=steps)  # pyright: ignore[reportArgumentType]


def _says_nothing(reply: Completed) -> bool:
    """An ordinary end with neither text nor a call; a refusal or a reply that was cut off is none (PRV-11)."""
    if reply.calls or reply.stop_reason != "stop":
        return False
    return not any(
        block["type"] != "thinking" and str(block.get("text", "x")).strip() for block in reply.message["content"]
    )
