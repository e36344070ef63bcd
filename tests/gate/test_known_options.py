"""Which options a rule ending in ``*`` takes in: only those that are known to run, load and write nothing (QLT-4)."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbar.boundary import command_facts as facts
from drawbar.boundary.option_table import options_of
from drawbar.boundary.rules import covers, propose_rule
from drawbar.boundary.shell import parse_command
from drawbar.contracts.boundary import StandingRule

BEGINNINGS = sorted({" ".join("test" if word == "*" else word for word in words) for words in facts.OFFERED})


def is_covered(pattern: str, command: str) -> bool:
    return covers(StandingRule("a_1", "bash", "workspace", pattern), parse_command(command))


RUNS_OR_LOADS = [
    # decompressors, preprocessors
    ("rg *", ["-z x", "--search-zip x", "-nz x", "-zn x", "--pre ./p x", "--pre=./p x", "--pre-glob=* x"]),
    ("rg *", ["--hostname-bin=./p x", "--search-z x", "--ignore-file f x", "-e -- --pre=./p", "-- --pre=./p"]),
    ("file *", ["-z x", "-Z x", "-bz x", "--uncompress x", "-m ./magic x", "-C", "--compile", "-S x"]),
    # signatures, which run what a configuration names
    (
        "git log *",
        ["--show-signature", "--show-sig", "--format=%GG", "--format=%G?", "--format=%+GG", "--format=%h%n%-GS"],
    ),
    (
        "git log *",
        ["--pretty=%GK", "--pretty=format:%GG", "--pretty=alias", "--format=alias", "--forma=%GG", "--prett=%GG"],
    ),
    ("git log *", ["'--format=%<(10)%GG'", "'--format=% GP'", "--pretty=tformat:%GF"]),
    ("git show *", ["--show-signature", "-s --format=%GG HEAD", "--ext-diff", "--textconv", "--remerge-diff"]),
    ("git shortlog *", ["--format=%GG"]),
    ("git rev-list *", ["--format=%GG HEAD", "--show-signature"]),
    # pagers, diff programs, filters, merge drivers
    (
        "git grep *",
        ["-O x", "-Ovim x", "-nO x", "-iOless x", "--open-files-in-pager x", "--textconv x", "--recurse-submodules x"],
    ),
    ("git diff *", ["--ext-diff", "--textconv", "--tool=x", "--submodule=log", "--output=x", "--output x", "--outp=x"]),
    ("git log *", ["--ext-diff -p", "--textconv -p", "--remerge-diff", "--diff-merges=remerge", "--output=x"]),
    ("git cat-file *", ["--filters HEAD:x", "--textconv HEAD:x", "--batch-command"]),
    ("git blame *", ["--textconv x", "--contents ./x y"]),
    ("git log *", ["-O./orderfile"]),
    ("diff *", ["-l a b", "--paginate a b", "-rl a b", "-ul a b"]),
    ("tree *", ["-R -L 2", "-aR", "-LR 2", "-Io x f", "-o f", "-H . -T t", "--output x"]),
    # what runs by any other name
    ("sort *", ["--compress-program=./p x", "-T ./d x", "-o x y", "-no x y", "-t -o x", "--files0-from=f"]),
    (
        "find *",
        ["-exec x", "-execdir x", "-ok x", "-okdir x", "-delete", "-fprintf f x", "-fls f", "-files0-from f", "-exe x"],
    ),
    ("jq *", ["-f x", "--from-file x", "-L d .", "-nf x", "--slurpfile a f ."]),
    ("strings *", ["@file", "-T x y"]),
    ("git push *", ["--receive-pack=./p", "--exec=./p", "-o x", "origin --force"]),
    ("git fetch *", ["--upload-pack ./p", "-u", "--recurse-submodules"]),
    ("git format-patch *", ["--signature-file=x", "--attach", "-o x"]),
    (
        "frobnicate *",
        ["--exec x", "--pager=x", "--to-command=x", "--script-shell x", "--ext.diff.command=x", "-editor x"],
    ),
    ("frobnicate *", ["--plugin x", "--load-extension x", "--rsh=x", "--config x", "--pre=x", "--filter-program=x"]),
]


@pytest.mark.clause("QLT-4", "BND-6")
@pytest.mark.bug("APR-04")
@pytest.mark.parametrize(
    ("pattern", "options"), RUNS_OR_LOADS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_an_option_that_can_run_load_or_write_fits_no_star(pattern: str, options: list[str]) -> None:
    beginning = pattern.removesuffix(" *")
    assert is_covered(pattern, f"{beginning} x"), "what makes the lines below mean something"
    for option in options:
        assert not is_covered(pattern, f"{beginning} {option}"), option


@pytest.mark.clause("QLT-4")
@pytest.mark.bug("APR-14")
@pytest.mark.parametrize(
    "command",
    [
        "ls -la --color=never src",
        "cat -n a.txt",
        "head -20 a",
        "head -n 20 a",
        "tail -n +5 a",
        "tail -f log",
        "wc -l a b",
        "grep -rn --include='*.py' -e 'a b' src",
        "grep -A3 -B 2 x f",
        "rg -n --hidden -g '!*.md' -t py 'x y' src",
        "rg --files -uu",
        "du -sh .",
        "tree -a -L 2 -I node_modules",
        "diff -ru a b",
        "sort -t, -k2,2n -u f",
        "find . -name '*.py' -not -path './.git/*' -type f -size -10k -mtime -7 -print0",
        "find . -perm -u+x -maxdepth 2",
        "jq -r '.a[0]' f",
        "echo -n --anything",
        "git log --oneline -5 --stat -- src",
        "git log -p -S needle --since=2.weeks --format='%h %s'",
        "git log --pretty=oneline -n5 --graph --all",
        "git diff --cached --name-only HEAD~1",
        "git diff -U5 -M90% main...HEAD",
        "git show --stat HEAD~2",
        "git status -sb --porcelain=v2",
        "git blame -L 5,20 -w a.py",
        "git grep -n -C2 -e x -- src",
        "git rev-parse --abbrev-ref HEAD",
        "git ls-files -o --exclude-standard",
        "git describe --tags --always --dirty",
        "git cat-file -p HEAD:a",
        "git rev-list --count HEAD",
    ],
)
def test_everyday_options_fit(command: str) -> None:
    found = propose_rule("bash", "workspace", parse_command(command))
    assert found is not None
    assert found.pattern.endswith(" *"), found.pattern


@pytest.mark.clause("QLT-4", "BND-6")
@pytest.mark.parametrize("beginning", BEGINNINGS)
@given(option=st.from_regex(r"--?[a-zA-Z][a-zA-Z0-9-]{2,14}(=[a-z./%]{1,6})?", fullmatch=True))
def test_of_each_offered_program_an_unknown_option_is_asked_about(beginning: str, option: str) -> None:
    program, *rest = beginning.split()
    if program.startswith("python"):
        program, rest = rest[1], rest[2:]
    options = options_of(program, rest[0] if program == "git" else None)
    if options is None:
        pytest.fail(f"a rule is offered for {beginning}, whose options nobody looked up")
    head = option.partition("=")[0]
    if options.anything or head in options.words or option in options.words:
        return
    if not option.startswith("--") and set(head[1:]) & set(options.values + options.flags):
        return
    if re.fullmatch(r"-[ugoa]+[-][rwxst]+", option):
        return
    assert not is_covered(f"{beginning} *", f"{beginning} '{option}'")


@pytest.mark.clause("QLT-4")
def test_what_looks_dangerous_is_not_in_the_table() -> None:
    bad = re.compile(
        r"exec|pager$|program|command|textconv$|ext-diff$|show-signature$|filters?$|plugin|hook|editor|^--output$"
    )
    for beginning in BEGINNINGS:
        program, *rest = beginning.split()
        options = options_of(
            rest[1] if program.startswith("python") else program, rest[0] if program == "git" else None
        )
        assert options is not None
        found = {word for word in options.words if bad.search(word) and not word.startswith("--no-")}
        assert found <= {"-executable", "--filter", "--diff-filter", "--output"}, beginning
        if "--output" in found:
            assert program == "df", "only there it names columns"


@pytest.mark.clause("QLT-4")
@pytest.mark.skipif(shutil.which("tree") is None, reason="no tree here")
def test_the_cluster_that_hides_an_option_of_tree_is_real(tmp_path: Path) -> None:
    """Why a letter that takes a value ends no cluster there: ``-Io`` still writes."""
    subprocess.run(["tree", "-Io", "x", "out.txt", "."], cwd=tmp_path, capture_output=True, check=False)
    assert not is_covered("tree *", "tree -Io x out.txt .")


@pytest.mark.clause("BND-6", "QLT-4")
@pytest.mark.parametrize(
    "runner",
    [
        "jobs",
        "patch",
        "gxargs",
        "chronic",
        "torsocks",
        "systemd-inhibit",
        "gosu",
        "tini",
        "hyperfine",
        "zless",
        "ccache",
    ],
)
def test_more_that_runs_what_it_is_given(runner: str) -> None:
    assert not is_covered(f"{runner} *", f"{runner} ls")
    assert propose_rule("bash", "workspace", parse_command(f"{runner} ls")) is None
