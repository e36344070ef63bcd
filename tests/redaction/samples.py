"""Secrets to plant: one of each format, made up when asked for, so that no file here looks like it holds one."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable

__all__ = ["FORMATS", "jwt", "key_block"]

MIXED = "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY"
LOWER = "a1b2c3d4e5f60718293a4b5c6d7e8f90"
UPPER = "AB2CD3EF4GH5IJ6KL7MN"


def _long(alphabet: str, size: int) -> str:
    return (alphabet * (size // len(alphabet) + 1))[:size]


def jwt(payload: str = "sub") -> str:
    """A signed token with a header that says its algorithm."""

    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part({payload: '1234567890'})}.{_long(MIXED, 43)}"


def key_block(sort: str = "RSA ", size: int = 600, end: str = "\n") -> str:
    """A private key in PEM form, not a real one."""
    body = _long(MIXED + "+/", size)
    lines = [body[at : at + 64] for at in range(0, size, 64)]
    return end.join([f"-----BEGIN {sort}PRIVATE KEY-----", *lines, f"-----END {sort}PRIVATE KEY-----"])


def _basic() -> str:
    return base64.b64encode(b"someone:hunter2hunter2").decode()


# kind -> texts, each (before, secret, after): only the secret goes.
FORMATS: dict[str, list[tuple[str, Callable[[], str], str]]] = {
    "anthropic-api-key": [("", lambda: "sk-ant-api03-" + _long(MIXED, 95), "")],
    "openai-api-key": [("", lambda: "sk-proj-" + _long(MIXED + "_-", 120), "")],
    "openrouter-api-key": [("", lambda: "sk-or-v1-" + _long(LOWER, 64), "")],
    "litellm-api-key": [("", lambda: "sk-lf-" + _long(LOWER, 36), "")],
    "provider-api-key": [("", lambda: "sk-" + _long(MIXED, 48), "")],
    "google-api-key": [("", lambda: "AIza" + _long(MIXED + "_-", 35), "")],
    "xai-api-key": [("", lambda: "xai-" + _long(MIXED, 80), "")],
    "groq-api-key": [("", lambda: "gsk_" + _long(MIXED, 52), "")],
    "huggingface-token": [("", lambda: "hf_" + _long(MIXED, 34), "")],
    "replicate-token": [("", lambda: "r8_" + _long(MIXED, 37), "")],
    "perplexity-api-key": [("", lambda: "pplx-" + _long(MIXED, 48), "")],
    "fireworks-api-key": [("", lambda: "fw_" + _long(MIXED, 24), "")],
    "cerebras-api-key": [("", lambda: "csk-" + _long(LOWER, 48), "")],
    "together-api-key": [("", lambda: "tgp_v1_" + _long(MIXED, 43), "")],
    "nvidia-api-key": [("", lambda: "nvapi-" + _long(MIXED, 64), "")],
    "langsmith-api-key": [("", lambda: "lsv2_pt_" + _long(LOWER, 32) + "_1a2b3c4d5e", "")],
    "tavily-api-key": [("", lambda: "tvly-dev-" + _long(MIXED, 32), "")],
    "aws-access-key-id": [("", lambda: "AKIA" + UPPER[:16], ""), ("", lambda: "ASIA" + UPPER[:16], "")],
    "aws-bedrock-api-key": [("", lambda: "ABSK" + _long(MIXED, 128), "")],
    "aws-secret-access-key": [
        ("aws_secret_access_key = ", lambda: _long(MIXED + "/+", 40), "\n"),
        ("AWS_SECRET_ACCESS_KEY=", lambda: _long(MIXED + "/+", 40), "\n"),
        ('{"SecretAccessKey": "', lambda: _long(MIXED + "/+", 40), '"}'),
    ],
    "aws-session-token": [("aws_session_token = ", lambda: _long(MIXED + "/+", 300), "\n")],
    "google-oauth-token": [("", lambda: "ya29." + _long(MIXED + "_-", 120), "")],
    "google-oauth-refresh-token": [("", lambda: "1//0" + _long(MIXED + "_-", 60), "")],
    "google-oauth-client-secret": [("", lambda: "GOCSPX-" + _long(MIXED, 28), "")],
    "azure-storage-key": [("AccountName=x;", lambda: "AccountKey=" + _long(MIXED + "+/", 86) + "==", ";x")],
    "azure-shared-access-key": [("", lambda: "SharedAccessKey=" + _long(MIXED + "+/", 43) + "=", ";x")],
    "azure-shared-access-signature": [("https://x.example/y", lambda: "?sig=" + _long(MIXED, 43) + "%3D", "&z=1")],
    "azure-client-secret": [("abc", lambda: "8Q~" + _long(MIXED, 34), "")],
    "digitalocean-token": [("", lambda: "dop_v1_" + _long(LOWER, 64), "")],
    "flyio-token": [("FlyV1 ", lambda: "fm2_" + _long(MIXED + "+/", 120), "")],
    "heroku-api-key": [("", lambda: "HRKU-" + _long(MIXED, 60), "")],
    "netlify-token": [("", lambda: "nfp_" + _long(MIXED, 36), "")],
    "databricks-token": [("", lambda: "dapi" + _long(LOWER, 32), "")],
    "planetscale-token": [("", lambda: "pscale_tkn_" + _long(MIXED, 43), "")],
    "supabase-token": [("", lambda: "sbp_" + _long(LOWER, 40), "")],
    "tailscale-key": [("", lambda: "tskey-auth-" + _long(MIXED, 30), "")],
    "doppler-token": [("", lambda: "dp.pt." + _long(MIXED, 43), "")],
    "vault-token": [("", lambda: "hvs." + _long(MIXED, 90), "")],
    "terraform-cloud-token": [(MIXED[:14] + ".", lambda: "atlasv1." + _long(MIXED, 67), "")],
    "pulumi-token": [("", lambda: "pul-" + _long(LOWER, 40), "")],
    "github-token": [("", lambda p=p: p + _long(MIXED, 36), "") for p in ("ghp_", "gho_", "ghu_", "ghr_")],
    "github-app-token": [("", lambda: "ghs_" + _long(MIXED, 36), ""), ("", lambda: "ghs_1_" + jwt(), "")],
    "github-fine-grained-token": [("", lambda: "github_pat_" + _long(MIXED, 22) + "_" + _long(MIXED, 59), "")],
    "gitlab-token": [("", lambda: "glpat-" + _long(MIXED, 20), ""), ("", lambda: "glrt-" + _long(MIXED, 20), "")],
    "bitbucket-token": [("", lambda: "ATBB" + _long(MIXED, 32), "")],
    "atlassian-api-token": [("", lambda: "ATATT3" + _long(MIXED, 180) + "=1A2B3C4D", "")],
    "npm-token": [("", lambda: "npm_" + _long(MIXED, 36), "")],
    "npm-auth-token": [("//registry.example/:_authToken=", lambda: _long(LOWER, 36), "\n")],
    "pypi-token": [("", lambda: "pypi-AgEIcHlwaS5vcmc" + _long(MIXED, 120), "")],
    "rubygems-key": [("", lambda: "rubygems_" + _long(LOWER, 48), "")],
    "nuget-key": [("", lambda: "oy2" + _long(LOWER, 43), "")],
    "docker-token": [("", lambda: "dckr_pat_" + _long(MIXED, 27), "")],
    "sentry-token": [("", lambda: "sntryu_" + _long(LOWER, 64), "")],
    "grafana-token": [("", lambda: "glsa_" + _long(MIXED, 32) + "_1a2b3c4d", "")],
    "new-relic-key": [("", lambda: "NRAK-" + _long(UPPER, 27), "")],
    "postman-key": [("", lambda: "PMAK-" + _long(LOWER, 24) + "-" + _long(LOWER, 34), "")],
    "linear-api-key": [("", lambda: "lin_api_" + _long(MIXED, 40), "")],
    "notion-token": [("", lambda: "ntn_" + _long(MIXED, 46), "")],
    "figma-token": [("", lambda: "figd_" + _long(MIXED, 40), "")],
    "one-password-token": [("", lambda: "ops_eyJ" + _long(MIXED, 400), "")],
    "slack-token": [("", lambda: "xoxb-" + _long("1234567890", 12) + "-" + _long(MIXED, 24), "")],
    "slack-webhook": [("https://", lambda: "hooks.slack.com/services/" + UPPER[:9] + "/" + MIXED, " ok")],
    "discord-webhook": [("https://", lambda: "discord.com/api/webhooks/1234567890/" + _long(MIXED, 68), " ok")],
    "telegram-bot-token": [("bot 1234567890", lambda: ":AA" + _long(MIXED, 33), "")],
    "stripe-key": [("", lambda: "sk_live_" + _long(MIXED, 24), ""), ("", lambda: "rk_test_" + _long(MIXED, 24), "")],
    "stripe-webhook-secret": [("", lambda: "whsec_" + _long(MIXED, 32), "")],
    "square-token": [("", lambda: "sq0atp-" + _long(MIXED, 22), "")],
    "shopify-token": [("", lambda: "shpat_" + _long(LOWER, 32), "")],
    "sendgrid-key": [("", lambda: "SG." + _long(MIXED, 22) + "." + _long(MIXED, 43), "")],
    "age-secret-key": [("", lambda: "AGE-SECRET-KEY-1" + _long(UPPER, 58), "")],
    "jwt": [("", jwt, "")],
    "authorization-header": [
        ("Authorization: Bearer ", lambda: MIXED, "\r\n"),
        ("curl -H 'authorization: token ", lambda: LOWER[:12], "'"),
        ("Authorization: Basic ", _basic, "\n"),
        ('{"Proxy-Authorization": "Bearer ', lambda: LOWER, '"}'),
    ],
    "api-key-header": [("x-api-key: ", lambda: LOWER, "\n"), ('"X-Api-Key": "', lambda: LOWER, '"')],
    "assigned-secret": [
        ("export ACME_API_KEY=", lambda: MIXED[:24], "\n"),
        ('SECRET_KEY = "', lambda: MIXED, '"\n'),
        ('{"access_token":"', lambda: MIXED, '","expires_in":3600}'),
        ("client_secret: '", lambda: LOWER, "'\n"),
    ],
    "url-password": [
        ("postgres://app:", lambda: "s3cr3t-pw", "@db.example:5432/x"),
        ("redis://:", lambda: "s3cr3t@pw", "@[::1]:6379"),
        ("https://user:", lambda: "p%40ss", "@host.example/path"),
    ],
    "connection-string-password": [
        ("Server=tcp:x;User ID=u;Password=", lambda: "Pa55-word!", ";Encrypt=True"),
        ("jdbc:mysql://h/db?user=u&password=", lambda: "Pa55-word", "&ssl=true"),
    ],
    "private-key": [
        ("a\n", key_block, "\nb"),
        ("", lambda: key_block("OPENSSH "), "\n"),
        ("", lambda: key_block("PGP ").replace("KEY-----", "KEY BLOCK-----"), ""),
        ('"private_key": "', lambda: key_block("", end="\\n"), '\\n"'),
        ("", lambda: key_block("EC ", size=90, end="\r\n"), ""),
        ("", lambda: "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\n" + MIXED + "\nPrivate-MAC:", " 00"),
    ],
}
