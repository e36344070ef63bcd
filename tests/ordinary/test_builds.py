"""Compilers, build tools and servers that a project brings (QLT-1, BND-11)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.ordinary.kit import PATH, Case, Ground, HarnessProgram, cases

pytestmark = pytest.mark.clause("QLT-1", "BND-11")

C = '#include <stdio.h>\nint main(void) { puts("built"); return 0; }\n'

BUILDS = {
    "make_with_jobs": Case(
        "make -j2 -s run; make -s clean; make -s -n run; gcc -shared -fPIC -o lib.so a.c",
        says=["built"],
        files={
            "a.c": C,
            "b.c": "int b;\n",
            "Makefile": "a: a.o b.o\n\tgcc -o a a.o b.o\nrun: a\n\t./a\nclean:\n\trm -f a *.o\n",
        },
        leaves=["lib.so"],
        needs=["gcc", "make"],
    ),
    "cmake_and_ninja": Case(
        "cmake -S . -B out -G Ninja >/dev/null; cmake --build out -j 2 >/dev/null; out/a",
        says=["built"],
        files={
            "a.c": C,
            "CMakeLists.txt": "cmake_minimum_required(VERSION 3.10)\nproject(a C)\nadd_executable(a a.c)\n",
        },
        leaves=["out"],
        needs=["cmake", "ninja", "gcc"],
    ),
    "compiler_cache": Case(
        "ccache gcc -c a.c; ccache gcc -c a.c; ccache -s | head -5; ccache -k cache_dir",
        says=["/.cache/ccache"],
        files={"a.c": C},
        leaves=["a.o"],
        needs=["ccache", "gcc"],
    ),
    "go": Case(
        "go build -o out . && ./out && go vet . && go env GOCACHE",
        says=["built", "/.cache/"],
        files={"go.mod": "module x\n\ngo 1.19\n", "m.go": 'package main\n\nfunc main() { println("built") }\n'},
        leaves=["out"],
        needs=["go"],
        slow=True,
        limit_s=120,
    ),
    "java": Case(
        "javac A.java; java A",
        says=["built"],
        files={"A.java": 'class A { public static void main(String[] a) { System.out.println("built"); } }\n'},
        leaves=["A.class"],
        needs=["javac", "java"],
        slow=True,
    ),
    "headless_browser": Case(
        "chromium --headless --no-sandbox --user-data-dir=/tmp/x --dump-dom 'data:text/html,<p>shown</p>' 2>/dev/null",
        says=["shown"],
        needs=["chromium"],
        slow=True,
    ),
    "documents_in_containers_of_threads": Case(
        "python3 -c 'import threading; t=[threading.Thread(target=print, args=(n,)) for n in range(200)]; "
        "[x.start() for x in t]; [x.join() for x in t]' | wc -l",
        says=["200"],
        needs=["python3"],
    ),
}


@cases(BUILDS)
def test_builds(ground: Ground, case: Case) -> None:
    ground.does(case)


@pytest.mark.slow
def test_a_database_server(ground: Ground) -> None:
    """Made, started, asked over its socket and over loopback, and stopped; all of it inside the root."""
    if ground.program.root:
        pytest.skip("postgres refuses to be run by root, in or out of a sandbox")
    ground.does(
        Case(
            """
                initdb -D data -U me --no-sync -A trust >/dev/null
                pg_ctl -D data -w -l log -o "-k $PWD -c listen_addresses=localhost -c fsync=off" start >/dev/null
                psql -h "$PWD" -U me -d postgres -Atc 'select 6*7'
                export PGHOST=localhost PGUSER=me PGDATABASE=postgres
                psql -Atc 'create table t(x int); insert into t values(1); select * from t'
                createdb -h localhost -U me other
                pg_dump -h "$PWD" -U me postgres | grep -c 'CREATE TABLE'
                pg_ctl -D data -m fast stop >/dev/null
            """,
            says=["42", "1", "1"],
            leaves=["data", "log"],
            needs=["initdb", "pg_ctl", "psql"],
        )
    )


@pytest.mark.slow
def test_cargo_with_the_persons_own_toolchain(as_self: HarnessProgram, tmp_path: Path) -> None:
    """The toolchain lies in the home folder: listed, read-only, and enough to build with."""
    if shutil.which("cargo") is None:
        pytest.skip("not installed here: cargo")
    home = Path(os.environ["HOME"])
    environ = {name: os.environ[name] for name in ("PATH", "HOME")}
    if not any(Path(shutil.which("cargo") or "/").is_relative_to(folder) for folder in (home, "/usr", "/opt")):
        pytest.skip("cargo lies where no sandbox shows it")
    ground = Ground(as_self, tmp_path, keep=True)
    ground.repository(
        {
            "Cargo.toml": '[package]\nname = "one"\nversion = "0.1.0"\nedition = "2021"\n',
            "src/main.rs": 'fn main() { println!("built"); }\n#[test] fn it() {}\n',
        }
    )
    was, as_self.environ = as_self.environ, {**as_self.environ, **environ}
    try:
        said = ground.works(
            "cargo run -q --offline; cargo test --offline 2>&1", leaves=["target", "Cargo.lock"], limit_s=120
        )
    finally:
        as_self.environ = was
        ground.close()
    assert "built" in said
    assert "1 passed" in said
    assert {path.name for path in ground.root.iterdir()} == {
        *("Cargo.toml", "Cargo.lock", "src", "target", "file.txt", ".git")
    }


def test_programs_are_looked_for_in_folders_that_are_there() -> None:
    assert all(os.path.isabs(folder) for folder in PATH.split(":"))
