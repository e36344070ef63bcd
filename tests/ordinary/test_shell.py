"""The shell and the small programs around it (QLT-1, BND-10)."""

from __future__ import annotations

import pytest
from tests.ordinary.kit import Case, Ground, cases

pytestmark = pytest.mark.clause("QLT-1", "BND-10", "BND-11")

SHELL = {
    "redirects_and_substitutions": Case(
        """
            cat <<END >here.txt
            here $((1 + 1))
            END
            cat here.txt
            diff <(sort file.txt) <(sort -r file.txt | sort)
            echo teed | tee >(cat >copy.txt) >(cat 1>&2) >/dev/null
            while [ ! -s copy.txt ]; do sleep 0.01; done
            cat copy.txt
            exec 3>three.txt; echo three >&3; exec 3>&-; cat <three.txt
            read -r line < <(printf 'read this\\n'); echo "$line"
            mkfifo fifo; (echo through >fifo &); cat fifo
            cat /dev/fd/0 <<<'by descriptor'
            coproc up { tr a-z A-Z; }; echo coproc >&"${up[1]}"; eval "exec ${up[1]}>&-"; cat <&"${up[0]}"
        """,
        says=["here 2", "teed", "three", "read this", "through", "by descriptor", "COPROC"],
        leaves=["here.txt", "copy.txt", "three.txt", "fifo"],
    ),
    "devices": Case(
        """
            echo out >/dev/stdout
            echo err >/dev/stderr
            echo null >/dev/null
            test ! -s /dev/null
            head -c 4 /dev/zero | wc -c
            head -c 4 /dev/urandom | wc -c
            head -c 4 /dev/random | wc -c
            cat /dev/stdin </dev/null
            echo full >/dev/full && exit 1
            dd if=/dev/zero of=/dev/shm/x bs=1k count=4 status=none
            wc -c </dev/shm/x
            rm /dev/shm/x
            ls -l /proc/self/fd >/dev/null
            ls /dev/pts >/dev/null
        """,
        says=["out", "err", "4", "4", "4", "4096"],
    ),
    "jobs_traps_and_limits": Case(
        """
            set -m
            sleep 0.1 &
            fg >/dev/null
            sleep 5 & kill %1
            wait %1 || echo "ended $?"
            (exit 3) & wait $! || echo "waited $?"
            set +m
            trap 'echo trapped' USR1; kill -USR1 $$; trap - USR1
            (trap 'echo at exit' EXIT)
            timeout 0.1 sleep 5 || echo "timeout $?"
            nice -n 5 true
            nohup true 2>/dev/null
            ulimit -n; (ulimit -c 0; ulimit -v unlimited; ulimit -n 64; ulimit -n)
            time true
            setsid -w true
            flock lock -c 'echo flocked'
            seq 4 | xargs -P 2 -I{} sh -c 'echo {}' | sort | tr -d '\\n'
        """,
        says=["ended 143", "waited 3", "trapped", "at exit", "timeout 124", "64", "real", "flocked", "1234"],
        leaves=["lock"],
        needs=["flock", "setsid", "timeout"],
    ),
    "looking_at_processes": Case(
        """
            ps >/dev/null; ps aux | grep -c bash; ps -ef >/dev/null
            sleep 7 & until pgrep -x sleep >/dev/null; do :; done; kill -0 $!; pkill -x sleep; wait $! || true
            top -b -n 1 >/dev/null
            free -m >/dev/null; uptime >/dev/null; cat /proc/cpuinfo /proc/meminfo /proc/self/status >/dev/null
            nproc >/dev/null; uname -a >/dev/null; hostname >/dev/null; getconf PAGESIZE
        """,
        says=["4096"],
        needs=["ps", "pgrep", "pkill", "top", "free"],
    ),
    "who_where_when": Case(
        """
            id -u >/dev/null; whoami; groups >/dev/null; pwd; test "$HOME" = ~; cd ~; cd - >/dev/null
            test -w . ; test "$(stat -c %u .)" = "$(id -u)"
            TZ=Asia/Tokyo date -d @0 +%H; date -u -d @0 +%F; LC_ALL=C.UTF-8 locale charmap
            df . >/dev/null; df -h >/dev/null; du -sh . >/dev/null; stat -f . >/dev/null
            getent passwd root | cut -d: -f1; getent hosts localhost >/dev/null
            env -i /bin/true; printenv PATH >/dev/null; command -v ls
        """,
        says=["/project", "09", "1970-01-01", "UTF-8", "root", "ls"],
    ),
    "temporary_files": Case(
        """
            file=$(mktemp); echo x >"$file"; cat "$file"; rm "$file"
            folder=$(mktemp -d); touch "$folder/x"; rm -r "$folder"
            mktemp -p . tmp.XXXXXX >/dev/null; rm tmp.*
            mktemp -d -p /var/tmp >/dev/null; mktemp -p /dev/shm >/dev/null
            sort -T /tmp -S 1k file.txt | head -1
            mkdir -p ~/.cache/some-tool; echo cached >~/.cache/some-tool/x; cat ~/.cache/some-tool/x
            stat -c %a /tmp /var/tmp /dev/shm
        """,
        says=["x", "one", "cached", "1777\n1777\n1777"],
    ),
    "text_and_archives": Case(
        """
            sed -i s/one/ONE/ file.txt
            perl -pi -e 's/two/TWO/' file.txt
            printf '1s/O/0/\\nw\\nq\\n' | ed -s file.txt
            cp -a file.txt was.txt; echo four >>file.txt
            diff -u was.txt file.txt >change.patch || true
            patch -s -R file.txt change.patch; cmp was.txt file.txt
            tar czf all.tar.gz file.txt was.txt; mkdir un; tar xzf all.tar.gz -C un; ls un
            zip -q all.zip file.txt; unzip -qo all.zip -d un
            gzip -k was.txt; zcat was.txt.gz | head -1; xz -k was.txt; bzip2 -k was.txt
            find . -name '*.txt' -newer change.patch -print0 | xargs -0 ls >/dev/null
            awk 'NR==2' file.txt; split -l 1 file.txt part.; ls part.*; install -m 755 file.txt installed
            ln file.txt hard; ln -s file.txt soft; cp -al un un2; mv un un3; touch -d yesterday old; chmod -R go-w un3
            printf '#!/bin/sh\\necho ran\\n' >program; chmod +x program; ./program; truncate -s 1G sparse
            jq -r .a <<<'{"a": 7}'; bc <<<'6*7'; xxd -p <<<x; base64 <<<x; sha256sum file.txt >/dev/null
        """,
        says=["file.txt\nwas.txt", "0NE", "TWO", "part.aa", "ran", "7", "42"],
        leaves=[
            "*.txt*",
            "change.patch",
            "all.*",
            "un*",
            "part.*",
            "installed",
            "hard",
            "soft",
            "old",
            "program",
            "sparse",
        ],
        needs=["perl", "ed", "patch", "zip", "unzip", "xz", "bzip2", "jq", "bc", "xxd"],
    ),
    "sync_of_folders": Case(
        "mkdir a; cp file.txt a; rsync -a --delete a/ b/; rsync -a -e false a/ c/; ls b c",
        says=["file.txt", "file.txt"],
        leaves=["a", "b", "c"],
        needs=["rsync"],
    ),
    "a_database_file": Case(
        """
            sqlite3 data.db 'pragma journal_mode=wal; create table t(x); insert into t values(1),(2);'
            sqlite3 data.db 'select sum(x) from t; vacuum;'
            sqlite3 data.db .dump | sqlite3 copy.db
            sqlite3 copy.db 'select count(*) from t'
        """,
        says=["wal", "3", "2"],
        leaves=["data.db*", "copy.db"],
        needs=["sqlite3"],
    ),
    "terminal_of_a_script": Case(
        """
            script -qec 'tty; stty size; bash -ic "sleep 0.1 & jobs; fg; echo finished"' /dev/null
            script -qec 'test -t 1 && echo yes >/dev/tty; tput cols; less -E file.txt' /dev/null </dev/null
        """,
        says=["/dev/pts/", "finished", "yes"],
        denies=["no job control"],
        needs=["script", "tput", "less"],
    ),
    "searching": Case(
        """
            rg -n two
            fdfind file
            grep -rn three . --include='*.txt'
            find . -type f -not -path './.git/*' | wc -l
            ls -la --color=auto >/dev/null
            tree -L 1 >/dev/null 2>&1 || true
        """,
        says=["file.txt:2:two", "file.txt", "./file.txt:3:three", "1"],
        needs=["rg", "fdfind"],
    ),
}


@cases(SHELL)
def test_shell(ground: Ground, case: Case) -> None:
    ground.does(case)


def test_the_files_of_one_command_are_there_for_the_next(ground: Ground) -> None:
    """In /tmp and the cache too: agents build in one call and look in the next (BND-9)."""
    ground.repository()
    ground.works("echo a >/tmp/a; echo b >~/.cache/b; echo c >/var/tmp/c; echo d >d.txt", leaves=["d.txt"])
    assert ground.works("cat /tmp/a ~/.cache/b /var/tmp/c d.txt") == "a\nb\nc\nd\n"


def test_input_is_given_and_ends(ground: Ground) -> None:
    ground.repository()
    assert ground.works("cat; cat", stdin="given") == "given"
    assert ground.works("read -r x || echo nothing") == "nothing\n"


@pytest.mark.bug("PRC-01", "PRC-03", "PRC-04", "PRC-05", "PRC-06", "PRC-08")
def test_a_call_ends_whatever_its_command_leaves(ground: Ground) -> None:
    """For each user, and with each kind of sandbox: held output, ignored signals, floods, bytes that are no text."""
    ground.repository()
    assert ground.works("sleep 600 & echo begun") == "begun\n"
    done = ground.run("trap '' TERM INT HUP; echo stubborn; while :; do sleep 1; done", limit_s=0.5)
    assert (done["cause"], done["output"]) == ("timeout", "stubborn\n")
    done = ground.run("(setsid sh -c 'while :; do sleep 1; done' & ) ; sleep 600", limit_s=0.5)
    assert done["cause"] == "timeout"
    assert ground.works("pgrep -c sleep || true").strip() == "0"
    flood = ground.works("head -c 30000000 /dev/zero | tr '\\0' x; echo end")
    assert "bytes dropped" in flood
    assert flood.endswith("end\n")
    assert len(flood) < 200_000
    assert ground.works("printf 'a\\xff\\xfeb'") == "a\ufffd\ufffdb"
