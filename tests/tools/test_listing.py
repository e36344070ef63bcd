"""``ls``, ``find`` and ``grep`` as the model sees them, in the sandbox (ENG-6)."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tests.tools.kit import Workshop

from drawbar.contracts.boundary import Verdict
from drawbar.contracts.tool import ToolContext, ToolResult
from drawbar.tools.find import FindTool
from drawbar.tools.grep import GrepTool
from drawbar.tools.registry import builtin_tools
from drawbar.tools.search.sandboxed import SearchPrograms

TREE = {
    "README.md": "# Title\nneedle here\n",
    "src/app.py": "import os\n\n\ndef needle():\n    return os\n",
    "src/deep/test_app.py": "from app import needle\n",
    ".hidden/x.py": "needle\n",
    ".gitignore": "build/\n*.log\n",
    ".git/config": "needle\n",
    "build/out.py": "needle\n",
    "run.log": "needle\n",
}
BACKENDS = {"with programs": None, "without": SearchPrograms("")}
either = pytest.mark.parametrize("programs", BACKENDS.values(), ids=BACKENDS)


@pytest.mark.clause("ENG-6")
async def test_ls_shows_names_in_order_folders_with_a_slash_and_dotfiles(workshop: Workshop) -> None:
    bench = workshop.bench(files={"b.txt": "", "A.txt": "", ".dot": "", "dir/x": "", ".d/x": ""})
    assert await bench.text("ls") == ".d/\n.dot\nA.txt\nb.txt\ndir/\n"
    assert await bench.text("ls", path="dir") == "x\n"
    assert "is a file" in await bench.text("ls", path="b.txt")
    assert (await bench.call("ls", path="nothing")).is_error
    (bench.root / "empty").mkdir()
    assert await bench.text("ls", path="empty") == "[empty is empty]"


@pytest.mark.clause("ENG-6")
async def test_ls_is_bounded(workshop: Workshop) -> None:
    bench = workshop.bench(files={f"f{number:04}": "" for number in range(2600)})
    text = await bench.text("ls")
    assert text.startswith("f0000\nf0001\n")
    assert text.endswith("f0499\n\n[500 of 2,600 entries shown. Use a limit above 500, or find with a pattern.]")
    text = await bench.text("ls", limit=5000)
    assert "[2,000 of 2,600 entries shown. Use find with a pattern.]" in text


@either
@pytest.mark.clause("ENG-6")
async def test_find(workshop: Workshop, programs: SearchPrograms | None) -> None:
    bench = workshop.bench(files=TREE, programs=programs)
    assert await bench.text("find", pattern="*.py") == ".hidden/x.py\nsrc/app.py\nsrc/deep/test_app.py\n"
    assert await bench.text("find", pattern="src/**/*.py") == "src/app.py\nsrc/deep/test_app.py\n"
    assert await bench.text("find", pattern="*/") == ".hidden/\nsrc/\nsrc/deep/\n"
    assert await bench.text("find", pattern="{app,test_app}.py", path="src") == "app.py\ndeep/test_app.py\n"
    assert await bench.text("find", pattern="APP.py") == "[nothing in . is called APP.py]"
    text = await bench.text("find", pattern="*", limit=2)
    assert text.startswith(".gitignore\n.hidden/\n\n[the first 2 are shown")


@pytest.mark.clause("ENG-6")
@pytest.mark.parametrize("pattern", ["../*", "/etc/*", "a/../../b", "[z", "{a", "{a,{b}}", "x\\", "/", "//"])
async def test_find_refuses_by_name(workshop: Workshop, pattern: str) -> None:
    bench = workshop.bench(files=TREE)
    result = await bench.call("find", pattern=pattern)
    assert result.is_error
    assert "pattern" in result.joined


@either
@pytest.mark.clause("ENG-6")
async def test_grep(workshop: Workshop, programs: SearchPrograms | None) -> None:
    bench = workshop.bench(files=TREE, programs=programs)
    assert await bench.text("grep", pattern="needle") == (
        ".hidden/x.py:1: needle\n"
        "README.md:2: needle here\n"
        "src/app.py:4: def needle():\n"
        "src/deep/test_app.py:1: from app import needle\n"
    )
    assert await bench.text("grep", pattern="NEEDLE", ignoreCase=True, glob="*.md") == "README.md:2: needle here\n"
    assert await bench.text("grep", pattern="needle()", literal=True) == "src/app.py:4: def needle():\n"
    assert await bench.text("grep", pattern="needle", path="src/app.py", context=1) == (
        "app.py-3- \napp.py:4: def needle():\napp.py-5-     return os\n"
    )
    assert await bench.text("grep", pattern="nowhere") == "[no line matches in .]"
    text = await bench.text("grep", pattern="needle", limit=2)
    assert text.endswith(
        "here\n\n[2 matches shown, there are more: use a higher limit, or a narrower pattern, path or glob]"
    )


@either
@pytest.mark.clause("ENG-6")
@pytest.mark.parametrize("pattern", ["(?=x)", "(a)\\1", "a\\nb", "(a", "[a", "*a"])
async def test_a_pattern_that_neither_side_has_is_refused_with_the_way_out(
    workshop: Workshop, programs: SearchPrograms | None, pattern: str
) -> None:
    bench = workshop.bench(files=TREE, programs=programs)
    result = await bench.call("grep", pattern=pattern)
    assert result.is_error
    assert "refused" in result.joined
    assert "literal" in result.joined


@pytest.mark.clause("ENG-6")
async def test_without_ripgrep_its_own_syntax_is_refused_by_name(workshop: Workshop) -> None:
    pattern = "\\p{Greek}"
    bench = workshop.bench(files={"a": "α\n"}, programs=SearchPrograms(""))
    assert "Unicode classes" in await bench.text("grep", pattern=pattern)


@either
@pytest.mark.clause("ENG-6")
async def test_long_lines_are_cut_between_characters_and_binary_files_passed_over(
    workshop: Workshop, programs: SearchPrograms | None
) -> None:
    files = {"long.txt": "needle" + "😀" * 1000 + "\n", "b.bin": b"needle\0needle\n", "w.txt": b"needle\r\n"}
    bench = workshop.bench(files=files, programs=programs)
    text = await bench.text("grep", pattern="needle")
    assert text.startswith("long.txt:1: needle" + "😀" * 494 + "…\nw.txt:1: needle\n")
    assert "cut" in text
    assert "b.bin" not in text
    assert "binary" in await bench.text("grep", pattern="needle", path="b.bin")


@either
@pytest.mark.clause("ENG-6")
async def test_results_are_bounded(workshop: Workshop, programs: SearchPrograms | None) -> None:
    files = {f"f{number}.txt": ("needle " + "x" * 480 + "\n") * 100 for number in range(30)}
    bench = workshop.bench(files=files, programs=programs)
    text = await bench.text("grep", pattern="needle", limit=2000)
    assert len(text.encode()) < 50 * 1024
    assert "fit" in text


@pytest.mark.clause("ENG-6", "QLT-12")
async def test_a_pattern_that_never_ends_is_ended_with_the_call(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without ripgrep such a pattern runs away in Python; as a process of its own it can be ended."""
    monkeypatch.setattr("drawbar.tools.grep.LIMIT_S", 1.0)
    bench = workshop.bench(files={"a.txt": "a" * 40 + "b\n"}, programs=SearchPrograms(""))
    began = time.monotonic()
    result = await bench.call("grep", pattern="(?:a+)+$")
    assert time.monotonic() - began < 6
    assert result.cause == "timeout"
    assert "simpler pattern" in result.joined
    assert await bench.text("grep", pattern="b") == "a.txt:1: " + "a" * 40 + "b\n"


@either
@pytest.mark.clause("BND-3")
async def test_a_place_swapped_after_the_judgement_is_refused_not_searched(
    workshop: Workshop, programs: SearchPrograms | None
) -> None:
    found = programs or SearchPrograms()

    class Swapped:
        """A tool whose place is exchanged for a link to the outside between the judgement and the search."""

        def __init__(self, inner: GrepTool | FindTool) -> None:
            self.spec = inner.spec
            self._inner = inner

        async def run(self, verdict: Verdict, context: ToolContext) -> ToolResult:
            place = Path(verdict.targets[0].path)
            place.rename(place.with_name("moved"))
            place.symlink_to("/etc/passwd" if place.name == "file" else "/etc")
            return await self._inner.run(verdict, context)

    for tool, place, arguments in (
        (GrepTool(found), "place", {"pattern": "root"}),
        (GrepTool(found), "file", {"pattern": "root"}),
        (FindTool(found), "place", {"pattern": "passwd"}),
    ):
        bench = workshop.bench(files={"place/a.txt": "", "file": ""}, tools=[Swapped(tool)])
        result = await bench.call(tool.spec.name, path=place, **arguments)
        assert result.is_error
        assert "replaced meanwhile" in result.joined


@either
@pytest.mark.clause("BND-17")
async def test_what_no_tool_may_read_is_not_found_by_searching(
    workshop: Workshop, programs: SearchPrograms | None
) -> None:
    files = {"keys/id.pem": "needle\n", "ok.txt": "needle\n"}
    bench = workshop.bench(files=files, programs=programs, deny_read=("keys/",))
    assert await bench.text("grep", pattern="needle") == "ok.txt:1: needle\n"
    assert (await bench.call("grep", pattern="needle", path="keys")).is_error


@pytest.mark.clause("ENG-6", "QLT-3")
async def test_programs_below_the_workspace_are_never_run(workshop: Workshop) -> None:
    bin_folder = workshop.folder / "work0" / "bin"
    programs = SearchPrograms(f"{bin_folder}:relative")
    script = "#!/bin/sh\ntouch /tmp/sentinel sentinel\n"
    bench = workshop.bench(files={"bin/rg": script, "bin/fd": script, "a.txt": "needle\n"}, programs=programs)
    for name in ("rg", "fd"):
        (bin_folder / name).chmod(0o755)
    assert programs.find(("rg", "fd"), bench.context.root.path) == ()
    assert await bench.text("grep", pattern="needle") == "a.txt:1: needle\n"
    assert not (bench.root / "sentinel").exists()


@pytest.mark.clause("ENG-6")
async def test_searching_writes_nothing(workshop: Workshop) -> None:
    bench = workshop.bench(files=TREE)
    before = {path: os.lstat(path).st_mtime_ns for path in bench.root.rglob("*")}
    await bench.call("grep", pattern="needle")
    await bench.call("find", pattern="*")
    await bench.call("ls")
    assert {path: os.lstat(path).st_mtime_ns for path in bench.root.rglob("*")} == before


@pytest.mark.clause("ENG-6", "PRM-3")
@pytest.mark.bug("USE-07")
def test_the_tool_list_is_the_same_bytes_each_time() -> None:
    from drawbar.contracts.codec import encode, json_schema

    def listed() -> bytes:
        specs = [tool.spec for tool in builtin_tools()]
        schemas, parts = json_schema([spec.input for spec in specs])
        return encode([[(spec.name, spec.description, spec.guidance) for spec in specs], schemas, parts])

    assert listed() == listed()
    assert [tool.spec.name for tool in builtin_tools()] == [
        "read", "write", "edit", "bash", "grep", "find", "ls", "todo_write", "get_capabilities",
        "job_output", "job_stop", "ask_user", "web_fetch",
    ]  # fmt: skip


@pytest.mark.clause("ENG-6")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read", {"path", "offset", "limit"}),
        ("write", {"path", "content"}),
        ("edit", {"path", "edits"}),
        ("bash", {"command", "timeout", "scope", "background", "hosts"}),
        ("grep", {"pattern", "path", "glob", "ignoreCase", "literal", "context", "limit"}),
        ("find", {"pattern", "path", "limit"}),
        ("ls", {"path", "limit"}),
        ("todo_write", {"items"}),
        ("get_capabilities", set()),
        ("ask_user", {"questions", "ui_sketch"}),
    ],
)
def test_argument_names_are_the_shared_ones_and_strict(tool: str, arguments: set[str]) -> None:
    from drawbar.contracts.codec import json_schema

    spec = next(one.spec for one in builtin_tools() if one.spec.name == tool)
    schemas, parts = json_schema([spec.input])
    schema = parts[schemas[0]["$ref"].rpartition("/")[2]]
    assert set(schema.get("properties", {})) == arguments
    assert schema["additionalProperties"] is False
