"""Settings: precedence, errors that name file and key, and projects that may only narrow."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from drawbar.config import Settings, load_settings
from drawbar.contracts.errors import AccountUnavailable, InvalidInput
from drawbar.stores.accounts import Accounts
from drawbar.stores.redaction import SecretRedactor


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path, Path]:
    config, data, root = (tmp_path / name for name in ("config", "data", "project"))
    for folder in (config, data, root / ".drawbar"):
        folder.mkdir(parents=True)
    return config, data, root


def project_file(root: Path, text: str) -> Path:
    path = root / ".drawbar" / "config.toml"
    path.write_text(text)
    return path


@pytest.mark.clause("CON-36")
def test_nothing_there_is_all_defaults(tmp_path: Path) -> None:
    settings = load_settings(tmp_path, tmp_path, tmp_path)
    assert settings.approval is None
    assert settings.sandbox is None


@pytest.mark.clause("CON-36", "QLT-3")
def test_an_untrusted_project_may_only_narrow_and_says_what_it_ignored(places: tuple[Path, Path, Path]) -> None:
    config, data, root = places
    (config / "config.toml").write_text('model = "mine"\ndeny_read = ["*.pem"]\n')
    project_file(root, 'model = "theirs"\nsandbox = "off"\napproval = "read-only"\ndeny_read = ["secrets/"]\n')
    settings = load_settings(config, data, root)
    assert settings.model == "mine"
    assert settings.sandbox is None
    assert settings.project_approval == "read-only"
    assert settings.deny_read == ("*.pem", "secrets/")
    assert "model, sandbox" in settings.notices[0]


@pytest.mark.clause("CON-36", "QLT-3")
def test_trust_is_for_exactly_one_content(places: tuple[Path, Path, Path]) -> None:
    config, data, root = places
    path = project_file(root, 'model = "theirs"\n')
    trust = {"files": {str(path): hashlib.sha256(path.read_bytes()).hexdigest()}}
    (data / "trust.json").write_text(json.dumps(trust))
    assert load_settings(config, data, root).model == "theirs"
    project_file(root, 'model = "changed"\n')
    assert load_settings(config, data, root).model is None
    for damage in ("", "{", "[]", '{"files": 3}', '{"files": null}'):
        (data / "trust.json").write_text(damage)
        project_file(root, 'model = "theirs"\n')
        assert load_settings(config, data, root).model is None


@pytest.mark.clause("CON-36")
@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("approval = 'sometimes'", "approval must be one of"),
        ("sandbox = true", 'sandbox must be "on" or "off"'),
        ("colour = 'blue'", "unknown setting 'colour'"),
        ("deny_read = 'x'", "deny_read must be a list"),
        ("model = 3", "model must be a non-empty string"),
        ("= broken", "not valid TOML"),
        ("x = " + "[" * 100_000, "not valid TOML"),
    ],
)
@pytest.mark.parametrize("place", ["user", "project"])
def test_a_wrong_file_is_named_with_its_key(places: tuple[Path, Path, Path], text: str, names: str, place: str) -> None:
    config, data, root = places
    path = config / "config.toml" if place == "user" else root / ".drawbar" / "config.toml"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=names) as caught:
        load_settings(config, data, root)
    assert str(path) in caught.value.message


@pytest.mark.clause("CLI-1", "RUN-4")
def test_no_key_says_what_to_do_and_names_a_key_that_cannot_be_used_yet() -> None:
    with pytest.raises(AccountUnavailable, match=r"ANTHROPIC_API_KEY.*drawbar demo"):
        Accounts({}, SecretRedactor()).resolve(None)
    assert Accounts({"OPENAI_API_KEY": "sk-x"}, SecretRedactor()).resolve(None).id == "openai"
    with pytest.raises(AccountUnavailable, match="no account is called 'work'"):
        Accounts({"ANTHROPIC_API_KEY": "k"}, SecretRedactor()).resolve("work")


@pytest.mark.clause("CON-31", "QLT-20")
def test_a_credential_is_known_to_the_redactor_and_shown_nowhere() -> None:
    redactor = SecretRedactor()
    accounts = Accounts({"ANTHROPIC_API_KEY": "plain-looking-but-secret-7731"}, redactor)
    assert "7731" not in redactor.text("key is plain-looking-but-secret-7731.")
    assert "7731" not in repr(accounts.resolve(None))


def hosts(tmp_path: Path, user: str, project: str | None = None, *, trusted: bool = False) -> Settings:
    config, data, root = tmp_path / "config", tmp_path / "data", tmp_path / "root"
    for folder in (config, data, root / ".drawbar"):
        folder.mkdir(parents=True, exist_ok=True)
    (config / "config.toml").write_text(user)
    if project is not None:
        file = root / ".drawbar" / "config.toml"
        file.write_text(project)
        if trusted:
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            (data / "trust.json").write_text(json.dumps({"files": {str(file): digest}}))
    return load_settings(config, data, root)


@pytest.mark.clause("BND-13", "CON-36")
class TestNetwork:
    USER = 'network = ["example.com", "packages.test:443"]'

    def test_an_untrusted_project_keeps_only_hosts_that_the_user_lists_too(self, tmp_path: Path) -> None:
        settings = hosts(tmp_path, self.USER, 'network = ["api.example.com", "evil.test", "*.example.com:443"]')
        assert settings.network == ("api.example.com", "*.example.com:443")
        assert "network" in settings.notices[0]

    def test_an_untrusted_project_that_only_narrows_is_heeded_in_silence(self, tmp_path: Path) -> None:
        settings = hosts(tmp_path, self.USER, 'network = ["packages.test:443"]')
        assert settings.network == ("packages.test:443",)
        assert settings.notices == ()
        assert hosts(tmp_path, self.USER, "network = []").network == ()

    def test_an_untrusted_project_opens_nothing_where_the_user_listed_nothing(self, tmp_path: Path) -> None:
        assert hosts(tmp_path, "", 'network = ["example.com"]').network == ()

    def test_a_trusted_project_lists_its_own(self, tmp_path: Path) -> None:
        assert hosts(tmp_path, self.USER, 'network = ["crates.io"]', trusted=True).network == ("crates.io",)
        assert hosts(tmp_path, self.USER, 'model = "m"', trusted=True).network == ("example.com", "packages.test:443")

    @pytest.mark.parametrize(
        "entry", ["*", "*.com", "https://a.test", "169.254.169.254", "0x7f.1", "a b", "a@b", "a.test:0"]
    )
    def test_an_entry_that_can_not_be_one_is_named_with_its_file(self, tmp_path: Path, entry: str) -> None:
        with pytest.raises(InvalidInput, match=r"config\.toml: network: ") as caught:
            hosts(tmp_path, f'network = ["{entry}"]')
        assert caught.value.facts["field"] == "network"
        with pytest.raises(InvalidInput, match=r"\.drawbar/config\.toml: network: "):
            hosts(tmp_path, "", f'network = ["example.com", "{entry}"]')
