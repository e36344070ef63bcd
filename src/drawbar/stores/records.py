"""``run.json``: a raw object that is patched, and the typed view of it (CON-1, CON-8, CON-37)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from drawbar.contracts.codec import UNSET, as_object, convert, encode, field_names, indent, loads
from drawbar.contracts.engine import Redactor
from drawbar.contracts.errors import IncompatibleRoot, InvalidInput
from drawbar.contracts.events.lifecycle import SCHEMA_VERSION
from drawbar.contracts.run import LogHead, RunRecord
from drawbar.contracts.status import SETTLED
from drawbar.stores.event_reader import read_events
from drawbar.stores.layout import EVENTS_FILE, RUN_FILE
from drawbar.stores.log_lines import well_formed
from drawbar.stores.log_state import LogEnd, LogState, end_of, follow
from drawbar.stores.regular_file import read_regular

__all__ = [
    "changes_of_end",
    "ends_in_order",
    "file_of",
    "head_of",
    "load_raw_record",
    "patched",
    "raw_of",
    "read_raw_record",
    "record_of",
]

# Names, ids, codes, digests and times that the harness itself chose: never redacted (QLT-20).
_IDENTIFIERS: Final = frozenset(
    {
        "id",
        "session_id",
        "status",
        "terminal_code",
        "outcome",
        "trigger",
        "relation",
        "parent_run_id",
        "resumed_from_run_id",
        "engine",
        "engine_version",
        "harness_version",
        "variant",
        "capabilities_digest",
        "native_session_id",
        "created_at",
        "started_at",
        "ended_at",
        "schema_version",
        "sandbox",
        "approval",
        "log_head",
    }
)
_FIELDS: Final = dict(zip(field_names(RunRecord), RunRecord.__struct_fields__, strict=True))


def raw_of(record: RunRecord) -> dict[str, Any]:
    """Every field of ``record`` as plain JSON values; only what is unknown (unset) is absent (CON-7)."""
    values = {name: getattr(record, attribute) for name, attribute in _FIELDS.items()}
    return loads(encode(well_formed_values({name: value for name, value in values.items() if value is not UNSET})))


def well_formed_values(values: dict[str, Any]) -> dict[str, Any]:
    """``values`` with texts that can be encoded; structs are left to the encoder."""
    return {name: well_formed(value) for name, value in values.items()}


def file_of(raw: Mapping[str, Any]) -> bytes:
    """The bytes of ``run.json``: one field a line."""
    return indent(encode(raw)) + b"\n"


def record_of(raw: Mapping[str, Any], run_id: str) -> RunRecord:
    """The typed view; a field that doesn't fit (a later release's, damage) takes its default (CON-8)."""
    raw = {**raw, "id": run_id}
    try:
        return convert(raw, RunRecord, what=RUN_FILE)
    except InvalidInput:
        return convert({"id": run_id, **{k: v for k, v in raw.items() if _fits(k, v)}}, RunRecord, what=RUN_FILE)


def _fits(name: str, value: Any) -> bool:
    try:
        convert({"id": "", name: value}, RunRecord, what=RUN_FILE)
    except InvalidInput:
        return False
    return True


def read_raw_record(folder: Path) -> dict[str, Any] | None:
    """What ``run.json`` holds, every field; None when it is missing or damaged.

    Raises:
        InvalidInput: it is no file, or can't be read.
    """
    try:
        data = read_regular(folder / RUN_FILE)
    except FileNotFoundError:
        return None
    try:
        return as_object(loads(data))
    except (ValueError, RecursionError):
        return None


def load_raw_record(folder: Path) -> dict[str, Any]:
    """As :func:`read_raw_record`; a damaged record is made anew from what the log says, since the log wins (CON-13)."""
    return read_raw_record(folder) or _from_log(folder)


def _from_log(folder: Path) -> dict[str, Any]:
    state = LogState()
    end: LogEnd | None = None
    found: dict[str, Any] = {}
    for event in read_events(folder / EVENTS_FILE):
        if event.type == "started" and not found:
            pinned = as_object(loads(bytes(event.payload))) or {}
            found = {name: value for name, value in pinned.items() if name in _FIELDS and _fits(name, value)}
            found["created_at"] = event.at
        state = follow(state, event)
        if state.sealed and end is None:
            end = end_of(event)
    found = {**raw_of(RunRecord(id=folder.name, status=state.status)), **found}  # pyright: ignore[reportArgumentType]
    return {**found, **changes_of_end(end)} if end is not None else found


def changes_of_end(end: LogEnd) -> dict[str, Any]:
    """What a terminal line says of the record."""
    return {
        "status": end.status,
        "terminal_code": end.code,
        "terminal_reason": end.reason,
        "outcome": end.outcome,
        "ended_at": end.at or None,
    }


def ends_in_order(raw: dict[str, Any]) -> dict[str, Any]:
    """``raw`` with an end that is no earlier than its start, also where the clock was set back meanwhile."""
    end = _moment(raw.get("ended_at"))
    for name in ("created_at", "started_at"):
        begun = _moment(raw.get(name))
        if end is not None and begun is not None and end < begun:
            raw = {**raw, "ended_at": raw[name]}
            end = begun
    return raw


def _moment(text: object) -> datetime | None:
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def head_of(raw: Mapping[str, Any]) -> LogHead | None:
    """Where the record says that the log ended."""
    try:
        head = convert(raw.get("log_head"), LogHead, what="log_head")
    except InvalidInput:
        return None
    return head if head.seq >= 0 else None


def patched(raw: Mapping[str, Any], changes: Mapping[str, Any], redactor: Redactor) -> dict[str, Any]:
    """``raw`` with ``changes``; fields that this release doesn't know stay as they are (CON-37).

    An ``ended_at`` before the start (somebody set the clock back) is saved as the start.

    Raises:
        InvalidInput: a change names no field of the record, doesn't fit it, or reopens a settled run (CON-3).
        IncompatibleRoot: the record is a newer release's (CON-8).
    """
    version = raw.get("schema_version", SCHEMA_VERSION)
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise IncompatibleRoot(
            f"run {raw.get('id')} was written by a newer release (schema {version}); it can be read, not changed"
        )
    for name in changes:
        if name not in _FIELDS or name == "id":
            raise InvalidInput(f"{name} is no field of a run record that can change", field=name)
    values: dict[str, Any] = loads(encode(well_formed_values(dict(changes))))
    new = values.get("status", raw.get("status"))
    if raw.get("status") in SETTLED and new not in SETTLED:
        raise InvalidInput(
            f"run {raw.get('id')} has settled as {raw.get('status')}; it is never reopened", field="status"
        )
    convert({"id": "", **values}, RunRecord, what=RUN_FILE)
    after = {**raw, **redacted(values, redactor)}
    return ends_in_order(after) if "ended_at" in values else after


def redacted(values: Mapping[str, Any], redactor: Redactor) -> dict[str, Any]:
    """``values`` with free text redacted (CON-31)."""
    if redactor.clean(encode(values)):
        return dict(values)
    return {name: value if name in _IDENTIFIERS else redactor.value(value) for name, value in values.items()}
