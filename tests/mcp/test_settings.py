"""``mcp.toml``: strict, by name, and a project's only once its exact content is trusted (PRO-3, QLT-3)."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from drawbar.config import load_servers
from drawbar.contracts.errors import InvalidInput
from drawbar.tools.mcp.names import tool_name
from drawbar.tools.mcp.settings import ServerSettings, parse_servers

FULL = b"""
[servers.files]
command = "npx"
args = ["-y", "thing"]
env = { TOKEN = { env = "MY_TOKEN" }, MODE = "plain" }
cwd = "~/work"
timeout_s = 5
tools = ["read"]

[servers.far]
url = "https://example.org/mcp"
headers = { Authorization = { file = "~/.token" } }
enabled = false
"""


@pytest.mark.clause("PRO-3")
def test_a_whole_file_is_read() -> None:
    files, far = parse_servers(FULL, where="f")
    assert (files.name, files.argv, files.transport) == ("files", ("npx", "-y", "thing"), "stdio")
    assert (files.timeout_s, files.tools, files.enabled) == (5.0, ("read",), True)
    assert files.cwd == Path("~/work").expanduser()
    assert (far.transport, far.url, far.enabled) == ("http", "https://example.org/mcp", False)
    learned: list[str] = []
    values = files.values({"MY_TOKEN": "s3cret"}, lambda value, _kind: learned.append(value))
    assert values == {"TOKEN": "s3cret", "MODE": "plain"}
    assert learned == ["s3cret"]
    with pytest.raises(InvalidInput, match="files: TOKEN: the variable MY_TOKEN holds no credential"):
        files.values({}, lambda *_: None)


@pytest.mark.clause("PRO-3")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "unknown key 'x'"),
        ("servers = 1", "must be a table"),
        ("[servers.a]", "server 'a': give either command"),
        ('[servers.a]\ncommand = "x"\nurl = "http://y"', "give either"),
        ('[servers.a]\ncommand = "x"\nheaders = {}', "unknown key 'headers'"),
        ('[servers.a]\ncommand = "x"\ntypo = 1', "unknown key 'typo'"),
        ('[servers.a__b]\ncommand = "x"', "single _"),
        ('[servers."a b"]\ncommand = "x"', "server 'a b'"),
        ('[servers.a]\ncommand = ""', "command must be a non-empty"),
        ('[servers.a]\ncommand = "x"\nargs = "y"', "args must be a list"),
        ('[servers.a]\ncommand = "x"\nenv = { "A B" = "x" }', "'A B' is no name"),
        ('[servers.a]\ncommand = "x"\nenv = { A = { vault = "x" } }', "env.A must be a text, or one of"),
        ('[servers.a]\ncommand = "x"\ncwd = "here"', "cwd must be an absolute path"),
        ('[servers.a]\ncommand = "x"\ntimeout_s = 0', "timeout_s must be seconds"),
        ('[servers.a]\ncommand = "x"\ntimeout_s = true', "timeout_s must be seconds"),
        ('[servers.a]\ncommand = "x"\nenabled = 1', "enabled must be true or false"),
        ('[servers.a]\nurl = "file:///etc"', "url must be an address"),
        ('[servers.a]\nurl = "https://me:pw@host/"', "url holds a password"),
        ('[servers.a]\nurl = "https://h"\nheaders = { authorization = "Bearer x" }', "doesn't belong here"),
        ("[servers.a", "not valid TOML"),
    ],
)
def test_what_is_wrong_is_named_with_file_server_and_key(text: str, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_servers(text.encode(), where="the-file")
    assert "the-file" in caught.value.message
    assert said in caught.value.message


@pytest.mark.clause("PRO-3")
def test_names_are_clean_unique_and_short() -> None:
    assert tool_name("files", "read_file") == "mcp__files__read_file"
    odd = ["a b", "a.b", "a/b", "\x1b[31m", "", "x" * 500, "x" * 501, "a_b", "日本"]
    names = [tool_name("files", name) for name in odd]
    assert len(set(names)) == len(odd)
    assert all(
        len(name) <= 64 and name.isascii() and name.replace("_", "").replace("-", "").isalnum() for name in names
    )
    assert len(tool_name("s" * 24, "x" * 99)) == 64


def _trust(data: Path, path: Path) -> None:
    data.mkdir(exist_ok=True)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    (data / "trust.json").write_text(json.dumps({"files": {str(path): digest}}))


@pytest.mark.clause("QLT-3", "PRO-3")
def test_a_projects_servers_count_only_while_that_content_is_trusted(tmp_path: Path) -> None:
    config, data, root = tmp_path / "config", tmp_path / "data", tmp_path / "repo"
    config.mkdir()
    (root / ".drawbar").mkdir(parents=True)
    project = root / ".drawbar" / "mcp.toml"
    project.write_text('[servers.evil]\ncommand = "evil"\n[servers.mine]\ncommand = "evil"\n')
    (config / "mcp.toml").write_text('[servers.mine]\ncommand = "mine"\n')
    servers, notices = load_servers(config, data, root)
    assert [one.name for one in servers] == ["mine"]
    assert "isn't trusted" in notices[0]
    _trust(data, project)
    servers, notices = load_servers(config, data, root)
    assert [(one.name, one.argv) for one in servers] == [("mine", ("mine",)), ("evil", ("evil",))]
    assert "the server mine is left out" in notices[0]
    project.write_text(project.read_text() + "\n")
    assert [one.name for one in load_servers(config, data, root)[0]] == ["mine"]


@pytest.mark.clause("PRO-3", "QLT-3")
def test_an_untrusted_file_is_not_even_read_for_faults_and_a_file_that_others_write_is_refused(tmp_path: Path) -> None:
    config, root = tmp_path / "config", tmp_path / "repo"
    config.mkdir()
    (root / ".drawbar").mkdir(parents=True)
    (root / ".drawbar" / "mcp.toml").write_text("][")
    assert load_servers(config, tmp_path, root)[0] == []
    assert load_servers(config, tmp_path, None) == ([], [])
    mine = config / "mcp.toml"
    mine.write_text("")
    mine.chmod(0o666)
    with pytest.raises(InvalidInput, match="can be written by others"):
        load_servers(config, tmp_path, None)


@pytest.mark.clause("PRO-3", "SES-18")
def test_a_changed_program_is_another_server() -> None:
    one = ServerSettings("a", "f", ("x", "y"))
    assert one.digest() == ServerSettings("a", "elsewhere", ("x", "y"), timeout_s=1.0).digest()
    assert one.digest() != ServerSettings("a", "f", ("x", "z")).digest()
    assert one.digest() != ServerSettings("a", "f", ("x", "y"), env=(("A", "1"),)).digest()
