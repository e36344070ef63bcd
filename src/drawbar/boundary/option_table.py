"""The options that a rule ending in ``*`` may take in, for each program that such a rule is offered for (QLT-4).

Every entry was looked up in the program's manual: it neither runs a program, nor loads one, nor writes a file, nor
reads further options from a file. What isn't here is asked about, new options of new releases included. Left out on
purpose, for example: ``rg -z`` and ``file -z`` (run decompressors), ``diff -l`` (runs ``pr``), ``tree -R`` (runs
itself and writes), ``git log --show-signature`` and ``--remerge-diff`` (run what a configuration names).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Final

__all__ = ["Options", "options_of"]


@dataclass(frozen=True, slots=True)
class Options:
    """The known options of one program or subcommand.

    Args:
        flags: letters of short options without a value, which may stand together (``-la``).
        values: letters of short options whose value is the rest of the word, or the next word.
        words: whole options, of one dash or two, also with ``=value``.
        numbers: whether ``-5`` is an option.
        formats: whether ``--format`` and ``--pretty`` take git's formats, which can check a signature.
        anything: whether no option of the program does more than shape its output.
        strict: for programs that run a project's own code: every word must be known exactly.
    """

    flags: str = ""
    values: str = ""
    words: frozenset[str] = frozenset()
    numbers: bool = False
    formats: bool = False
    anything: bool = False
    strict: bool = False


_READERS: Final = """
ls|aAbBcCdDfFgGhHiklLmnNopqQrRsStuUvxXZ1|IwT|--all --almost-all --author --block-size --color --directory --classify
   --file-type --full-time --group-directories-first --hide --human-readable --ignore --inode --no-group --reverse
   --recursive --si --size --sort --time --time-style --width --zero --dereference --numeric-uid-gid --literal
cat|AbeEnstTuv||--show-all --number --number-nonblank --squeeze-blank --show-ends --show-tabs --show-nonprinting
head#|qvz|nc|--lines --bytes --quiet --silent --verbose --zero-terminated
tail#|fFqvz|ncs|--lines --bytes --follow --retry --pid --quiet --silent --verbose --zero-terminated --sleep-interval
wc|clmLw||--bytes --chars --lines --words --max-line-length --total
grep,egrep,fgrep#|abcEFGhHiIlLnoPqrRsTUvVwxyzZ|ABCefmdD|--after-context --before-context --context --regexp --file
   --max-count --directories --devices --binary-files --byte-offset --count --extended-regexp --fixed-strings
   --basic-regexp --perl-regexp --no-filename --with-filename --ignore-case --no-ignore-case --files-with-matches
   --files-without-match --line-number --only-matching --quiet --silent --recursive --dereference-recursive
   --no-messages --initial-tab --invert-match --word-regexp --line-regexp --null --null-data --text --color --colour
   --include --exclude --exclude-dir --exclude-from --label --line-buffered
rg|aFHiIlLcnNoPpqsSuUvwx0|egtTABCmMrjdEf|--ignore-case --smart-case --case-sensitive --line-number --no-line-number
   --files --files-with-matches --files-without-match --count --count-matches --only-matching --word-regexp
   --line-regexp --invert-match --with-filename --no-filename --fixed-strings --multiline --multiline-dotall --pcre2
   --pretty --unrestricted --follow --hidden --no-ignore --no-ignore-vcs --no-ignore-parent --glob --iglob --type
   --type-not --type-list --after-context --before-context --context --max-count --max-columns --max-filesize
   --max-depth --replace --threads --encoding --regexp --file --heading --no-heading --color --colors --column
   --no-column --json --vimgrep --stats --sort --sortr --trim --text --null --quiet --no-messages
   --passthru --passthrough
   --no-config --crlf --one-file-system --context-separator --no-pre --no-search-zip --glob-case-insensitive
stat|Lft|c|--format --printf --dereference --file-system --terse
du|abcDhHklLmPsSx0|dBtX|--all --apparent-size --block-size --bytes --total --human-readable --max-depth --summarize
   --si --exclude --exclude-from --threshold --time --time-style --one-file-system --separate-dirs --inodes --null
df|ahHiklPT|Btx|--all --block-size --human-readable --si --inodes --local --portability --type --print-type
   --exclude-type --total --output
tree|adfilpsughDFNqQrtUvxJXCnc||-L -P -I --dirsfirst --filesfirst --noreport --gitignore --prune --du --si --filelimit
   --sort --charset --matchdirs --ignore-case --inodes --device --timefmt --fromfile
diff#|abBcdeEHiNnpqrsTtuwyZ|CUWFIxXSD|--unified --context --brief --recursive --side-by-side --color --normal --ed --rcs
   --ignore-all-space --ignore-space-change --ignore-trailing-space --ignore-blank-lines --ignore-case --new-file
   --text --report-identical-files --exclude --exclude-from --width --suppress-common-lines --strip-trailing-cr
   --minimal --label --no-dereference --from-file --to-file --show-c-function --left-column --speed-large-files
cmp|bls|in|--print-bytes --ignore-initial --verbose --bytes --quiet --silent
comm|123z||--check-order --nocheck-order --output-delimiter --total --zero-terminated
cut|nsz|bcdf|--bytes --characters --delimiter --fields --complement --only-delimited --output-delimiter
   --zero-terminated
tr|cCdst||--complement --delete --squeeze-repeats --truncate-set1
basename|az|s|--multiple --suffix --zero
dirname|z||--zero
realpath|eEmLPqsz||--canonicalize-existing --canonicalize-missing --relative-to --relative-base --strip --no-symlinks
readlink|femnqsvz||--canonicalize --canonicalize-existing --canonicalize-missing --no-newline --quiet --silent --zero
which|as||--all
type|afptP||
nl|p|bdfhilnsvw|--body-numbering --number-format --number-width --starting-line-number --number-separator
od|abcdfilosxv|AjNStw|--address-radix --skip-bytes --read-bytes --strings --format --output-duplicates --width --endian
hexdump|bcCdovx|ens|
strings|adfhovwU|ntes|--all --data --print-file-name --bytes --radix --encoding --include-all-whitespace
md5sum,sha1sum,sha256sum,sha512sum|bctwz||--check --binary --text --quiet --status --strict --warn --ignore-missing
   --tag --zero
cksum|cwz|al|--algorithm --check --base64 --raw --tag --untagged --length --zero --quiet --status --strict --warn
sort|bdfgiMhnRrVcCmsuz|kSt|--reverse --numeric-sort --unique --key --field-separator --human-numeric-sort --version-sort
   --general-numeric-sort --ignore-case --stable --check --month-sort --random-sort --zero-terminated --merge --parallel
   --ignore-leading-blanks --dictionary-order --ignore-nonprinting --buffer-size --batch-size
file|bhikLNrv0|eFP|--brief --mime --mime-type --mime-encoding --dereference --no-dereference --extension --separator
   --no-pad --keep-going --raw --print0
jq|nrcCMSsRjaeh||--arg --argjson --raw-output --compact-output --slurp --null-input --sort-keys --color-output --tab
   --monochrome-output --indent --exit-status --join-output --raw-input --args --jsonargs --ascii-output --unbuffered
   --stream --seq
"""
"""One program a line: ``names|flags|values|options``; ``#`` after the names where ``-5`` is an option."""

_FIND: Final = """
-name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -xtype -size -empty -mtime -mmin -atime
-amin -ctime -cmin -newer -newermt -newerct -anewer -cnewer -used -maxdepth -mindepth -print -print0 -printf -ls -prune
-not -a -and -o -or -quit -perm -user -group -uid -gid -links -inum -samefile -depth -d -xdev -mount -follow -L -H -P
-readable -writable -executable -true -false -nouser -nogroup -lname -ilname -fstype -daystart -noleaf -O1 -O2 -O3
-ignore_readdir_race -noignore_readdir_race -warn -nowarn -context --version --help
"""

_GIT_LOG: Final = """
--stat --shortstat --numstat --name-only --name-status --summary --patch --no-patch --raw --patch-with-stat --oneline
--graph --no-graph --decorate --no-decorate --decorate-refs --decorate-refs-exclude --all --branches --tags --remotes
--since --until --after --before --author --committer --grep --invert-grep --all-match --regexp-ignore-case
--basic-regexp --extended-regexp --fixed-strings --perl-regexp --max-count --skip --reverse --first-parent --merges
--no-merges --min-parents --max-parents --follow --date --date-order --topo-order --author-date-order --abbrev-commit
--no-abbrev-commit --abbrev --no-abbrev --format --pretty --full-history --simplify-merges --simplify-by-decoration
--ancestry-path --left-right --cherry-pick --cherry-mark --cherry --left-only --right-only --boundary --not --exclude
--glob --diff-filter --find-renames --find-copies --find-copies-harder --no-renames --unified --function-context
--inter-hunk-context --ignore-space-change --ignore-all-space --ignore-space-at-eol --ignore-blank-lines
--ignore-cr-at-eol --text --binary --full-index --exit-code --quiet --check --color --no-color --color-words --word-diff
--word-diff-regex --no-ext-diff --no-textconv --no-prefix --src-prefix --dst-prefix --minimal --patience --histogram
--diff-algorithm --no-diff-merges --cc --dirstat --compact-summary --pickaxe-all --pickaxe-regex --relative
--no-relative --parents --children --show-pulls --source --walk-reflogs --mailmap --use-mailmap --no-mailmap --no-notes
--relative-date --no-show-signature --encoding --no-expand-tabs --end-of-options --no-walk --count --objects --log-size
--irreversible-delete --anchored --ws-error-highlight --color-moved --no-color-moved --indent-heuristic
"""
_GIT_DIFF: Final = " --cached --staged --merge-base --no-index --ours --theirs --base"
_GIT: Final = """
status|sbvz|u|--short --branch --show-stash --porcelain --long --verbose --untracked-files --ignored
   --column --no-column --ahead-behind --no-ahead-behind --renames --no-renames --find-renames
blame#|bcltfnspwe|LMC|--root --show-stats --porcelain --line-porcelain --incremental --encoding --date --score-debug
   --show-name --show-number --show-email --abbrev --color-lines --color-by-age --ignore-rev --first-parent --reverse
shortlog|nsec|w|--numbered --summary --email --committer --group --no-merges --all --since --until --author --format
describe|||--all --tags --contains --abbrev --candidates --exact-match --long --match --exclude --always --first-parent
   --dirty --broken --debug
rev-parse|q||--verify --quiet --short --abbrev-ref --symbolic --symbolic-full-name --show-toplevel --show-prefix
   --show-cdup --git-dir --absolute-git-dir --git-common-dir --is-inside-work-tree --is-inside-git-dir
   --is-bare-repository --is-shallow-repository --show-superproject-working-tree --all --branches --tags --remotes
   --show-object-format --path-format --default --revs-only --no-revs --flags --no-flags --end-of-options
ls-files|cdmoiskutvzf|x|--cached --deleted --modified --others --ignored --stage --unmerged --killed --directory
   --no-empty-directory --eol --deduplicate --exclude --exclude-standard --error-unmatch --full-name --abbrev --debug
   --format
ls-tree|drtlz||--name-only --name-status --object-only --long --full-name --full-tree --abbrev --format
cat-file|etsp||--batch --batch-check --batch-all-objects --unordered --buffer --follow-symlinks --allow-unknown-type
   --mailmap --use-mailmap
grep#|aIiwvhHEFPGlLnczopWq|ABCefm|--cached --untracked --no-index --no-exclude-standard --exclude-standard --text
   --ignore-case --word-regexp --invert-match --full-name --extended-regexp --basic-regexp --perl-regexp --fixed-strings
   --line-number --column --files-with-matches --name-only --files-without-match --null --only-matching --count --color
   --no-color --break --heading --show-function --function-context --context --after-context --before-context
   --max-depth --recursive --no-recursive --max-count --threads --and --or --not --all-match --quiet --no-textconv
merge-base|a||--all --octopus --independent --is-ancestor --fork-point
name-rev|||--tags --refs --exclude --all --name-only --no-undefined --always
"""
_GIT_OTHERS: Final = Options(flags="qv", words=frozenset({"--quiet", "--verbose", "--dry-run"}))
"""A subcommand for which no rule ending in ``*`` is offered; a person may have one all the same."""

_PROJECT: Final = """
pytest|-q -qq -x -v -vv -vvv -s -l -k -m -n -ra -rA -rf -rs --lf --ff --nf --sw --tb --maxfail --durations --co
   --collect-only --exitfirst --quiet --verbose --no-header --showlocals --last-failed --failed-first
mypy,pyright,basedpyright,tsc|--strict --verbose --pretty --no-error-summary --show-error-codes --stats --noEmit
ruff|--no-fix --diff --check --select --ignore -q --quiet --statistics --preview
eslint,jest,vitest,npm,pnpm,yarn,bun|-s --silent -t --testNamePattern --verbose --run --bail -i --runInBand
   --watch=false --max-warnings --quiet
cargo|--release -r --all --workspace --all-features --no-default-features --features -F --lib --bins --bin --tests
   --test --examples --benches --all-targets -p --package -q --quiet -v --verbose --locked --offline --frozen
   -- --nocapture --check --no-run --no-deps --exact --ignored
go|-v -race -run -count -short -timeout -cover -bench -failfast -parallel -json -m -u
dotnet|--no-restore --no-build -c --configuration -v --verbosity --filter --nologo
"""
"""Programs that run a project's code: they have options for everything, and more with every release."""


def options_of(program: str, subcommand: str | None) -> Options | None:
    """The known options of a program, or of a subcommand of git; None for a program that the table isn't about."""
    if program == "git":
        return _git().get(subcommand or "", _GIT_OTHERS)
    return _programs().get(program)


@functools.cache
def _programs() -> dict[str, Options]:
    found = {name: options for names, options in _rows(_READERS) for name in names}
    found["echo"] = Options(anything=True)
    found["find"] = Options(words=frozenset(_FIND.split()))
    for line in _joined(_PROJECT):
        names, words = line.split("|")
        found.update(dict.fromkeys(names.split(","), Options(words=frozenset(words.split()), strict=True)))
    return found


@functools.cache
def _git() -> dict[str, Options]:
    found = {name: options for names, options in _rows(_GIT) for name in names}
    log = Options("puszcmrtiaEFPgRbwDWq", "nSGLUMCBlX", frozenset(_GIT_LOG.split()), numbers=True, formats=True)
    diff = Options(log.flags, log.values, log.words | frozenset(_GIT_DIFF.split()), numbers=True, formats=True)
    return {**found, "log": log, "show": log, "rev-list": log, "diff": diff}


def _rows(table: str) -> list[tuple[list[str], Options]]:
    rows: list[tuple[list[str], Options]] = []
    for line in _joined(table):
        names, flags, values, words = line.split("|")
        options = Options(
            flags=flags,
            values=values,
            words=frozenset(words.split()),
            numbers=names.endswith("#"),
            formats=table is _GIT,
        )
        rows.append((names.rstrip("#").split(","), options))
    return rows


def _joined(table: str) -> list[str]:
    return table.strip().replace("\n   ", " ").split("\n")
