"""What a saved rule covers, and what *always* would save (BND-6, QLT-4, SES-18)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.gate.kit import FIXTURES, SPECS, gate, grant_for, judged, policy, workspace

from drawbar.boundary.gate import PolicyGate
from drawbar.boundary.rules import covering, covers, covers_target, propose_rule, why_uncoverable
from drawbar.boundary.shell import parse_command
from drawbar.contracts.boundary import PathUse, StandingRule, Target


def rule(pattern: str, tool: str = "bash", scope: Any = "workspace", **more: Any) -> StandingRule:
    return StandingRule("a_1", tool, scope, pattern, **more)


def is_covered(pattern: str, command: str) -> bool:
    return covers(rule(pattern), parse_command(command))


def proposed(command: str) -> str | None:
    found = propose_rule("bash", "workspace", parse_command(command))
    return found.pattern if found else None


def cases(name: str) -> list[Any]:
    lines = (FIXTURES / name / "cases.jsonl").read_text().splitlines()
    return [pytest.param(case, id=case["cmd"][:40]) for case in map(json.loads, lines)]


@pytest.mark.clause("BND-6", "QLT-4")
@pytest.mark.bug("APR-01", "APR-02", "APR-04")
@pytest.mark.parametrize("case", [*cases("APR-01"), *cases("APR-02"), *cases("APR-04")])
async def test_reported_commands(tmp_path: Path, case: dict[str, str]) -> None:
    made = gate(workspace(tmp_path), approval="ask", standing=(rule(case["allow"]),))
    verdict = await judged(made, "bash", command=case["cmd"])
    assert verdict.outcome in case["want"]


@pytest.mark.clause("BND-6", "QLT-4")
@pytest.mark.bug("APR-06")
async def test_always_covers_what_was_shown_and_no_more(tmp_path: Path) -> None:
    case = json.loads((FIXTURES / "APR-06" / "case.json").read_text())
    made = gate(workspace(tmp_path), approval="ask")
    asked = await judged(made, "bash", command=case["prompt_for"])
    assert asked.proposed is not None
    assert asked.proposed.pattern == case["prompt_for"], "the whole rule is shown before it is saved"
    made.remember(asked.proposed)
    for later in case["later"]:
        assert (await judged(made, "bash", command=later["cmd"])).outcome in later["want"]


COVERED = [
    ("git log *", "git log"),
    ("git log *", "git log --oneline -3 -- 'a b'"),
    ("git log *", "git log HEAD~3..HEAD"),
    ("git log *", "git log 2>&1"),
    ("git log *", "git log >/dev/null"),
    ("git log *", "git log 2>/dev/null </dev/null"),
    ("git log *", "git log && git log -1"),
    ("git log *", "git log; git log -1 &"),
    ("git log *", "git \\\n  log # look"),
    ("git log *", "git log &&\\\ngit log -1"),
    ("git --no-pager log *", "git --no-pager log -1"),
    ("ls *", "ls -la src/*.py"),
    ("ls *", "ls 'a;b' \"c|d\" e\\&f"),
    ("echo *", "echo $((6 * 7))"),
    ("echo *", "echo issue#3"),
    ("cat *", "cat über.txt 'naïve file'"),
    ("npm test", "npm test"),
    ("npm test", "npm test 2>&1"),
    ("npm test", "npm   'test'"),
    ("CI=1 npm test", "CI=1 npm test"),
    ("CI=1 npm test *", "CI='1' npm test --silent"),
    ("RAILS_ENV=test rake", "RAILS_ENV=test rake"),
    ("TARGET=x make", "TARGET=x make"),
    ("a && b | c", "a && b | c"),
    ("a && b | c", "a&&b|c"),
    ("echo hi >out.txt", "echo hi > out.txt"),
    ("sed -n 1,5p a", "sed -n '1,5p' a"),
    ("sed *", "sed -n 's/a/b/p' f"),
    ("find *", "find . -name '*.py' -type f"),
    ("python -m pytest *", "python -m pytest -q tests/"),
    ("bash build.sh *", "bash build.sh --fast"),
    ("make *", "make test V=1"),
    ("tar *", "tar czf a.tgz d"),
]

NOT_COVERED = [
    # more commands than the rule speaks of, however they are joined
    ("ls *", "ls; rm x"),
    ("ls *", "ls\nrm x"),
    ("ls *", "ls & rm x"),
    ("ls *", "ls && rm x"),
    ("ls *", "ls || rm x"),
    ("ls *", "ls | rm x"),
    ("ls *", "ls |& rm x"),
    ("ls *", "rm x; ls"),
    ("a && b", "a"),
    ("a && b", "a || b"),
    ("a && b", "a && b && a"),
    ("a && b", "b && a"),
    # substitutions, in whatever they hide
    ("echo *", "echo $(rm x)"),
    ("echo *", "echo `rm x`"),
    ("echo *", 'echo "$(rm x)"'),
    ("echo *", 'echo "`rm x`"'),
    ("echo *", "echo <(rm x)"),
    ("echo *", "echo >(rm x)"),
    ("echo *", "echo ${x:-$(rm x)}"),
    ("echo *", "echo $x"),
    ("echo *", 'echo "$x"'),
    ("echo *", "echo ${x}"),
    ("echo *", "echo $((x))"),
    ("echo *", "echo $((a[$(rm x)]))"),
    ("echo *", "echo $'\\x72m'"),
    ("echo *", 'echo $"x"'),
    ("echo *", "echo ~/x"),
    ("echo *", "echo a=~/x"),
    ("echo *", "echo {a,b}"),
    ("echo *", "echo {--x,y}"),
    ("echo *", "echo *"),
    ("echo *", "echo -*"),
    ("echo *", "echo [a-z]x"),
    # assignments
    ("npm test", "CI=1 npm test"),
    ("npm test *", "CI=1 npm test"),
    ("CI=1 npm test", "npm test"),
    ("CI=1 npm test", "CI=2 npm test"),
    ("CI=1 npm test", "CI=1 X=2 npm test"),
    ("CI=1 npm test", "CI=$(rm x) npm test"),
    ("ls *", "PATH=. ls"),
    ("PATH=. ls *", "PATH=. ls"),
    ("LD_PRELOAD=./x.so ls", "LD_PRELOAD=./x.so ls"),
    ("GIT_PAGER=x git log", "GIT_PAGER=x git log"),
    ("PYTHONPATH=x pytest *", "PYTHONPATH=x pytest"),
    ("NODE_OPTIONS=x npm test", "NODE_OPTIONS=x npm test"),
    ("MAKEFLAGS=x make", "MAKEFLAGS=x make"),
    ("LESSOPEN=x git log", "LESSOPEN=x git log"),
    ("g++-12 *", "g++-12 -wrapper x y.c"),
    ("python3 *", "python3 -i x.py"),
    ("ls *", "a[0]=1 ls"),
    ("ls *", "a+=1 ls"),
    ("ls *", "a=1; ls"),
    ("ls *", "export a=1; ls"),
    # redirects
    ("echo *", "echo x > f"),
    ("echo *", "echo x >> f"),
    ("echo *", "echo x >| f"),
    ("echo *", "echo x &> f"),
    ("echo *", "echo x 2> f"),
    ("echo *", "> f echo x"),
    ("echo *", "echo x >/dev/null/../f"),
    ("echo *", "echo x > /dev/tcp/h/1"),
    ("cat *", "cat < f"),
    ("cat *", "cat <<E\nx\nE"),
    ("cat *", "cat <<'E'\nx\nE"),
    ("cat *", "cat <<< x"),
    ("cat *", "cat 3<> f"),
    ("cat *", "cat >&3"),
    ("echo hi >out.txt", "echo hi >other.txt"),
    ("echo hi >out.txt", "echo hi >>out.txt"),
    # structures
    ("ls *", "(ls)"),
    ("ls *", "{ ls; }"),
    ("ls *", "! ls"),
    ("ls *", "if ls; then ls; fi"),
    ("ls *", "for i in a; do ls; done"),
    ("ls *", "while ls; do ls; done"),
    ("ls *", "ls() { rm x; }; ls"),
    ("ls *", "function ls { rm x; }; ls"),
    ("ls *", "coproc ls"),
    ("ls *", "time ls"),
    ("ls *", "[[ -f x ]] && ls"),
    ("ls *", "[ -f x ] && ls"),
    ("ls *", "case x in x) ls;; esac"),
    # a command word that isn't plainly written
    ("ls *", "$x"),
    ("ls *", "'ls'"),
    ("'my tool' x", "'my tool' x"),
    ("ls *", "l\\s"),
    ("ls *", 'l"s"'),
    ("ls *", "l?"),
    ("ls *", "./ls"),
    ("ls *", "/bin/ls"),
    ("ls", "ls\\\n"),
    # what can't be read the same way by everybody
    ("r *", "r\\\nm x"),
    ("ls *", "ls &\\\n>/dev/null ls"),
    ("ls *", "ls;\\\n& ls"),
    ("ls *", "ls |\\\n& ls"),
    ("ls *", "ls\rrm"),
    ("ls *", "ls\x0brm"),
    ("ls *", "ls\u00a0rm"),
    ("ls *", "ls\u2028rm"),
    ("ls *", "ls 'x"),
    ("ls *", 'ls "x'),
    ("ls *", "ls &&"),
    ("ls *", "ls ;; rm"),
    ("ls *", ""),
    ("ls *", "# ls"),
    # a beginning is words, not letters; and the end of a rule without a star is the end
    ("git log *", "git logs"),
    ("git log *", "git -p log"),
    ("git log *", "git"),
    ("npm test", "npm test x"),
    ("npm test", "npm"),
    # whatever runs a string or another command
    *(
        (f"{runner} *", f"{runner} ls")
        for runner in (
            "eval",
            "source",
            ".",
            "alias",
            "exec",
            "trap",
            "hash",
            "builtin",
            "command",
            "env",
            "xargs",
            "timeout",
            "nohup",
            "nice",
            "setsid",
            "stdbuf",
            "sudo",
            "doas",
            "su",
            "ssh",
            "watch",
            "parallel",
            "strace",
            "gdb",
            "docker",
            "npx",
            "uvx",
            "busybox",
            "unshare",
            "chroot",
            "script",
            "flock",
            "awk",
            "vim",
            "tmux",
            "let",
            "read",
        )
    ),
    ("/usr/bin/env *", "/usr/bin/env ls"),
    ("sh *", "sh -c 'rm x'"),
    ("bash *", "bash -c 'rm x'"),
    ("bash *", "bash -lc 'rm x'"),
    ("bash *", "bash -x -c 'rm x'"),
    ("bash *", "bash"),
    ("bash *", "bash -s"),
    ("bash *", "bash -"),
    ("bash *", "bash +x -c y"),
    ("python *", "python -c 'x'"),
    ("python3 *", "python3 -Ic 'x'"),
    ("python3.11 *", "python3.11 -c 'x'"),
    ("python3 *", "python3 -W ignore -c x"),
    ("python3 *", "python3"),
    ("python3 *", "python3 -"),
    ("python3 *", "python3 -m timeit x"),
    ("python3 *", "python3 -mpdb x"),
    ("perl *", "perl -e x"),
    ("perl *", "perl -pe x f"),
    ("perl *", "perl '-Mx;y' f"),
    ("ruby *", "ruby -e x"),
    ("node *", "node -e x"),
    ("node *", "node --eval=x"),
    ("node *", "node --ev x"),
    ("node *", "node -r ./x y.js"),
    ("php *", "php -r x"),
    ("java *", "java -XX:OnError=x -jar y"),
    ("java *", "java -javaagent:x -jar y"),
    ("find *", "find . -exec rm {} +"),
    ("find *", "find . -name x -exec rm y ';'"),
    ("find *", "find . -execdir rm y ';'"),
    ("find *", "find . -ok rm y ';'"),
    ("fd *", "fd -x rm"),
    ("fd *", "fd --exec-batch rm"),
    ("rg *", "rg --pre x y"),
    ("rg *", "rg --pre=x y"),
    ("sort *", "sort --compress-program=x y"),
    ("sort *", "sort --compress-prog x y"),
    ("tar *", "tar -I x -cf a b"),
    ("tar *", "tar cIf x a b"),
    ("tar *", "tar --checkpoint-action=exec=x -cf a b"),
    ("tar *", "tar --to-com=x -xf a"),
    ("rsync *", "rsync -e x a b"),
    ("go test *", "go test -exec x"),
    ("go vet *", "go vet -vettool=x"),
    ("cargo build *", "cargo build --config x"),
    ("make *", "make SHELL=x"),
    ("make *", "make --eval=x"),
    ("npm *", "npm exec x"),
    ("npm *", "npm --prefix d exec x"),
    ("npm *", "npm x y"),
    ("uv *", "uv run x"),
    ("poetry *", "poetry run x"),
    ("bundle *", "bundle exec x"),
    ("sed *", "sed '1e rm x' f"),
    ("sed *", "sed 's/a/b/e' f"),
    ("sed *", "sed 's/a/b/w out' f"),
    ("sed *", "sed -f x f"),
    ("sed *", "sed -n -e p -e '1e rm' f"),
    ("printf *", "printf -v 'a[0]' x"),
    ("test *", "test -v 'a[0]'"),
    ("git *", "git -c core.pager=x log"),
    ("git *", "git -C d log"),
    ("git *", "git --git-dir=x log"),
    ("git *", "git --exec-path=x log"),
    ("git *", "git -p log"),
    ("git *", "git --paginate log"),
    ("git grep *", "git grep -nOx y"),
    ("git grep *", "git grep --open-files-in-pager=x y"),
    ("git grep *", "git grep --open-files x y"),
    ("git diff *", "git diff --ext-diff"),
    ("git diff *", "git diff --textconv"),
    ("git rebase *", "git rebase -x 'rm x' HEAD~2"),
    ("git rebase *", "git rebase --exec 'rm x' HEAD~2"),
    ("git fetch *", "git fetch --upload-pack=x y"),
    ("git push *", "git push --receive-pack=x y"),
    ("git push *", "git push ext::x"),
    ("git clone *", "git clone -c a=b y"),
    ("git clone *", "git clone --template=x y"),
    ("git bisect *", "git bisect run x"),
    ("git submodule *", "git submodule foreach x"),
    ("git config *", "git config core.pager x"),
    ("git filter-branch *", "git filter-branch --tree-filter x"),
    ("git difftool *", "git difftool -x y"),
    # options with which a reading program writes: a rule must spell them
    ("git log *", "git log --output=x"),
    ("git log *", "git log --outp x"),
    ("git format-patch *", "git format-patch --output-directory x"),
    ("find *", "find . -delete"),
    ("find *", "find . -fprint x"),
    ("sort *", "sort -o x y"),
    ("sort *", "sort -ro x y"),
    ("sort *", "sort --output=x y"),
    ("tree *", "tree -o x"),
    ("sed *", "sed -i s/a/b/ f"),
    ("curl *", "curl -o x https://y"),
    # rules that aren't rules
    ("", "ls"),
    ("*", "ls"),
    ("* *", "ls -l"),
    ("ls", ""),
    ("$(x) *", "ls"),
    ("ls * -l", "ls a -l"),
    ("ls '*'", "ls a"),
    ("ls 'x", "ls x"),
    ("l* *", "ls x"),
]


@pytest.mark.clause("BND-6", "QLT-4")
@pytest.mark.bug("APR-01", "APR-14")
@pytest.mark.parametrize(("pattern", "command"), COVERED)
def test_covered(pattern: str, command: str) -> None:
    assert is_covered(pattern, command), why_uncoverable(parse_command(command))


@pytest.mark.clause("BND-6", "QLT-4")
@pytest.mark.bug("APR-01", "APR-02", "APR-04")
@pytest.mark.parametrize(("pattern", "command"), NOT_COVERED)
def test_not_covered(pattern: str, command: str) -> None:
    assert not is_covered(pattern, command)


@pytest.mark.clause("BND-6", "QLT-4")
@pytest.mark.parametrize("spelled", ["git log --output=x", "find . -delete", "sort -o x y", "sed -i s/a/b/ f"])
def test_a_rule_that_spells_a_writing_option_covers_it(spelled: str) -> None:
    assert is_covered(spelled, spelled)


@pytest.mark.clause("QLT-4")
def test_rules_are_not_added_up() -> None:
    both = (rule("cat *"), rule("tee *"))
    assert covering(both, parse_command("cat a | tee b")) is None
    assert covering(both, parse_command("tee b")) == both[1]


PROPOSALS = [
    ("git log -3", "git log *"),
    ("grep -rn foo src", "grep *"),
    ("npm run build -- --watch", "npm run build -- --watch"),
    ("python3 -m pytest -q -k 'a and b'", "python3 -m pytest *"),
    ("npm test 2>&1", "npm test *"),
    ("npm test 2>&1 | tail -20", "npm test | tail -20"),
    ("rm -rf ./tmp", "rm -rf ./tmp"),
    ("git commit -m 'one two'", "git commit -m 'one two'"),
    ("git push", "git push"),
    ("make test", "make test"),
    ("./run.sh --fast", "./run.sh --fast"),
    ("echo hi > out.txt", "echo hi >out.txt"),
    ("find . -name x", "find *"),
    ("find . -delete", "find . -delete"),
    ("CI=1 npm test", "CI=1 npm test"),
    ("cd d && make", "cd d && make"),
    ("bash -c 'rm x'", None),
    ("sudo ls", None),
    ("echo $(ls)", None),
    ("for i in a; do ls; done", None),
    ("find . -exec rm {} +", None),
    ("ls 'x", None),
    ("x" * 3000, None),
]


@pytest.mark.clause("SES-18", "QLT-4")
@pytest.mark.bug("APR-14", "APR-06")
@pytest.mark.parametrize(("command", "pattern"), PROPOSALS)
def test_the_rule_that_always_would_save(command: str, pattern: str | None) -> None:
    assert proposed(command) == pattern


WORDS = st.one_of(
    st.sampled_from(
        ["git", "log", "npm", "test", "-x", "--all", "a b", "it's", 'say "x"', "$x", "*", "über", "", "a=b"]
    ),
    st.text(st.characters(min_codepoint=32, max_codepoint=0x17F, exclude_characters="\x7f"), max_size=6),
)


def written(word: str, how: int) -> str:
    """One of the ways to write a word that the shell reads back as itself."""
    if how == 0 or not word:
        return "'" + word.replace("'", "'\\''") + "'"
    if how == 1:
        return '"' + "".join(f"\\{char}" if char in '"\\$`' else char for char in word) + '"'
    return "".join(char if char.isalnum() else f"\\{char}" for char in word)


@pytest.mark.clause("SES-18", "QLT-4")
@given(
    head=st.sampled_from(["git", "npm", "frobnicate", "./x.sh", "grep", "cat", "rm"]),
    words=st.lists(st.tuples(WORDS, st.integers(0, 2)), max_size=5),
    second=st.sampled_from(["", " && frobnicate", " | frobnicate -v", "; ls"]),
)
@settings(max_examples=300)
@example(head="frobnicate", words=[("$(rm x)", 0)], second="")
def test_what_always_saves_covers_the_command_and_not_another(
    head: str, words: list[tuple[str, int]], second: str
) -> None:
    command = " ".join([head, *(written(word, how) for word, how in words)]) + second
    parsed = parse_command(command)
    found = propose_rule("bash", "workspace", parsed)
    if found is None:
        assert why_uncoverable(parsed) is not None
        return
    assert covers(found, parsed)
    for more in ("; rm x", " && rm x", "\nrm x", " | sh", " $(rm x)", " > stolen", " & rm x"):
        assert not covers(found, parse_command(command + more)), found.pattern
    assert not covers(found, parse_command("rm other; " + command))
    assert not covers(found, parse_command("PATH=. " + command))


@pytest.mark.clause("QLT-4")
@given(st.text(max_size=40), st.text(max_size=40))
@settings(max_examples=300)
def test_no_text_breaks_a_rule_or_a_command(pattern: str, command: str) -> None:
    covers(rule(pattern), parse_command(command))
    propose_rule("bash", "workspace", parse_command(command))


def at(path: str, relative: str | None) -> Target:
    return Target(PathUse("path", path, "write"), Path(path), relative)


@pytest.mark.clause("SES-18", "QLT-4")
@pytest.mark.parametrize(
    ("pattern", "relative", "want"),
    [
        ("src/a.py", "src/a.py", True),
        ("./src/a.py", "src/a.py", True),
        ("src/a.py", "src/a.pyc", False),
        ("src/a.py", "src/a.py/x", False),
        ("src/", "src/a.py", True),
        ("src/", "src/d/a.py", True),
        ("src/", "src2/a.py", False),
        ("src/", "src", False),
        ("src", "src/a.py", False),
        ("src/../", "src/../x", False),
        ("./", "anything", True),
        ("/ws/src/", "src/a.py", False),
        ("*", "a.py", False),
    ],
)
def test_what_a_path_rule_covers(pattern: str, relative: str, want: bool) -> None:
    assert covers_target(rule(pattern, "write"), at(f"/ws/{relative}", relative)) is want


@pytest.mark.clause("SES-18", "QLT-4")
def test_a_path_rule_reaches_outside_only_by_an_absolute_path() -> None:
    outside = at("/usr/include/x.h", None)
    assert covers_target(rule("/usr/include/x.h", "read", "outside"), outside)
    assert covers_target(rule("/usr/include/", "read", "outside"), outside)
    assert not covers_target(rule("usr/include/", "read", "outside"), outside)
    assert not covers_target(rule("./", "read", "outside"), outside)


@pytest.mark.clause("BND-6", "SES-18", "QLT-4")
async def test_a_rule_holds_for_its_tool_scope_and_root_alone(tmp_path: Path) -> None:
    root = workspace(tmp_path)

    async def outcome(*rules: StandingRule, tool: str = "edit", **arguments: Any) -> str:
        made = gate(root, approval="ask", standing=rules)
        verdict = await judged(made, tool, **(arguments or {"path": "a.txt", "content": "x"}))
        return verdict.rule if verdict.outcome == "allow" and verdict.rule else verdict.outcome

    assert await outcome(rule("a.txt", "edit")) == "standing:a_1"
    assert await outcome(rule("a.txt", "edit", root=str(root.resolve()))) == "standing:a_1"
    assert await outcome(rule("a.txt", "edit", root="/somewhere/else")) == "ask"
    assert await outcome(rule("a.txt", "write")) == "ask"
    assert await outcome(rule("a.txt", "edit", "outside")) == "ask"
    assert await outcome(rule("b.txt", "edit")) == "ask"
    assert await outcome(rule("d/", "edit"), path="d/../a.txt", content="") == "ask"
    (root / "d" / "link").symlink_to("../a.txt")
    assert await outcome(rule("d/", "edit"), path="d/link", content="") == "ask", "the rule is for where it leads"
    assert await outcome(rule("ls *"), tool="bash", command="ls -l") == "standing:a_1"
    assert await outcome(rule("ls *", scope="outside"), tool="bash", command="ls -l") == "ask"


@pytest.mark.clause("BND-6", "SES-18")
async def test_the_offered_path_rule_is_exactly_the_file(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    made = gate(root, approval="ask")
    asked = await judged(made, "edit", path="d/../a.txt", content="x")
    assert asked.proposed is not None
    assert (asked.proposed.tool, asked.proposed.scope, asked.proposed.pattern) == ("edit", "workspace", "a.txt")
    assert asked.proposed.root == str(root.resolve())
    made.remember(asked.proposed)
    assert (await judged(made, "edit", path="a.txt", content="y")).rule == f"session:{asked.proposed.id}"
    assert (await judged(made, "write", path="a.txt", content="y")).outcome == "ask"
    secret = str(tmp_path / "outside" / "secret.txt")
    outside = await judged(made, "read", path=secret)
    assert outside.proposed is not None
    assert (outside.scope, outside.proposed.scope, outside.proposed.pattern) == ("outside", "outside", secret)
    made.remember(outside.proposed)
    assert (await judged(made, "read", path=secret)).outcome == "allow"


@pytest.mark.clause("BND-6")
async def test_a_rule_opens_no_refusal(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    rules = (rule("ls *"), rule("./", "write"), rule("/", "read", "outside"))
    strict = gate(root, approval="read-only", standing=rules)
    assert (await judged(strict, "write", path="new", content="")).outcome == "refuse"
    assert (await judged(strict, "bash", command="ls", scope="workspace")).outcome == "refuse"
    assert (await judged(strict, "read", path=str(tmp_path / "outside" / "secret.txt"))).outcome == "refuse"
    asking = gate(root, approval="ask", standing=rules)
    assert (await judged(asking, "write", path=".git/config", content="")).outcome == "refuse"
    assert (await judged(asking, "read", path="/etc/shadow")).outcome == "refuse"


@pytest.mark.clause("BND-16")
async def test_where_children_cannot_be_kept_apart_no_rule_covers_bash(tmp_path: Path) -> None:
    of = policy(workspace(tmp_path), approval="ask", standing=(rule("ls *"),))
    made = PolicyGate(of, SPECS, homes=(), rules_for_commands=False)
    made.remember(rule("ls *"))
    asked = await judged(made, "bash", command="ls")
    assert (asked.outcome, asked.proposed) == ("ask", None)
    assert (await judged(made, "bash", grant=grant_for(asked), command="ls")).outcome == "allow"


@pytest.mark.clause("BND-6", "SES-18")
async def test_a_person_is_told_why_no_rule_can_be_offered(tmp_path: Path) -> None:
    made = gate(workspace(tmp_path), approval="ask")
    for command, why in [
        ("echo $(ls)", "substitution"),
        ("sudo ls", "`sudo` runs a string or another command"),
        ("ls 'x", "syntax"),
        ("git -c a=b log", "global option"),
    ]:
        asked = await judged(made, "bash", command=command)
        assert (asked.outcome, asked.proposed) == ("ask", None)
        assert why in asked.message


@pytest.mark.clause("QLT-4", "BND-6")
@pytest.mark.parametrize(
    ("pattern", "command"),
    [
        ("go build *", "go build '-ldflags=-linkmode=external -extld=./evil'"),
        ("go build *", "go build -o F"),
        ("go test *", "go test -coverprofile=F"),
        ("mypy *", "mypy --python-executable=./evil"),
        ("npm outdated *", "npm outdated --git=./evil"),
        ("pytest *", "pytest -p evil"),
        ("pytest *", "pytest --pdbcls=os:system"),
        ("python -m pytest *", "python -m pytest --junitxml=F"),
        ("python -m mypy *", "python -m mypy --junit-xml=F"),
        ("dotnet build *", "dotnet build -logger:evil.dll"),
        ("ruff check *", "ruff check -o F"),
        ("ruff check *", "ruff check --config evil.toml"),
        ("jest *", "jest --outputFile=F"),
        ("tsc *", "tsc --outfile F"),
        ("cargo build *", "cargo build --config evil.toml"),
        ("npm test *", "npm test --script-shell=./evil"),
        ("pytest *", "pytest @args"),
        ("ruff check *", "ruff check @args"),
        ("ruff check *", "ruff check --fix ."),
        ("cargo test *", "cargo test +nightly"),
        ("dotnet build *", "dotnet build /p:CscToolPath=x"),
    ],
)
def test_an_option_that_is_not_known_to_be_harmless_is_asked_about(pattern: str, command: str) -> None:
    rule = StandingRule(id="a_1", tool="bash", scope="workspace", pattern=pattern)
    assert not covers(rule, parse_command(command))


@pytest.mark.clause("QLT-4")
@pytest.mark.bug("APR-14")
@pytest.mark.parametrize(
    ("pattern", "command"),
    [
        ("pytest *", "pytest -q -x tests/test_a.py -k 'a and b' --maxfail=1"),
        ("python -m pytest *", "python -m pytest -vv tests"),
        ("go test *", "go test -race -run TestX ./..."),
        ("cargo test *", "cargo test --release -p core -- --nocapture"),
        ("ruff check *", "ruff check --diff src"),
        ("mypy *", "mypy --strict src"),
        ("npm test *", "npm test --silent"),
        ("git log *", "git log --oneline -5"),
    ],
)
def test_everyday_options_do_not_ask_again(pattern: str, command: str) -> None:
    rule = StandingRule(id="a_1", tool="bash", scope="workspace", pattern=pattern)
    assert covers(rule, parse_command(command))
