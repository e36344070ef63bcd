"""The one compiler: from the facts of a run to the system prompt, its updates and ``context.json`` (PRM-1, PRM-5)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from drawbar.contracts.capability import Scope
from drawbar.contracts.codec import decode, encode, indent
from drawbar.contracts.engine import Redactor
from drawbar.contracts.errors import NotFound
from drawbar.contracts.methods import RunPrompt, SectionView
from drawbar.contracts.run import ApprovalMode
from drawbar.contracts.tool import ToolSpec
from drawbar.prompt.default import IDENTITY, environment, tool_guidance
from drawbar.prompt.sections import HEADINGS, Section, arranged, named
from drawbar.prompt.updates import CONTEXT_NOTE, context_update
from drawbar.stores.atomic import write_atomic

__all__ = ["CONTEXT_FILE", "CompiledPrompt", "PromptFacts", "compile_prompt", "read_context", "write_context"]

CONTEXT_FILE: Final = "context.json"
_UPDATE_ORDER: Final = 90


@dataclass(frozen=True, slots=True)
class PromptFacts:
    """What a prompt is made of besides sections.

    Attributes:
        root, working_directory: absolute paths of the pinned root.
        platform: such as ``Linux 6.18 (x86_64)``.
        tools: what the model is offered, in order; their guidance goes into the tools section.
        scopes: what commands may use.
        approval, sandbox, network: as pinned by the run.
        attended: whether a person can be asked.
        tool_guidance: the variant's addition to the tools section (c4).
        date, git: facts that change, as one line each; they travel as an update, never in the system prompt.
        carried: what the history carries already (:func:`drawbar.prompt.updates.carried_by`).
    """

    root: str
    working_directory: str
    platform: str
    tools: Sequence[ToolSpec] = ()
    scopes: tuple[Scope, ...] = ("read-only", "workspace")
    approval: ApprovalMode = "ask"
    sandbox: Literal["on", "off"] = "on"
    network: tuple[str, ...] = ()
    attended: bool = True
    tool_guidance: str = ""
    date: str | None = None
    git: str | None = None
    carried: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class CompiledPrompt:
    """A compiled prompt.

    Attributes:
        system: the stable system prompt; the same bytes as long as what it is made of is.
        sections: every section in order, dynamic ones included.
        notes: ``(custom type, text)`` of what to append to the history before the request.
        digest: SHA-256 of ``system``: what a live session is compared by (SES-10).
    """

    system: str
    sections: list[Section]
    notes: list[tuple[str, str]]
    digest: str


def compile_prompt(
    facts: PromptFacts, extra: Sequence[Section] = (), *, redactor: Redactor | None = None
) -> CompiledPrompt:
    """Compile the prompt of one run.

    Args:
        facts: of the run.
        extra: sections of the variant, the role, the project and the application (PRM-2).
        redactor: every section passes it here, once, so that what is sent and what is kept are the same bytes
            (CON-38).

    Raises:
        InvalidInput: two sections have one name, or a section is out of its place.
    """
    own = [
        named("identity", IDENTITY),
        named("environment", environment(facts)),
        named("tools", tool_guidance(facts.tools, facts.tool_guidance)),
    ]
    sections = arranged([*own, *extra])
    if redactor is not None:
        for section in sections:
            section.text = redactor.text(section.text)
    system = "\n\n".join(_rendered(section) for section in sections if not section.dynamic)
    now = {"date": facts.date, "git": facts.git}
    if redactor is not None:
        now = {name: redactor.text(text) if text else text for name, text in now.items()}
    now |= {section.name: section.text for section in sections if section.dynamic}
    update = context_update(facts.carried, now)
    return CompiledPrompt(
        system=system,
        sections=sections,
        notes=[] if update is None else [(CONTEXT_NOTE, update)],
        digest=hashlib.sha256(system.encode()).hexdigest(),
    )


def _rendered(section: Section) -> str:
    heading = HEADINGS.get(section.name)
    text = section.text.strip("\n")
    return f"# {heading}\n\n{text}" if heading else text


def write_context(folder: Path, compiled: CompiledPrompt) -> None:
    """Keep the compiled sections, with sizes and hashes, as ``context.json`` of the run in ``folder`` (PRM-5).

    Raises:
        StorageFailed: the disk refused.
    """
    parts = [*compiled.sections]
    parts += [Section(name=kind, order=_UPDATE_ORDER, text=text, dynamic=True) for kind, text in compiled.notes]
    views = [_view(part) for part in parts]
    record = RunPrompt(run_id=folder.name, sections=views)
    write_atomic(folder / CONTEXT_FILE, indent(encode(record)) + b"\n")


def _view(part: Section) -> SectionView:
    raw = part.text.encode()
    return SectionView(
        name=part.name,
        order=part.order,
        sha256=hashlib.sha256(raw).hexdigest(),
        bytes=len(raw),
        text=part.text,
        dynamic=part.dynamic,
    )


def read_context(folder: Path) -> RunPrompt:
    """What the model of the run in ``folder`` was told.

    Raises:
        NotFound: the run never compiled a prompt.
        InvalidInput: the file is damaged.
    """
    try:
        data = (folder / CONTEXT_FILE).read_bytes()
    except FileNotFoundError:
        raise NotFound(f"run {folder.name} has no prompt: it never came so far", run=folder.name) from None
    return decode(data, RunPrompt, what=CONTEXT_FILE)
