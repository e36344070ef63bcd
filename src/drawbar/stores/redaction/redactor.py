"""The one redactor of a process: what it knows, and how texts, values and streams pass it (QLT-20)."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

from drawbar.stores.redaction.encodings import learnable, placeholder_kind
from drawbar.stores.redaction.flow import Flow, whole
from drawbar.stores.redaction.format_scan import FormatScanner, format_scanner, names_a_secret
from drawbar.stores.redaction.formats import RULES
from drawbar.stores.redaction.prefilter import Prefilter
from drawbar.stores.redaction.value_scan import ValueScanner
from drawbar.stores.redaction.views import scannable

__all__ = ["SecretRedactor"]

_FORMAT_KINDS = frozenset(rule.kind for rule in RULES)


@dataclass(frozen=True, slots=True)
class _Knowledge:
    """All that is searched for at one time; replaced as a whole when a value is learnt."""

    values: ValueScanner
    formats: FormatScanner
    prefilter: Prefilter

    def redact(self, text: str) -> str:
        # Known values first: their own kind says more, and formats then see placeholders as ends of tokens.
        text = whole(self.values, text, scannable(text))
        return whole(self.formats, text, scannable(text))


class SecretRedactor:
    """Implements :class:`~drawbar.contracts.engine.Redactor`; may be shared by threads.

    Args:
        known: live secret values with their kinds; see :meth:`add`.
    """

    def __init__(self, known: Iterable[tuple[str, str]] = ()) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, str] = {}
        self._knowledge: _Knowledge | None = None
        for value, kind in known:
            self.add(value, kind)

    def add(self, value: str, kind: str) -> None:
        """Learn a live secret value, from now on hidden in every encoding (CON-31).

        Args:
            value: the secret. One too short or too ordinary to be told from common words is ignored (SEC-05).
            kind: names it in the placeholder, such as ``anthropic-credential``.
        """
        value = value.strip()
        if not learnable(value):
            return
        with self._lock:
            if value not in self._known:
                self._known[value] = placeholder_kind(kind, value)
                self._knowledge = None

    def text(self, text: str) -> str:
        """``text`` with every secret replaced; the same object when there is none."""
        knowledge = self.knowledge()
        return text if knowledge.prefilter.clean_text(text) else knowledge.redact(text)

    def value(self, value: Any) -> Any:
        """Every string inside a JSON value, keys included; the same object when nothing matched.

        The shape stays: an object keeps all its entries, also where two keys read the same once redacted.
        """
        if isinstance(value, str):
            return self.text(value)
        return self._copied(value) if self._touches(value) else value

    def clean(self, encoded: bytes) -> bool:
        """True when encoded JSON certainly holds nothing to redact (CON-33)."""
        return self.knowledge().prefilter.clean(encoded)

    def stream(self) -> _Stream:
        """A redactor of one text that arrives in pieces (CON-32)."""
        return _Stream(self)

    def knowledge(self) -> _Knowledge:
        """What is searched for now, built when first needed after something was learnt."""
        current = self._knowledge
        if current is None:
            with self._lock:
                current = self._knowledge
                if current is None:
                    formats = format_scanner()
                    values = ValueScanner(self._known, _FORMAT_KINDS.union(self._known.values()))
                    current = _Knowledge(values, formats, Prefilter((*formats.anchors, *values.forms)))
                    self._knowledge = current
        return current

    def _touches(self, root: Any) -> bool:
        """Whether redaction changes anything in ``root``. Without recursion: depth is the sender's choice."""
        waiting: list[tuple[str, Any]] = [("", root)]
        while waiting:
            key, value = waiting.pop()
            if isinstance(value, str):
                if self._field(key, value) != value:
                    return True
            elif isinstance(value, dict):
                entries = cast("dict[Any, Any]", value)
                if any(isinstance(name, str) and self.text(name) != name for name in entries):
                    return True
                waiting += [(name if isinstance(name, str) else "", item) for name, item in entries.items()]
            elif isinstance(value, (list, tuple)):
                waiting += [(key, item) for item in cast("list[Any]", value)]
        return False

    def _copied(self, root: Any) -> Any:
        top: list[Any] = []
        waiting: list[tuple[str, Any, Any, Any]] = [("", root, top, None)]
        while waiting:
            key, value, parent, place = waiting.pop()
            copy: Any = value
            if isinstance(value, str):
                copy = self._field(key, value)
            elif isinstance(value, dict):
                entries = cast("dict[Any, Any]", value)
                names = self._names(entries)
                copy = dict.fromkeys(names.values())
                waiting += [
                    (name if isinstance(name, str) else "", item, copy, names[name]) for name, item in entries.items()
                ]
            elif isinstance(value, (list, tuple)):
                items = cast("list[Any]", value)
                copy = [None] * len(items)
                waiting += [(key, item, copy, at) for at, item in enumerate(items)]
            if place is None:
                parent.append(copy)
            else:
                parent[place] = copy
        return top[0]

    def _names(self, entries: dict[Any, Any]) -> dict[Any, Any]:
        """Each key as it is written; keys that become equal get a number, so that no entry is lost."""
        names = {name: self.text(name) if isinstance(name, str) else name for name in entries}
        taken = {new for name, new in names.items() if new == name}
        for name, new in names.items():
            if new == name:
                continue
            distinct, number = new, 2
            while distinct in taken:
                distinct, number = f"{new}~{number}", number + 1
            taken.add(distinct)
            names[name] = distinct
        return names

    def _field(self, key: str, text: str) -> str:
        """A string under ``key``, which may say that its value is a secret (``"Authorization": …``)."""
        redacted = self.text(text)
        if not names_a_secret(key):
            return redacted
        name = f"{key}="
        together = self.knowledge().redact(name + redacted)
        return together[len(name) :] if together.startswith(name) else redacted


class _Stream:
    """Implements :class:`~drawbar.contracts.engine.StreamRedactor`: two stages, each with what it holds back."""

    __slots__ = ("_formats", "_redactor", "_values")

    def __init__(self, redactor: SecretRedactor) -> None:
        self._redactor = redactor
        self._values = Flow()
        self._formats = Flow()

    def feed(self, text: str) -> str:
        """Take the next piece; gives what can no longer turn out to be part of a secret."""
        knowledge = self._redactor.knowledge()
        settled = self._values.push(knowledge.values, scannable(text))
        return self._formats.push(knowledge.formats, settled) if settled else ""

    def end(self) -> str:
        """The text is over: gives what was held back. A later piece begins a new text."""
        knowledge = self._redactor.knowledge()
        settled = self._values.push(knowledge.values, "", final=True)
        last = self._formats.push(knowledge.formats, settled, final=True)
        self._values, self._formats = Flow(), Flow()
        return last
