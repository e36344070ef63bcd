"""What is known about programs, as data: which run other commands, which options do, which rules are worth offering.

The sandbox confines what a command does; this table only decides which commands a saved rule may speak for
(BND-6). It errs towards asking.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = [
    "ASSIGNMENTS",
    "EVAL_OPTIONS",
    "GIT_PLAIN_OPTIONS",
    "GIT_PROGRAM_OPTIONS",
    "GIT_PROGRAM_SHORT",
    "GIT_RUNNERS",
    "GIT_SAFE_GLOBALS",
    "OFFERED",
    "PROGRAM_OPTIONS",
    "PYTHON_MODULES",
    "RUNNERS",
    "SED_SCRIPT",
    "SHELLS",
    "SUBCOMMAND_RUNNERS",
    "WRITING_OPTIONS",
]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _beginnings(text: str) -> tuple[tuple[str, ...], ...]:
    beginnings = (beginning.split() for beginning in text.replace("\n", ",").split(","))
    return tuple(tuple(words) for words in beginnings if words)


_NONE: Final = frozenset[str]()

RUNNERS: Final = _names(
    # the shell's own words that run a string, another command, or change what a later word means
    """
    eval source . alias unalias exec trap hash builtin command enable bind complete compgen compopt fc coproc time
    let jobs read mapfile readarray unset declare typeset export readonly local set shopt getopts function history
    """
    # programs that run the command they are given
    """
    env xargs timeout nohup nice ionice chrt taskset setsid setpriv setarch stdbuf unbuffer sudo sudoedit doas su
    runuser pkexec sg newgrp chroot unshare nsenter capsh fakeroot proot bwrap firejail flock script strace ltrace
    gdb lldb valgrind perf rr watch entr parallel ssh sshpass scp sftp mosh autossh telnet nc ncat netcat socat
    expect tmux screen at batch crontab systemd-run systemctl docker podman nerdctl lxc lxd kubectl oc vagrant
    multipass flatpak snap dbus-run-session dbus-launch dbus-send xvfb-run busybox toybox npx pnpx bunx uvx pipx
    nix-shell nix-build guix direnv ansible ansible-playbook run-parts start-stop-daemon daemonize dotenv cross-env
    systemd-inhibit systemd-cat systemd-nspawn machinectl run0 runcon choom uclampset numactl torsocks torify tsocks
    proxychains proxychains4 faketime logsave cpulimit trickle dumb-init tini gosu su-exec sem chronic ifne mispipe pee
    hyperfine watchexec reflex modd doppler aws-vault chamber envdir setlock fakechroot schroot rlwrap dtach abduco
    zellij byobu pssh sshuttle bpftrace uftrace heaptrack wine ccache distcc sccache patch genv gxargs gtimeout gnice
    gnohup gstdbuf gparallel eatmydata nsjail minijail0 with-contenv s6-setuidgid runsv
    concurrently nodemon catchsegv linux32 linux64 i386 x86_64 ld.so setuidgid chpst softlimit cgexec prlimit
    """
    # programs whose argument is a program in a language that can run commands, and interactive ones
    """
    awk gawk mawk nawk ed ex vi vim nvim view vimdiff emacs emacsclient nano pico less more most man info osascript
    zless zmore bzless xzless
    tclsh wish bc dc m4 psql mysql mariadb sqlite3 mongo mongosh redis-cli irb pry ghci iex jshell scala groovysh
    ipython jupyter gnuplot octave matlab sage maxima xdg-open open sensible-browser
    """
)

SHELLS: Final = _names("sh bash dash zsh ksh mksh fish csh tcsh rbash ash yash pwsh powershell nu elvish xonsh")
"""Covered only with a script file as their first argument."""

EVAL_OPTIONS: Final[dict[str, tuple[str, frozenset[str]]]] = {
    "python": ("ci", _NONE),
    "pypy": ("ci", _NONE),
    "node": ("epri", _names("eval print require import loader experimental-loader")),
    "nodejs": ("epri", _names("eval print require import loader experimental-loader")),
    "bun": ("epr", _names("eval print preload require import")),
    "deno": ("", _NONE),
    "perl": ("eEMmdx", _NONE),
    "ruby": ("erx", _NONE),
    "php": ("rBREdaz", _names("run process-begin process-code process-end define interactive zend-extension")),
    "lua": ("eli", _NONE),
    "luajit": ("elij", _NONE),
    "Rscript": ("e", _NONE),
    "R": ("e", _NONE),
    "julia": ("eELp", _names("eval print load")),
    "elixir": ("er", _names("eval rpc-eval require")),
    "erl": ("", _names("eval run s")),
    "ghc": ("e", _NONE),
    "runghc": ("", _NONE),
    "swift": ("e", _NONE),
    "groovy": ("e", _NONE),
    "tsx": ("ep", _names("eval print require import")),
    "ts-node": ("epr", _names("eval print require")),
    "java": ("", _names("agentlib agentpath javaagent XX:OnError XX:OnOutOfMemoryError XX:Flags XX:VMOptionsFile")),
}
"""Interpreters: letters of short options, and long options, that run a string or load code before the script."""

PROGRAM_OPTIONS: Final[dict[str, tuple[str, frozenset[str]]]] = {
    "find": ("", _names("exec execdir ok okdir")),
    "fd": ("xX", _names("exec exec-batch")),
    "fdfind": ("xX", _names("exec exec-batch")),
    "rg": ("", _names("pre hostname-bin")),
    "sort": ("", _names("compress-program")),
    "split": ("", _names("filter")),
    "tar": ("IF", _names("to-command checkpoint-action use-compress-program rsh-command rmt-command info-script")),
    "bsdtar": ("", _names("use-compress-program")),
    "cpio": ("", _names("rsh-command rmt-command")),
    "zip": ("T", _names("test unzip-command")),
    "rsync": ("e", _names("rsh rsync-path config")),
    "wget": ("e", _names("use-askpass config execute")),
    "curl": ("K", _names("config engine")),
    "go": ("", _names("exec toolexec vettool overlay")),
    "cargo": ("Z", _names("config")),
    "make": ("E", _names("eval")),
    "gmake": ("E", _names("eval")),
    "just": ("", _names("shell shell-arg command")),
    "gcc": ("B", _names("wrapper fplugin specs")),
    "g++": ("B", _names("wrapper fplugin specs")),
    "cc": ("B", _names("wrapper fplugin specs")),
    "c++": ("B", _names("wrapper fplugin specs")),
    "clang": ("B", _names("fplugin load")),
    "cmake": ("EP", _NONE),
    "hg": ("", _names("config config-file")),
    "svn": ("", _names("config-option config-dir diff-cmd diff3-cmd editor-cmd")),
    "gradle": ("I", _names("init-script")),
    "printf": ("v", _NONE),
    "test": ("v", _NONE),
    "wait": ("p", _NONE),
    "mvn": ("", _names("exec")),
    "npm": ("", _names("script-shell node-options call prefix userconfig globalconfig")),
    "pnpm": ("c", _names("script-shell shell-mode node-options config")),
    "yarn": ("", _names("script-shell use-yarnrc")),
    "uv": ("", _names("config-file")),
    "pip": ("", _names("config-settings python")),
    "openssl": ("", _names("engine provider-path config")),
}
"""Options with which a program runs another one."""

SUBCOMMAND_RUNNERS: Final[dict[str, frozenset[str]]] = {
    "npm": _names("exec x explore init create innit edit config set"),
    "pnpm": _names("exec dlx create env config"),
    "yarn": _names("exec dlx create node config"),
    "bun": _names("x exec create repl"),
    "deno": _names("eval repl run x serve task install"),
    "uv": _names("run tool x"),
    "poetry": _names("run shell config"),
    "pipenv": _names("run shell"),
    "pdm": _names("run"),
    "hatch": _names("run shell env"),
    "rye": _names("run"),
    "pixi": _names("run shell exec"),
    "conda": _names("run activate"),
    "mamba": _names("run activate"),
    "micromamba": _names("run activate shell"),
    "bundle": _names("exec e config"),
    "rbenv": _names("exec"),
    "pyenv": _names("exec"),
    "nodenv": _names("exec"),
    "asdf": _names("exec"),
    "mise": _names("exec x run r watch"),
    "devbox": _names("run shell"),
    "nix": _names("run shell develop eval repl bundle"),
    "dotnet": _names("exec script"),
    "mix": _names("run eval do cmd"),
    "rails": _names("runner r console c dbconsole db"),
    "heroku": _names("run"),
    "gh": _names("alias extension ext codespace cs auth config"),
    "cargo": _names("run-script"),
    "go": _names("tool env"),
    "php": _names("artisan"),
    "svn": _names("propset"),
}
"""Subcommands that run the command or the string they are given, or set one to be run."""

PYTHON_MODULES: Final = _names("timeit code pdb asyncio idlelib IPython profile cProfile trace runpy pip._internal bdb")
"""Modules of Python that run the string, program or standard input they are given."""

GIT_SAFE_GLOBALS: Final = _names("--no-pager --no-optional-locks --literal-pathspecs --no-replace-objects")
GIT_RUNNERS: Final = _names(
    """
    filter-branch difftool mergetool send-email instaweb web--browse citool gui daemon shell hook credential
    credential-cache credential-store remote-ext remote-fd upload-pack receive-pack upload-archive p4 svn cvsserver
    cvsimport cvsexportcommit archimport for-each-repo maintenance config var bisect submodule help interpret-trailers
    """
)
GIT_PROGRAM_OPTIONS: Final = _names(
    "exec upload-pack receive-pack open-files-in-pager ext-diff textconv filters config config-env template "
    "sendmail-cmd extcmd tool-help upload-archive paginate git-dir work-tree exec-path namespace attr-source"
)
GIT_PROGRAM_SHORT: Final[dict[str, str]] = {"grep": "O", "rebase": "xi", "clone": "cu"}
GIT_PLAIN_OPTIONS: Final = _names("text")
"""Whole options of git that look like the beginning of a dangerous one."""

WRITING_OPTIONS: Final[dict[str, tuple[str, frozenset[str]]]] = {
    "git": ("", _names("output output-directory")),
    "find": ("", _names("delete fprint fprint0 fprintf fls files0-from")),
    "sort": ("oT", _names("output temporary-directory")),
    "tree": ("o", _names("output")),
    "sed": ("i", _names("in-place")),
    "file": ("C", _names("compile")),
    "rg": ("", _names("ignore-file")),
    "curl": ("oOTDcJ", _names("output remote-name upload-file dump-header cookie-jar trace trace-ascii output-dir")),
    "wget": ("OPao", _names("output-document directory-prefix output-file append-output")),
    "pytest": ("", _names("junitxml junit-xml basetemp debug log-file pastebin")),
    "eslint": ("o", _names("output-file fix")),
    "mypy": ("", _names("install-types junit-xml")),
    "tsc": ("", _names("outDir outFile generateTrace")),
}
"""Options with which a program writes a file: a rule that ends in ``*`` doesn't reach them, they must be spelled."""

SED_SCRIPT: Final = re.compile(
    r"(?:(?:\d+|\$|/[^/\n]*/)(?:,(?:\d+|\$|\+\d+|/[^/\n]*/))?!?)?"
    r"(?:[pdq=]|s(?P<d>[/|#,@:])(?:(?!(?P=d))[^\n\\]|\\.)*(?P=d)(?:(?!(?P=d))[^\n\\]|\\.)*(?P=d)[gpiI0-9]*)"
)
"""A sed program of one command that can't run or write anything."""

ASSIGNMENTS: Final = re.compile(
    r"PATH|HOME|SHELL|ENV|IFS|PS\d|CC|CXX|LD|AR|AS|BROWSER|SHELLOPTS|BASHOPTS|CDPATH|GLOBIGNORE|INPUTRC|WGETRC|GOBIN"
    r"|(?:LD|DYLD|GIT|BASH|XDG|NODE|NPM|npm|PNPM|YARN|PIP|UV|GEM|BUNDLE|JAVA|_JAVA|JDK|MAVEN|GRADLE|CARGO|RUSTC|DOCKER"
    r"|SSH|SUDO|PHP|LUA|R|JULIA|ERL|DOTNET|COMPlus|OPENSSL|SSL|CURL|ANSIBLE|CMAKE|RIPGREP|FZF|DENO|BUN|TSX|NIX|CONDA"
    r"|VIRTUAL|GCC|TERMINFO)_\w*"
    r"|(?:PYTHON|PYTEST|PERL|RUBY|RUST|LESS|MAKE|ELIXIR)\w*"
    r"|\w*(?:PAGER|EDITOR|VISUAL|COMMAND|CMD|OPTS?|OPTIONS|ARGS|FLAGS|WRAPPER|RUNNER|HOOKS?|PLUGINS?|PRELOAD|PROXY|proxy"
    r"|PROGRAM|ASKPASS|LAUNCHER|OPEN|CLOSE)"
)
"""Variables that choose what a program runs or loads; a command that sets one is never covered by a rule."""

OFFERED: Final = _beginnings(
    """
    ls,cat,head,tail,wc,grep,egrep,fgrep,rg,stat,du,df,tree,diff,cmp,comm,cut,tr,basename,dirname,realpath
    readlink,echo,which,type,nl,od,hexdump,strings,md5sum,sha1sum,sha256sum,sha512sum,cksum,sort,find,file,jq
    git status,git log,git diff,git show,git blame,git shortlog,git describe,git rev-parse,git ls-files
    git ls-tree,git rev-list,git cat-file,git grep,git merge-base,git name-rev
    pytest,python -m pytest,python3 -m pytest,python -m mypy,python3 -m mypy,mypy,pyright,basedpyright
    ruff check,ruff format,tsc,eslint,jest,vitest,npm test,npm run *,npm ls,npm outdated,pnpm test,pnpm run *
    yarn test,yarn run *,bun test,bun run *,cargo build,cargo check,cargo test,cargo clippy,cargo fmt,cargo doc
    cargo tree,go build,go test,go vet,go list,go doc,dotnet build,dotnet test
    """
)
"""Beginnings that are worth a rule ending in ``*`` (APR-14); a ``*`` here stands for one word, kept as it is."""
