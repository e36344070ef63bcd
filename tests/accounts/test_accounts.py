"""Accounts: from a file, from the environment, with credentials that are fetched and never shown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbar.contracts.errors import AccountUnavailable, InvalidInput
from drawbar.stores.account_file import Budgets, read_account_file
from drawbar.stores.accounts import Accounts
from drawbar.stores.redaction import SecretRedactor

pytestmark = pytest.mark.clause("MDL-1")

SECRET = "plain-looking-but-secret-7731"


def file_with(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "accounts.toml"
    path.write_text(text)
    path.chmod(0o600)
    return path


def accounts(path: Path, **environ: str) -> Accounts:
    return Accounts(environ, SecretRedactor(), file=path)


@pytest.mark.clause("CON-31", "QLT-20")
@pytest.mark.parametrize("way", ["env", "file", "command"])
def test_a_credential_is_fetched_from_where_it_is_and_known_to_the_redactor(tmp_path: Path, way: str) -> None:
    key = tmp_path / "key"
    key.write_text(f"  {SECRET}\n")
    refs = {
        "env": '{ env = "WORK_KEY" }',
        "file": f'{{ file = "{key}" }}',
        "command": f'{{ command = ["/bin/cat", "{key}"] }}',
    }
    path = file_with(
        tmp_path,
        f'[accounts.work]\nprotocol = "openai-chat"\nbase_url = "http://127.0.0.1:1"\ncredential = {refs[way]}\n',
    )
    redactor = SecretRedactor()
    found = Accounts({"WORK_KEY": SECRET}, redactor, file=path).resolve("work")
    assert found.secret == SECRET
    assert SECRET not in repr(found)
    assert SECRET not in redactor.text(f"the key is {SECRET}.")


def test_listing_fetches_nothing(tmp_path: Path) -> None:
    told = tmp_path / "told"
    path = file_with(
        tmp_path, f'[accounts.a]\npreset = "openai"\ncredential = {{ command = ["/bin/touch", "{told}"] }}\n'
    )
    assert [account.id for account in accounts(path).list()] == ["a"]
    assert not told.exists()


@pytest.mark.parametrize(
    ("credential", "says"),
    [
        ('{ env = "NOT_SET" }', "the variable NOT_SET holds no credential"),
        ('{ file = "/nowhere/at/all" }', "/nowhere/at/all can't be read"),
        ('{ command = ["/bin/sh", "-c", "echo oops-secret >&2; exit 3"] }', "exit code 3"),
        ('{ command = ["/nowhere"] }', "can't be started"),
        ('{ keyring = "drawbar/work" }', "keyring"),
    ],
)
def test_a_credential_that_cannot_be_had_is_said_without_quoting_anything(
    tmp_path: Path, credential: str, says: str
) -> None:
    path = file_with(tmp_path, f'[accounts.a]\npreset = "openai"\ncredential = {credential}\n')
    with pytest.raises(AccountUnavailable) as caught:
        accounts(path).resolve("a")
    assert says in caught.value.message
    assert "oops-secret" not in caught.value.message


def test_the_file_goes_before_the_environment_and_its_default_before_its_order(tmp_path: Path) -> None:
    path = file_with(
        tmp_path,
        'default = "second"\n[accounts.first]\npreset = "ollama"\nmodel = "a"\n'
        '[accounts.second]\npreset = "llama-cpp"\n[accounts.anthropic]\npreset = "ollama"\n',
    )
    found = accounts(path, ANTHROPIC_API_KEY="k", OPENAI_API_KEY="o")
    assert [entry.id for entry in found.entries()] == ["first", "second", "anthropic", "openai"]
    assert found.resolve(None).id == "second"
    assert found.resolve("anthropic").base_url.startswith("http://127.0.0.1:11434")


@pytest.mark.clause("MDL-14")
@pytest.mark.parametrize("preset", ["ollama", "vllm", "llama-cpp"])
def test_a_server_of_ones_own_needs_no_key(tmp_path: Path, preset: str) -> None:
    found = accounts(file_with(tmp_path, f'[accounts.mine]\npreset = "{preset}"\nmodel = "m"\n')).resolve("mine")
    assert (found.protocol, found.secret) == ("openai-chat", "")
    assert "127.0.0.1" in found.base_url


@pytest.mark.clause("MDL-9")
def test_limits_are_read(tmp_path: Path) -> None:
    path = file_with(tmp_path, '[accounts.a]\npreset = "ollama"\nlimits = { day_usd = 2.5, run_tokens = 1000 }\n')
    assert accounts(path).entry("a").budgets == Budgets(day_usd=2.5, run_tokens=1000)
    assert not accounts(file_with(tmp_path, '[accounts.a]\npreset = "ollama"\n')).entry("a").budgets


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[accounts.a]\n", "protocol is missing"),
        ('[accounts.a]\nprotocol = "openai-chat"\n', "base_url is missing"),
        ('[accounts.a]\npreset = "moon"\n', "preset must be one of"),
        ('[accounts.a]\npreset = "ollama"\nkey = "sk-1"\n', "doesn't belong here"),
        ('[accounts.a]\npreset = "ollama"\nmodell = "x"\n', "unknown key 'modell'"),
        ('[accounts."a b"]\npreset = "ollama"\n', "a name is 1 to 64"),
        ('[accounts.a]\npreset = "ollama"\ncredential = "sk-1"\n', "credential is one of"),
        ('[accounts.a]\npreset = "ollama"\ncredential = { command = "pass x" }\n', "list of words"),
        ('[accounts.a]\npreset = "ollama"\ncredential = { env = "A", file = "b" }\n', "credential is one of"),
        ('[accounts.a]\npreset = "ollama"\nlimits = { day_usd = -1 }\n', "positive numbers"),
        ('[accounts.a]\npreset = "ollama"\nlimits = { run_tokens = 1.5 }\n', "positive numbers"),
        ('[accounts.a]\npreset = "ollama"\napproval = "yes"\n', "approval must be one of"),
        ('default = "b"\n[accounts.a]\npreset = "ollama"\n', "default names 'b'"),
        ("other = 1\n", "unknown key 'other'"),
        ("accounts = 3\n", "must be a table"),
        ("not toml", "not valid TOML"),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_account_file(file_with(tmp_path, text))
    assert says in caught.value.message
    assert "accounts.toml" in caught.value.message


def test_a_file_that_others_may_write_is_refused(tmp_path: Path) -> None:
    path = file_with(tmp_path, '[accounts.a]\npreset = "ollama"\n')
    path.chmod(0o666)
    with pytest.raises(InvalidInput, match="chmod 600"):
        read_account_file(path)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / f"accounts-{os.getpid()}.toml"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    path.chmod(0o600)
    try:
        read_account_file(path)
    except InvalidInput as error:
        assert str(path) in error.message  # noqa: PT017 - either end is right


@pytest.mark.clause("MDL-2")
@pytest.mark.parametrize(
    ("address", "protocol"),
    [
        ("", "openai-responses"),
        ("https://API.openai.com", "openai-responses"),
        ("https://eu.api.openai.com/v1", "openai-responses"),
        ("https://gateway.example/v1", "openai-chat"),
        ("https://api.openai.com.example/v1", "openai-chat"),
        ("http://[broken", "openai-chat"),
    ],
)
def test_openai_is_asked_in_its_own_protocol_and_a_gateway_in_the_one_that_all_speak(
    tmp_path: Path, address: str, protocol: str
) -> None:
    by_environment = accounts(tmp_path / "none.toml", OPENAI_API_KEY=SECRET, OPENAI_BASE_URL=address)
    assert by_environment.resolve("openai").protocol == protocol
    stated = f'base_url = "{address}"\n' if address else ""
    path = file_with(tmp_path, f'[accounts.a]\npreset = "openai"\n{stated}[accounts.b]\npreset = "openai"\n'
                               'base_url = "https://gateway.example"\nprotocol = "openai-responses"\n')  # fmt: skip
    assert [account.protocol for account in accounts(path).list()] == [protocol, "openai-responses"]


@pytest.mark.clause("CLI-4")
async def test_a_run_takes_an_account_of_the_file_and_doctor_names_a_wrong_one(tmp_path: Path) -> None:
    from tests.runs.kit import bench

    from drawbar.testing.scripted_model import say

    async with bench(tmp_path, [say("Done.")]) as b:
        path = b.data / "config" / "accounts.toml"
        path.write_text(f'[accounts.mine]\nprotocol = "openai-chat"\nbase_url = "{b.server.base_url}"\nmodel = "m"\n')
        path.chmod(0o600)
        record, _ = await b.run(account="mine")
        # The scripted server is as strict as the real one and wants a key, which this account doesn't have.
        assert (record.account, record.status) == ("mine", "failed")
        assert "auth" in (record.terminal_reason or "")
        path.write_text("[accounts.mine]\n")
        checks = {check.name: check for check in await b.harness.doctor()}
        assert not checks["accounts"].ok
        assert "protocol is missing" in checks["accounts"].message
