"""Secret values of an environment are known; values that ordinary text may hold are not (CON-31, SEC-05)."""

from __future__ import annotations

import json

import pytest
from tests.redaction.samples import key_block

from drawbar.stores.redaction import SecretRedactor, known_from_environment

SECRET = "zq7Not4Real0001abcd"


@pytest.mark.clause("CON-31")
@pytest.mark.parametrize(
    "name",
    [
        "ANTHROPIC_API_KEY", "ACME_TOKEN", "DB_PASSWORD", "PGPASSWORD", "MYSQL_PWD", "SMTP_PASS", "CLIENT_SECRET",
        "GOOGLE_CREDENTIALS", "APIKEY", "npm_config__authToken", "GITHUB_PAT", "SIGNING_SECRET_2", "SENTRY_DSN",
        "DEPLOY_KEYS", "basic-auth", "SESSION_COOKIE", "KEY_PASSPHRASE", "token",
    ],
)  # fmt: skip
def test_secret_named_values_are_known(name: str) -> None:
    known = known_from_environment({name: SECRET, "LANG": "C"})
    assert known == [(SECRET, f"env-{name}")]
    assert "env-" in SecretRedactor(known).text(f"{name}={SECRET}")


@pytest.mark.clause("CON-31")
@pytest.mark.bug("SEC-05")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ACME_TOKEN", "dev"),
        ("EMPTY_TOKEN", ""),
        ("POSTGRES_PASSWORD", "postgres"),
        ("DB_PASSWORD", "developer"),
        ("APP_SECRET", "my-app-secret"),
        ("TOKENIZERS_TOKEN", "false"),
        ("ACCESS_TOKEN", "0123456789"),
        ("MAX_TOKEN_COUNT", "12345678901a"),
        ("SSH_AUTH_SOCK", "/tmp/ssh-XXXX1234/agent.1"),
        ("SSH_KEY", "~/.ssh/id_ed25519"),
        ("SIGNING_KEY", "C:\\keys\\signing1.pem"),
        ("AUTH", "https://login.example.com/oauth2/v2.0"),
        ("PWD", "/home/someone/project1"),
        ("AWS_ACCESS_KEY_ID", "not1a2secret3"),
        ("SSH_PUBLIC_KEY", "AAAAC3NzaC1lZDI1NTE5AAAA"),
        ("GIT_AUTHOR_NAME", "Some One 1234"),
        ("KEYBOARD_LAYOUT", "us-intl-2024x"),
        ("EDITOR", SECRET),
        ("MONKEYS_NAME", SECRET),
    ],
)
def test_other_values_are_not(name: str, value: str) -> None:
    assert known_from_environment({name: value}) == []


@pytest.mark.clause("CON-31")
@pytest.mark.bug("SEC-01")
def test_the_password_in_an_address_is_known_whatever_the_name() -> None:
    known = known_from_environment(
        {"DATABASE_URL": "postgres://app:hunter%32pw@db.example/x", "PROXY": "http://h:80/a@b"}
    )
    assert known == [("hunter%32pw", "env-DATABASE_URL"), ("hunter2pw", "env-DATABASE_URL")]
    shown = SecretRedactor(known).text("connecting as app with hunter2pw to db.example")
    assert shown == "connecting as app with [redacted:env-database-url] to db.example"


@pytest.mark.clause("CON-31")
def test_secrets_inside_a_json_value_are_known_each_by_itself() -> None:
    key = key_block("")
    account = {
        "type": "service_account",
        "project_id": "some-project-1",
        "private_key": key,
        "nested": {"token": SECRET},
    }
    known = dict(known_from_environment({"GOOGLE_ACCOUNT": json.dumps(account)}))
    assert set(known) == {key, SECRET}
    # In an object that the variable itself calls a secret, the whole is one more.
    assert len(known_from_environment({"GOOGLE_CREDENTIALS": json.dumps(account)})) == 3
    assert known_from_environment({"X": "{not json", "Y": "{}", "Z": '{"a": [1]}'}) == []


@pytest.mark.clause("CON-31")
def test_one_value_under_two_names_has_one_kind() -> None:
    assert known_from_environment({"A_TOKEN": SECRET, "B_TOKEN": f" {SECRET}\n"}) == [(SECRET, "env-A_TOKEN")]
