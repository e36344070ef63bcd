"""One search, inside the sandbox: finds the place that the gate opened, searches it, prints one JSON object.

``run(job)`` takes ``{kind, path, device, inode, …}``. The place is opened by name and compared with the identity
that the gate saw, so that a name swapped in between is refused, not followed (BND-3). ripgrep and fd do the work
where they can be run; :mod:`~drawbar.tools.search.ignore` and :mod:`~drawbar.tools.search.regex` otherwise.
"""

from __future__ import annotations

import binascii
import io
import json
import os
import stat
import sys
from collections.abc import Iterator
from typing import Any

__all__ = ["main", "run"]

LINE_CHARS = 500
ANSWER_CHARS = 256 * 1024
MEMORY_BYTES = 2 << 30
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
Hits = list[tuple[int, bool, str, bool]]
"""``(line number, is a match, text, was cut)``"""


def main(job: dict[str, Any]) -> None:
    """Carry ``job`` out within bounded memory and print the answer."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    except (ImportError, OSError, ValueError):
        pass
    sys.stdout.write(json.dumps(run(job)))
    sys.stdout.flush()


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Carry one job out. The answer holds ``error`` (a word and details) or what was found."""
    try:
        place = _open_place(job)
    except OSError as error:
        return {"error": "gone", "message": os.strerror(error.errno or 0)}
    try:
        return _grep(job, place) if job["kind"] == "grep" else _find(job)
    except MemoryError:
        return {"error": "memory"}


def _open_place(job: dict[str, Any]) -> int | None:
    """Go to the folder, or open the file, that the gate opened; the file's descriptor, or None for a folder."""
    fd = os.open(job["path"], os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    seen = os.fstat(fd)
    if [seen.st_dev, seen.st_ino] != [job["device"], job["inode"]]:
        os.close(fd)
        raise OSError(116, "replaced")
    if stat.S_ISDIR(seen.st_mode):
        os.fchdir(fd)
        os.close(fd)
        return None
    return fd


def _program(names: list[str]) -> str | None:
    return next((name for name in names if os.access(name, os.X_OK)), None)


# -- grep ---------------------------------------------------------------------------------------------


def _grep(job: dict[str, Any], file: int | None) -> dict[str, Any]:
    from drawbar.tools.search.globs import BadGlob
    from drawbar.tools.search.ignore import Override
    from drawbar.tools.search.regex import LinePattern, Unsupported

    pattern: LinePattern | None = None
    refused = ""
    try:
        pattern = LinePattern(job["pattern"], ignore_case=job["ignore_case"], literal=job["literal"])
    except Unsupported as error:
        refused = str(error)
    try:
        Override(job["glob"])
    except BadGlob as error:
        return {"error": "glob", "message": str(error)}
    if file is not None and _holds_nul(file):
        return {"error": "binary"}
    program = _program(job["programs"])
    if pattern is None and (program is None or "\n" in job["pattern"]):
        return {"error": "pattern", "message": refused}
    collected = _Collector(job["limit"], job["context"])
    if program is None:
        assert pattern is not None
        _grep_here(collected, job, pattern, file)
    else:
        message = _grep_with(program, collected, job, pattern, file)
        if message:
            return {"error": "pattern", "message": message}
    return {"files": collected.files, "more": collected.full, "matches": collected.matches}


class _Collector:
    """Gathers hits file by file and knows when there are enough."""

    def __init__(self, limit: int, context: int) -> None:
        self.files: list[tuple[str, Hits]] = []
        self.matches = 0
        self.full = False
        self.context = context
        self._limit = limit
        self._room = ANSWER_CHARS
        self._hits: Hits = []
        self._last = 0

    def hit(self, number: int, matched: bool, text: str) -> None:
        """Take one line; the first match above the limit only says that there are more."""
        if self.full:
            return
        if matched and (self.matches == self._limit or self._room < 0):
            self.full = True
            # What is left of the context belongs to a match that isn't shown.
            self._hits = [hit for hit in self._hits if hit[0] <= self._last + self.context]
            return
        if matched:
            self.matches += 1
            self._last = number
        text = text[:-1] if text.endswith("\r") else text
        shown = text[:LINE_CHARS]
        self._room -= len(shown)
        self._hits.append((number, matched, shown, len(text) > LINE_CHARS))

    def end(self, path: str, *, keep: bool) -> None:
        """The file is done; ``keep`` is False for a binary one, whose hits don't count."""
        hits, self._hits = self._hits, []
        self._last = 0
        if keep:
            if hits:
                self.files.append((path, hits))
        else:
            self.matches -= sum(hit[1] for hit in hits)
            self.full = False


def _grep_with(program: str, out: _Collector, job: dict[str, Any], pattern: Any, file: int | None) -> str:
    """Search with ripgrep; gives what it says against the pattern, or nothing."""
    literal = pattern is not None and job["literal"]
    ignore_case = pattern.ignore_case if pattern is not None else job["ignore_case"]
    argv = [program, "--no-config", "--json", "--no-messages", "--hidden", "--no-mmap", "--no-ignore-global"]
    argv += ["--sort=path", "--ignore-case" if ignore_case else "--case-sensitive"]
    argv += [f"--context={job['context']}"]
    argv += ["--fixed-strings"] if literal else []
    argv += [f"--glob={job['glob']}"] if job["glob"] else []
    argv += ["--glob=!.git"]
    argv += ["--text"] if file is not None else []
    argv += [f"--regexp={job['pattern'] if pattern is None or literal else pattern.rust}"]
    argv += ["-"] if file is not None else ["./"]
    child = _Child(argv, file)
    for line in child.lines(b"\n"):
        # Once there are enough, the rest of the file matters only for whether it is binary.
        if out.full and not line.startswith(b'{"type":"end"'):
            continue
        message = json.loads(line)
        data = message["data"]
        if message["type"] in ("match", "context"):
            text = _text(data["lines"])
            text = text[:-1] if text.endswith("\n") else text
            out.hit(data["line_number"], message["type"] == "match", text)
        elif message["type"] == "end":
            out.end(_text(data["path"])[2:], keep=data["binary_offset"] is None)
            if out.full:
                child.stop()
                return ""
    return child.error() if child.wait() == 2 and not out.files else ""


def _text(value: dict[str, str]) -> str:
    if "text" in value:
        return value["text"]
    return binascii.a2b_base64(value["bytes"]).decode("utf-8", "surrogateescape")


def _grep_here(out: _Collector, job: dict[str, Any], pattern: Any, file: int | None) -> None:
    from drawbar.tools.search.ignore import Override, Walk

    if file is not None:
        _search_file(out, pattern, os.fdopen(file, "rb"), "", binary_too=True)
        return
    for path, entry in Walk(".rgignore", Override(job["glob"])):
        if out.full:
            return
        if entry.is_file(follow_symlinks=False):
            try:
                opened = open(path, "rb")  # noqa: SIM115  (closed by the search)
            except OSError:
                continue
            _search_file(out, pattern, opened, path, binary_too=False)


def _search_file(out: _Collector, pattern: Any, file: Any, path: str, *, binary_too: bool) -> None:
    before: list[tuple[int, str]] = []
    last = 0
    binary = False
    with file:
        for number, raw in enumerate(_raw_lines(file), 1):
            binary = not binary_too and b"\0" in raw
            if binary:
                break
            if out.full:
                continue
            line = (raw[:-1] if raw.endswith(b"\n") else raw).decode("utf-8", "surrogateescape")
            if pattern.matches(line):
                for earlier in before:
                    out.hit(earlier[0], False, earlier[1])
                before.clear()
                out.hit(number, True, line)
                last = number
            elif last and number <= last + out.context:
                out.hit(number, False, line)
            elif out.context:
                before.append((number, line))
                del before[: -out.context]
    out.end(path, keep=not binary)


def _raw_lines(file: Any) -> Iterator[bytes]:
    """The lines of a file as UTF-8, its byte order mark left out; UTF-16 is known by its mark."""
    first = file.readline()
    if first[:2] in _UTF16:
        yield from io.BytesIO((first + file.read()).decode("utf-16", "replace").encode("utf-8"))
        return
    if first:
        yield first[3:] if first.startswith(b"\xef\xbb\xbf") else first
    yield from file


def _holds_nul(file: int) -> bool:
    head = os.pread(file, 65536, 0)
    return head[:2] not in _UTF16 and b"\0" in head


# -- find ---------------------------------------------------------------------------------------------


def _find(job: dict[str, Any]) -> dict[str, Any]:
    from heapq import nsmallest

    from drawbar.tools.search.globs import BadGlob, glob_regex

    glob = job["pattern"]
    folders_only = glob.endswith("/")
    glob = glob.rstrip("/")
    whole = "/" in glob
    try:
        fits = glob_regex(glob).match
    except BadGlob as error:
        return {"error": "glob", "message": str(error)}
    program = _program(job["programs"])
    paths = _walked() if program is None else _listed(program)
    limit = job["limit"]
    chosen = (path for path in paths if fits(path if whole else path.rpartition("/")[2]))
    if folders_only:
        chosen = (path for path in chosen if _is_folder(path))
    found = nsmallest(limit + 1, chosen, key=lambda path: os.fsencode(path).split(b"/"))
    room = ANSWER_CHARS
    answer: list[str] = []
    for path in found[:limit]:
        room -= len(path)
        if room < 0:
            break
        answer.append(path + "/" if _is_folder(path) else path)
    return {"paths": answer, "more": len(found) > len(answer)}


def _walked() -> Iterator[str]:
    from drawbar.tools.search.ignore import Walk

    return (path for path, _entry in Walk(".fdignore"))


def _listed(program: str) -> Iterator[str]:
    child = _Child([program, "--hidden", "--print0", "--color=never", "--exclude=.git", "."], None)
    for raw in child.lines(b"\0"):
        path = os.fsdecode(raw)
        yield (path[2:] if path.startswith("./") else path).rstrip("/")
    child.wait()


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


# -- a program of the sandbox's own -------------------------------------------------------------------


class _Child:
    """A program whose output is read as it comes; its own configuration and the person's are left out."""

    def __init__(self, argv: list[str], stdin: int | None) -> None:
        out_read, out_write = os.pipe()
        self._errors = os.memfd_create("errors") if hasattr(os, "memfd_create") else os.open(os.devnull, os.O_RDWR)
        nothing = os.open(os.devnull, os.O_RDONLY)
        actions = [
            (os.POSIX_SPAWN_DUP2, nothing if stdin is None else stdin, 0),
            (os.POSIX_SPAWN_DUP2, out_write, 1),
            (os.POSIX_SPAWN_DUP2, self._errors, 2),
        ]
        env = {"PATH": os.defpath, "HOME": "/nonexistent", "XDG_CONFIG_HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}
        self._pid = os.posix_spawn(argv[0], [os.fsencode(word) for word in argv], env, file_actions=actions)
        os.close(out_write)
        os.close(nothing)
        self._out = io.BufferedReader(io.FileIO(out_read))

    def lines(self, end: bytes) -> Iterator[bytes]:
        if end == b"\n":
            yield from self._out
            return
        rest = b""
        while True:
            chunk = self._out.read1(1 << 16)
            if not chunk:
                break
            *whole, rest = (rest + chunk).split(end)
            yield from whole

    def stop(self) -> None:
        os.kill(self._pid, 9)
        os.waitpid(self._pid, 0)

    def wait(self) -> int:
        return os.waitpid(self._pid, 0)[1] >> 8

    def error(self) -> str:
        os.lseek(self._errors, 0, 0)
        return os.read(self._errors, 4096).decode("utf-8", "replace")
