"""Python's own library and tools: processes, sockets, terminals, files, environments, packages (QLT-1, BND-11)."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.ordinary.kit import Case, Ground, cases
from tests.sandbox.kit import bring_pytest

pytestmark = pytest.mark.clause("QLT-1", "BND-11", "BND-10")

PYTHON = {
    "processes": Case(
        "python3 processes.py",
        says=[
            *("fork 2 2 True", "spawn 2 2 True", "forkserver 2 2 True"),
            *("pool 25", "manager ['a', 'b']", "executors 3 3", "pipe piped"),
            *("fork 7", "spawn 0", "session 1", "group -15"),
        ],
        programs=["processes.py"],
        needs=["python3", "ps"],
    ),
    "sockets": Case(
        "python3 sockets.py",
        says=[
            "127.0.0.1 TCP",
            "::1 TCP",
            "localhost TCP",
            "UNIX\nUNIX\nUNIX\nUDP\nchild\nthread\nsignal\npairs",
            "one",
        ],
        programs=["sockets.py"],
        needs=["python3"],
    ),
    "files": Case(
        "python3 files.py",
        says=[
            *("temporary True True True", "locked", "wal", "(1,)", "7", "sparse True", "a\na\n", "in memory", "noted"),
            *(r"[b'\x01', b'CASE', b'a'] False", "done True"),
        ],
        leaves=["made"],
        programs=["files.py"],
        needs=["python3"],
    ),
    "terminals": Case(
        "python3 terminals.py",
        says=["True True", "b'typed\\n'", "['42', 'own']", "spawn 0", "? said", "8"],
        programs=["terminals.py"],
        needs=["python3"],
    ),
    "watching": Case(
        "python3 watching.py",
        says=["['seen.txt', 'seen-too.txt']"],
        leaves=["seen.txt"],
        programs=["watching.py"],
        needs=["python3"],
    ),
    "environments_and_packages": Case(
        """
            python3 -m venv env
            python3 packages.py
            . env/bin/activate
            pip install -q --no-index dist/ready-1.0-py3-none-any.whl
            ready
            pip install -q --no-index --no-deps --find-links dist fromsource
            fromsource
            pip install -q --no-index --target elsewhere dist/*.whl
            pip list --format=freeze
            pip cache dir
            pip uninstall -qy ready
            test "$(stat -c %a env/bin/python3)" = 755 || test -L env/bin/python3
        """,
        says=["hello from ready", "hello from fromsource", "fromsource==1.0", "/.cache/pip"],
        leaves=["env", "dist", "elsewhere", "__pycache__"],
        programs=["packages.py"],
        needs=["python3"],
        slow=True,
    ),
    "bytecode_and_user_installs": Case(
        """
            python3 -c 'import mod; print(mod.__cached__)'
            python3 -m compileall -q .
            python3 -m unittest -q test_mod
            python3 -m json.tool <<<'{"a": 1}'
            python3 -c 'import locale, sys; print(locale.getpreferredencoding(), sys.getfilesystemencoding(), "é")'
            python3 -c 'import os, pathlib; print(os.path.isdir(pathlib.Path.home()))'
            python3 -c 'import socket; socket.gethostname(); socket.gethostbyname("localhost")'
            python3 - <<<'print("from standard input")'
            python3 -q -i <<<'1+1' 2>/dev/null
        """,
        says=["__pycache__", '"a": 1', "UTF-8 utf-8 é", "True", "from standard input", "2"],
        files={
            "mod.py": "X = 1\n",
            "test_mod.py": "import unittest\nclass T(unittest.TestCase):\n    def test(self): pass\n",
        },
        leaves=["__pycache__"],
        needs=["python3"],
    ),
    "uv": Case(
        """
            uv --version
            uv venv -q --offline --python "$(command -v python3)" env
            python3 packages.py
            uv pip install -q --offline --no-index --python env/bin/python dist/ready-1.0-py3-none-any.whl
            env/bin/ready
            uv cache dir
        """,
        says=["hello from ready", "/.cache/uv"],
        leaves=["env", "dist"],
        programs=["packages.py"],
        needs=["python3", "uv"],
    ),
}


@cases(PYTHON)
def test_python(ground: Ground, case: Case) -> None:
    ground.does(case)


TESTS = """
import pytest

@pytest.mark.parametrize("n", range(6))
def test_it(n, tmp_path, capfd):
    assert tmp_path.exists()

def test_that_fails():
    assert False
"""


@pytest.mark.slow
def test_pytest_with_workers_and_its_cache(ground: Ground) -> None:
    ground.repository({"test_it.py": TESTS, "pytest.ini": "[pytest]\ntestpaths = .\n"})
    library = ground.program.far / f"lib-{ground.folder.name}"
    library.mkdir()
    bring_pytest(library)
    ground.program.outside(f"cp -r {library} lib", ground.root)
    leaves = [".pytest_cache", "__pycache__"]
    done = ground.run("PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=lib python3 -m pytest -q -n2 test_it.py", leaves=leaves)
    assert "1 failed, 6 passed" in done["output"], done
    done = ground.run("PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=lib python3 -m pytest -q --lf test_it.py", leaves=leaves)
    assert "1 failed" in done["output"]
    assert Path(ground.root, ".pytest_cache").is_dir()
