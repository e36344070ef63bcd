"""With ripgrep and fd or without: the same answers for the common pattern syntax (ENG-6)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drawbar.tools.search.globs import BadGlob, glob_regex
from drawbar.tools.search.regex import LinePattern, Unsupported

RG = shutil.which("rg")
FD = shutil.which("fd") or shutil.which("fdfind")
needs_both = pytest.mark.skipif(RG is None or FD is None, reason="ripgrep or fd isn't installed here")
SOURCE = Path(__file__).parents[2] / "src"

RUN = "import json, sys; sys.path.insert(0, sys.argv[1])\nfrom drawbar.tools.search.worker import main\n"
RUN += "for line in sys.stdin: main(json.loads(line)); print(flush=True)\n"


def answers(folder: Path, jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the worker says to each job at ``folder``, in a process of its own."""
    found = folder.stat()
    place = {"path": str(folder), "device": found.st_dev, "inode": found.st_ino}
    lines = "".join(json.dumps({**job, **place}) + "\n" for job in jobs)
    done = subprocess.run(
        [sys.executable, "-I", "-W", "ignore", "-c", RUN, str(SOURCE)], input=lines, text=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def grep_job(**rest: Any) -> dict[str, Any]:
    job = {"kind": "grep", "ignore_case": False, "literal": False, "glob": None, "context": 0, "limit": 100}
    return {**job, **rest}


ATOMS = [
    "a", "b", "A", "é", "É", "ß", "i", "İ", "ı", "K", "ſ", "日", "²", "‿", "\u0301", " ", "x", "-", "{", "}", ".",
    "\\.", "\\/", '\\"', "\\d", "\\w", "\\s", "\\D", "\\W", "\\S", "\\b", "\\B", "^", "$", "[ab]", "[^a]", "[a-c]",
    "[^\\w]", "[\\W_]", "[\\D]", "[\\s-]", "[[:alpha:]]", "[^[:punct:]]", "[]x]", "[^]x]", "[İ-ı]", "(?:a|b)", "(a)",
    "(?P<n>b)", "\\x41", "\\u00e9", "\\t",
]  # fmt: skip
QUANTIFIERS = ["", "", "", "", "*", "+", "?", "{2}", "{1,}", "{0,2}", "*?", "+?", "??"]
patterns = st.builds(
    lambda parts, other: "".join(a + q for a, q in parts) + other,
    st.lists(st.tuples(st.sampled_from(ATOMS), st.sampled_from(QUANTIFIERS)), min_size=1, max_size=4),
    st.sampled_from(["", "", "", "|a", "|\\d+", "|^$"]),
)
LETTERS = 'abAB xX_-{}.1٣éÉßẞ日²‿KkKſsSiIİıǅ\r\t"/\u0301\x1c\x85\u2003😀'
file_lines = st.lists(
    st.text(st.sampled_from(LETTERS), max_size=7).map(str.encode) | st.sampled_from([b"\xffa", b"caf\xe9", b"", b"\r"]),
    min_size=1,
    max_size=40,
)


@pytest.mark.slow
@needs_both
@pytest.mark.clause("ENG-6")
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(wanted=st.lists(patterns, min_size=1, max_size=8), lines=file_lines, ignore_case=st.booleans())
def test_both_find_the_same_lines_for_every_common_pattern(
    tmp_path_factory: pytest.TempPathFactory, wanted: list[str], lines: list[bytes], ignore_case: bool
) -> None:
    folder = tmp_path_factory.mktemp("lines")
    (folder / "f.txt").write_bytes(b"\n".join(lines) + b"\n")
    common: list[str] = []
    for pattern in wanted:
        try:
            LinePattern(pattern)
        except Unsupported:
            continue
        common.append(pattern)
    jobs = [
        grep_job(pattern=pattern, ignore_case=ignore_case, programs=programs)
        for pattern in common
        for programs in ([RG], [])
    ]
    found = answers(folder, jobs) if jobs else []
    for number, pattern in enumerate(common):
        assert found[2 * number] == found[2 * number + 1], pattern


NAMES = ["a", "b", "c.py", "d.log", "e.txt", ".h", "build", "node_modules", "x y", "é.py", "[z]", "f.PY", "sub"]
RULES = [
    "*.log", "build", "/build", "build/", "!a", "*", "!*/", "!*.py", "a/b", "**/e.txt", "sub/**", "a/**/c.py", "\\#x",
    "#c", "", "  ", "*.py", "!c.py", "/a", "x\\ y", "?", "[ab]", "[!a]", "{a,b}", "a/", "é*", "c.*  ", "**", "/**",
    "**/sub", "*/b", "f.P?", "\\!x", "[z", "[[]z]", "d.lo?", "*.py\r",
]  # fmt: skip
GREP_GLOBS = [
    None, None, None, "*.py", "!*.py", "a/**", "**/c.py", "/c.py", "a", "a/", "{a,c.py}", "?.py", "[ac]*", "*", "!a",
    "build/**", ".*", "sub/*.txt",
]  # fmt: skip
FIND_GLOBS = [
    "*", "*.py", "**/*.py", "a/**", "a/*", "**/a", "?", "[ab]", "{a,b}", "*.{py,log}", "a/", "**/", "**", ".*", "é.py",
    "x y", "\\[z\\]", "a/**/c.py", "sub/*/e.txt", "*e*", "[!a]*",
]  # fmt: skip
CONTENTS = ["hello\n", "foo\nhello\nbar\n", "hello\0\n", "no\n", "hello\nx\ny\nhello\n", "\ufeffhello\n", "hello"]


@st.composite
def trees(draw: st.DrawFn, depth: int = 0) -> dict[str, Any]:
    """A folder as ``{name: content or folder}``, with ignore files and now and then a repository of its own."""
    tree: dict[str, Any] = {}
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True)):
        folder = depth < 2 and "." not in name[1:] and draw(st.booleans())
        tree[name] = draw(trees(depth + 1)) if folder else draw(st.sampled_from(CONTENTS))
    rules = st.lists(st.sampled_from(RULES), min_size=1, max_size=3).map("\n".join)
    for name, often in ((".gitignore", 2), (".ignore", 7), (".rgignore", 15), (".fdignore", 15)):
        if draw(st.integers(1, often)) == 1:
            tree[name] = draw(rules)
    if draw(st.integers(0, 3 if depth == 0 else 12)) == 0:
        tree[".git"] = {"config": "hello\n", "info": {"exclude": draw(rules)}}
    return tree


def plant(folder: Path, tree: dict[str, Any]) -> None:
    folder.mkdir(exist_ok=True)
    for name, content in tree.items():
        if isinstance(content, str):
            (folder / name).write_text(content)
        else:
            plant(folder / name, content)


@needs_both
@pytest.mark.clause("ENG-6")
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    tree=trees(),
    start=st.sampled_from(["", "", "a", "sub", "build"]),
    greps=st.lists(
        st.tuples(st.sampled_from(GREP_GLOBS), st.integers(0, 2), st.sampled_from([1, 2, 5, 100])), max_size=4
    ),
    finds=st.lists(st.tuples(st.sampled_from(FIND_GLOBS), st.sampled_from([2, 1000])), max_size=4),
)
def test_both_walk_the_same_tree(
    tmp_path_factory: pytest.TempPathFactory,
    tree: dict[str, Any],
    start: str,
    greps: list[tuple[str | None, int, int]],
    finds: list[tuple[str, int]],
) -> None:
    folder = tmp_path_factory.mktemp("tree")
    plant(folder, tree)
    place = folder / start if (folder / start).is_dir() else folder
    jobs: list[dict[str, Any]] = []
    for glob, context, limit in greps:
        job = grep_job(pattern="hello", glob=glob, context=context, limit=limit)
        jobs += [{**job, "programs": [RG]}, {**job, "programs": []}]
    for glob, limit in finds:
        job = {"kind": "find", "pattern": glob, "limit": limit}
        jobs += [{**job, "programs": [FD]}, {**job, "programs": []}]
    found = answers(place, jobs) if jobs else []
    for number in range(0, len(found), 2):
        assert found[number] == found[number + 1], jobs[number]


IGNORED: dict[str, tuple[dict[str, str], list[str]]] = {
    "a repository inside is asked for its own rules alone": (
        {".git/x": "", ".gitignore": "a.txt\n", "inner/.git/x": "", "inner/a.txt": "", "a.txt": "", "b.txt": ""},
        ["b.txt", "inner", "inner/a.txt"],
    ),
    "without a repository .gitignore is only a file": ({".gitignore": "a.txt\n", "a.txt": ""}, ["a.txt"]),
    "without a repository .ignore holds": ({".ignore": "a.txt\n", "a.txt": "", "b.txt": ""}, ["b.txt"]),
    "a deeper rule wins": (
        {".git/x": "", ".gitignore": "*.txt\n", "in/.gitignore": "!a.txt\n", "in/a.txt": "", "a.txt": ""},
        ["in", "in/a.txt"],
    ),
    "info/exclude holds": ({".git/info/exclude": "a.txt\n", "a.txt": "", "b.txt": ""}, ["b.txt"]),
    ".ignore comes before .gitignore": (
        {".git/x": "", ".gitignore": "a.txt\n", ".ignore": "!a.txt\n", "a.txt": ""},
        ["a.txt"],
    ),
    "a git file makes a repository too": ({".git": "gitdir: /nowhere\n", ".gitignore": "a.txt\n", "a.txt": ""}, []),
}


@pytest.mark.clause("ENG-6")
@pytest.mark.parametrize("case", IGNORED)
def test_what_is_left_out(tmp_path: Path, case: str) -> None:
    files, wanted = IGNORED[case]
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    for programs in ([FD] if FD else [], []):
        (found,) = answers(tmp_path, [{"kind": "find", "pattern": "[!.]*", "limit": 99, "programs": programs}])
        assert [path.rstrip("/") for path in found["paths"]] == wanted


@pytest.mark.clause("ENG-6")
@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        ("(?=a)", "look-around"),
        ("(?<!a)b", "look-around"),
        ("(a)\\1", "back-references"),
        ("\\p{L}", "Unicode classes"),
        ("a**", "a repetition of a repetition"),
        ("a*+", "a repetition of a repetition"),
        ("a{2}{3}", "a repetition of a repetition"),
        ("*a", "nothing to repeat"),
        ("(?s)a", "(?"),
        ("[a&&b]", "class arithmetic"),
        ("[a[b]]", "a class within a class"),
        ("[b-a]", "a range"),
        ("[a", "never closed"),
        ("(a", "never closed"),
        ("a)", "without its group"),
        ("a\\", "a backslash at the end"),
        ("a\\nb", "a line break"),
        ("a\nb", "a line break"),
        ("\\<a", "\\b"),
        ("\\Aa", "\\A"),
        ("a{5,2}", "below its start"),
        ("a{2000}", "above 1000"),
    ],
)
def test_what_is_not_common_is_refused_by_name(pattern: str, named: str) -> None:
    with pytest.raises(Unsupported) as refused:
        LinePattern(pattern)
    assert named in str(refused.value)


@pytest.mark.parametrize(
    ("pattern", "line", "matches"),
    [
        ("foo {", "foo {", True),
        ("x{,3}", "x{,3}", True),
        ("end$", "end\r", True),
        ("(?i)HELLO", "hello", True),
        ("^$", "", True),
        ("^$", "\r", True),
        ("a.c", "a\udcffc", False),
        ("[^a]", "\udcff", False),
    ],
)
def test_what_the_common_syntax_means(pattern: str, line: str, matches: bool) -> None:
    assert LinePattern(pattern).matches(line) is matches


@pytest.mark.parametrize("glob", ["[a", "{a", "{a,{b,c}}", "a\\", "[b-a]"])
def test_faulty_globs_are_named(glob: str) -> None:
    with pytest.raises(BadGlob):
        glob_regex(glob)


@pytest.mark.clause("ENG-6")
def test_a_name_of_any_bytes_comes_through(tmp_path: Path) -> None:
    odd = os.fsdecode(b"bad\xff\nname")
    (tmp_path / odd).write_text("hello\n")
    for programs in ([FD] if FD else [], []):
        (found,) = answers(tmp_path, [{"kind": "find", "pattern": "*", "limit": 10, "programs": programs}])
        assert found["paths"] == [odd]
    for programs in ([RG] if RG else [], []):
        (found,) = answers(tmp_path, [grep_job(pattern="hello", programs=programs)])
        assert found["files"][0][0] == odd


@pytest.mark.clause("ENG-6")
def test_the_worker_needs_nothing_but_the_standard_library() -> None:
    """It runs on whatever Python the sandbox shows, without the packages installed here."""
    code = f"""
import sys
sys.path[:] = [path for path in sys.path if "site-packages" not in path] + [{str(SOURCE)!r}]
import drawbar.tools.search.worker, drawbar.tools.search.ignore, drawbar.tools.search.regex
ours = {{name for name in sys.modules if name.startswith("drawbar")}}
assert ours == {{"drawbar", "drawbar.tools", "drawbar.tools.search"}} | {{
    "drawbar.tools.search." + name for name in ("worker", "ignore", "regex", "dialects", "globs")}}, ours
"""
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)
