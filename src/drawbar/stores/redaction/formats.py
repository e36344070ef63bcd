"""The public formats of secrets: one row a kind (CON-31).

A row is here because its format shows by itself that it is a secret. Formats that are only likely
(any forty hex digits, any ``password = x``) are not: what an agent reads is redacted before the model sees it,
and hiding ordinary text would spoil its work.
"""

from __future__ import annotations

import re
from base64 import b64decode, urlsafe_b64decode
from collections.abc import Callable
from typing import Final

from drawbar.stores.redaction.rule import Rule

__all__ = ["RULES"]

_Check = Callable[[re.Match[str]], bool]

_ALNUM = "A-Za-z0-9"
_WORD = "A-Za-z0-9_"
_SLUG = "A-Za-z0-9_-"
_DOTTED = "A-Za-z0-9_.-"
_BASE64 = "A-Za-z0-9+/="
_TOKEN68 = "A-Za-z0-9._~+/=-"
_HEX = "0-9a-f"
_UPPER = "A-Z0-9"


def _token(kind: str, prefixes: str, chars: str, least: int, *, before: str = "") -> Rule:
    """A prefix and at least so many characters of one set."""
    # A full stop after a token ends the sentence, not the token.
    last = "" if "." not in chars else rf"(?<=[{chars.replace('.', '').replace('~', '')}])"
    return Rule(kind, tuple(prefixes.split()), f"[{chars}]{{{least},}}{last}", f"[{chars}]*", chars, before)


_NAME_END = r"[\"']?[ \t]{0,4}"
_IS = rf"{_NAME_END}[:=]>?[ \t]{{0,4}}[\"']?"


def _field(kind: str, names: str, secret: str, chars: str, *, check: _Check | None = None, is_: str = _IS) -> Rule:
    """The value of a field whose name ends with one of ``names``: in JSON, YAML, headers, code, assignments."""
    run = f"(?:{is_}[{chars}]*|{_NAME_END})"
    return Rule(kind, tuple(names.split()), f"{is_}(?P<secret>{secret})", run, chars, check=check, named=True)


def _decoded(text: str, decode: Callable[[bytes], bytes]) -> bytes:
    """As much of base64 ``text`` as is whole groups; nothing if it isn't base64."""
    try:
        return decode(text[: len(text) // 4 * 4].encode())
    except ValueError:
        return b""


def _is_user_and_password(match: re.Match[str]) -> bool:
    user, colon, _ = _decoded(match["secret"].rstrip("="), b64decode).partition(b":")
    return bool(colon) and user.isascii() and user.decode("ascii", "replace").isprintable()


def _is_token_header(match: re.Match[str]) -> bool:
    return b'"alg"' in _decoded("eyJ" + match["header"] + "AA", urlsafe_b64decode)


def _has_digit(match: re.Match[str]) -> bool:
    return any(c.isdigit() for c in match["secret"])


def _looks_random(match: re.Match[str]) -> bool:
    """A stretch without word breaks, long, of letters and digits: no name and no phrase."""
    return any(
        len(part) >= 12 and any(c.isdigit() for c in part) and any(c.isalpha() for c in part)
        for part in re.split(r"[-_.~]", match["secret"])
    )


_STOCK_PASSWORDS: Final = frozenset(
    {"admin", "changeme", "example", "guest", "minio", "mysql", "pass", "passwd", "password", "postgres", "postgresql"}
    | {"pw", "redis", "root", "secret", "test", "user", "username", "xxx", "xxxx", "xxxxx"}
)


def _is_real_password(match: re.Match[str]) -> bool:
    """No template, no default that everybody knows."""
    value, user = match["secret"].lower(), match.groupdict().get("user", "")
    return value not in _STOCK_PASSWORDS and value != user.lower() and not re.match(r"[$%{<*]|\.{3}|&lt;", value)


_KEY_LINE: Final = "(?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
_GAP: Final = r"[\s\\nrt\"'`+,|>#*0-9:.-]"
"""What stands between the lines of a key in listings, source code and escaped text."""
_KEY_BODY: Final = (
    # Key material comes next, maybe behind headers of the key file, string quotes or line numbers;
    rf"(?:(?:{_GAP}{{1,60}}[A-Za-z-]{{3,20}}: [^\r\n\\]{{0,100}}){{0,5}}{_GAP}{{1,120}}[A-Za-z0-9+/=]{{16}}"
    # or behind the file name that grep puts before each line;
    r"|[\s\\nr]{1,4}[^\s\\]{1,120}[:|\t -]{1,4}[0-9:|\t -]{0,8}[A-Za-z0-9+/]{40}"
    # or it is short and ends soon. The line alone, as source code may name it, is no secret.
    r"|(?=[^-]*[A-Za-z0-9]{4})[\s\\\"'`+,|>A-Za-z0-9/=:]{2,400}-----END )"
)

RULES: Final[tuple[Rule, ...]] = (
    # Model providers
    _token("anthropic-api-key", "sk-ant-", _SLUG, 20),
    _token("openai-api-key", "sk-proj- sk-svcacct- sk-admin- sk-None-", _SLUG, 20),
    _token("openrouter-api-key", "sk-or-v1-", _ALNUM, 32),
    _token("litellm-api-key", "sk-lf- sk-litellm-", _SLUG, 20),
    _token("provider-api-key", "sk-", _ALNUM, 32, before="word"),
    _token("google-api-key", "AIza", _SLUG, 35, before="word"),
    _token("xai-api-key", "xai-", _ALNUM, 40),
    _token("groq-api-key", "gsk_", _ALNUM, 40),
    _token("huggingface-token", "hf_ api_org_", _ALNUM, 30, before="word"),
    _token("replicate-token", "r8_", _ALNUM, 35, before="word"),
    _token("perplexity-api-key", "pplx-", _ALNUM, 40),
    _token("fireworks-api-key", "fw_", _ALNUM, 22, before="word"),
    _token("cerebras-api-key", "csk-", _ALNUM, 40),
    _token("together-api-key", "tgp_v1_", _SLUG, 30),
    _token("nvidia-api-key", "nvapi-", _SLUG, 40),
    _token("langsmith-api-key", "lsv2_pt_ lsv2_sk_", _WORD, 30),
    _token("tavily-api-key", "tvly-", _SLUG, 24),
    # Clouds
    _token("aws-access-key-id", "AKIA ASIA ABIA ACCA", _UPPER, 16, before="word"),
    _token("aws-bedrock-api-key", "ABSK bedrock-api-key-", _BASE64, 60, before="word"),
    _field(
        "aws-secret-access-key",
        "ecret_access_key ECRET_ACCESS_KEY ecretAccessKey",
        r"[A-Za-z0-9/+]{40,}",
        _BASE64,
    ),
    _field(
        "aws-session-token",
        "ession_token ESSION_TOKEN essionToken",
        r"[A-Za-z0-9/+=]{100,}",
        _BASE64,
    ),
    _token("google-oauth-token", "ya29.", _SLUG, 20),
    _token("google-oauth-refresh-token", "1//0", _SLUG, 30, before="word"),
    _token("google-oauth-client-secret", "GOCSPX-", _SLUG, 20),
    _token("azure-storage-key", "AccountKey=", _BASE64, 60),
    _token("azure-shared-access-key", "SharedAccessKey=", _BASE64, 40),
    _token("azure-shared-access-signature", "?sig= &sig= SharedAccessSignature=", "A-Za-z0-9%+/=", 40),
    _token("azure-client-secret", "8Q~", "A-Za-z0-9_.~-", 31, before=r"[A-Za-z0-9_.~-]{3}"),
    _token("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", _HEX, 40),
    _token("flyio-token", "fm1_ fm2_ fo1_", _BASE64 + "_-", 40),
    _token("heroku-api-key", "HRKU-", _SLUG, 30),
    _token("netlify-token", "nfp_", _ALNUM, 30, before="word"),
    _token("databricks-token", "dapi", _HEX, 32, before="word"),
    _token("planetscale-token", "pscale_tkn_ pscale_pw_ pscale_oauth_", _DOTTED, 30),
    _token("supabase-token", "sbp_ sb_secret_", _SLUG, 20, before="word"),
    _token("tailscale-key", "tskey-", _SLUG, 20),
    _token("doppler-token", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", _DOTTED, 40),
    _token("vault-token", "hvs. hvb. hvr.", _SLUG, 24, before="word"),
    _token("terraform-cloud-token", "atlasv1.", _SLUG, 60, before=r"[A-Za-z0-9]{14}\."),
    _token("pulumi-token", "pul-", _HEX, 40, before="word"),
    # Code hosts, registries, continuous integration
    _token("github-token", "ghp_ gho_ ghu_ ghr_", _ALNUM, 36),
    _token("github-app-token", "ghs_", _DOTTED, 36),
    _token("github-fine-grained-token", "github_pat_", _WORD, 60),
    _token("gitlab-token", "glpat- gldt- glrt- glrtr- glcbt- glptt- glft- glimt- glagent- glsoat- gloas-", _DOTTED, 20),
    _token("bitbucket-token", "ATBB ATCTT3", "=" + _SLUG, 28, before="word"),
    _token("atlassian-api-token", "ATATT3", "=" + _SLUG, 60, before="word"),
    _token("npm-token", "npm_", _ALNUM, 36),
    _field("npm-auth-token", "_authToken _auth", r"[A-Za-z0-9._~+/=-]{16,}", _TOKEN68, check=_has_digit),
    _token("pypi-token", "pypi-AgE", _SLUG, 50),
    _token("rubygems-key", "rubygems_", _HEX, 48),
    _token("nuget-key", "oy2", "a-z0-9", 43, before="word"),
    _token("docker-token", "dckr_pat_ dckr_oat_", _SLUG, 20),
    _token("sentry-token", "sntrys_ sntryu_", _BASE64 + "_-", 40),
    _token("grafana-token", "glsa_ glc_", _BASE64 + "_", 32, before="word"),
    _token("new-relic-key", "NRAK-", _UPPER, 27),
    _token("postman-key", "PMAK-", "0-9a-f-", 50),
    _token("linear-api-key", "lin_api_ lin_oauth_", _ALNUM, 32),
    _token("notion-token", "ntn_", _ALNUM, 40, before="word"),
    _token("figma-token", "figd_ figu_", _SLUG, 36),
    _token("one-password-token", "ops_eyJ", _SLUG, 100),
    # Messages and payments
    _token("slack-token", "xoxa- xoxb- xoxe- xoxp- xoxr- xoxs- xoxc- xoxd- xoxe.xoxp- xapp-", "A-Za-z0-9%-", 20),
    _token("slack-webhook", "hooks.slack.com/services/ hooks.slack.com/workflows/", _ALNUM + "/", 30),
    _token("discord-webhook", "discord.com/api/webhooks/ discordapp.com/api/webhooks/", "/" + _SLUG, 60),
    _token("telegram-bot-token", ":AA", _SLUG, 32, before="[0-9]{8}"),
    _token("stripe-key", "sk_live_ sk_test_ rk_live_ rk_test_", _ALNUM, 16),
    _token("stripe-webhook-secret", "whsec_", _BASE64, 24),
    _token("square-token", "sq0atp- sq0csp-", _SLUG, 22),
    _token("shopify-token", "shpat_ shpca_ shppa_ shpss_", "0-9a-fA-F", 32),
    Rule("sendgrid-key", ("SG.",), rf"[{_SLUG}]{{16,64}}\.[{_SLUG}]{{16,}}", f"[{_DOTTED}]*", _SLUG, before="word"),
    _token("age-secret-key", "AGE-SECRET-KEY-1", _UPPER, 40),
    # Signed tokens and headers
    Rule(
        "jwt",
        ("eyJ",),
        rf"(?P<header>[{_SLUG}]{{8,400}})\.[{_DOTTED}]{{10,}}(?<=[{_SLUG}])",
        f"[{_DOTTED}]*",
        _DOTTED,
        before="word",
        check=_is_token_header,
    ),
    Rule(
        "authorization-header",
        ("Bearer ", "bearer ", "BEARER "),
        r"[ \t]{0,3}(?P<secret>[A-Za-z0-9._~+/-]{16,}=*)",
        rf"[ \t]{{0,3}}[{_TOKEN68}]*",
        _TOKEN68,
        check=_has_digit,
    ),
    Rule(
        "authorization-header",
        ("Basic ",),
        rf"[ \t]{{0,3}}(?P<secret>[{_BASE64}]{{8,}})",
        rf"[ \t]{{0,3}}[{_BASE64}]*",
        _BASE64,
        check=_is_user_and_password,
    ),
    _field(
        "authorization-header",
        "uthorization UTHORIZATION",
        f"[{_TOKEN68}]{{8,}}",
        _TOKEN68,
        check=_has_digit,
        is_=f"{_IS}(?:[A-Za-z][A-Za-z-]{{1,15}}[ \\t]{{1,4}})?",
    ),
    _field(
        "api-key-header",
        "-api-key -Api-Key -API-Key -API-KEY -auth-token -Auth-Token -AUTH-TOKEN",
        rf"[{_TOKEN68}]{{16,}}",
        _TOKEN68,
        check=_has_digit,
    ),
    # Assignments, addresses, key files
    _field(
        "assigned-secret",
        "API_KEY APIKEY SECRET_KEY ACCESS_KEY PRIVATE_KEY _TOKEN _SECRET _PASSWORD _PASSWD _CREDENTIAL"
        " api_key apiKey secret_key secretKey client_secret clientSecret access_token accessToken refresh_token"
        " refreshToken",
        rf"[{_TOKEN68}]{{16,}}",
        _TOKEN68,
        check=_looks_random,
    ),
    Rule(
        "url-password",
        ("://",),
        r"(?P<user>[^\s/:@\"'<>\\`\[\]]{0,128}):(?P<secret>[^\s/\"'<>\\`\[\]]{1,256})@(?=[\w\[%.-])",
        r"[^\s/\"'<>\\`\[\]]*",
        before="[A-Za-z0-9]",
        check=_is_real_password,
    ),
    Rule(
        "connection-string-password",
        tuple(before + name + "=" for before in ";&?" for name in ("Password", "password", "PASSWORD", "Pwd", "pwd")),
        r"(?P<secret>[^\s;&\"'<>\\`\[\](){}]{4,256})",
        r"[^\s;&\"'<>\\`\[\](){}]*",
        check=_is_real_password,
    ),
    Rule(
        "private-key",
        ("-----BEGIN ",),
        _KEY_LINE + _KEY_BODY,
        rf"(?:{_KEY_LINE}[\s\S]*|[A-Z0-9 ]*-{{0,4}})",
        end="-----END " + _KEY_LINE,
    ),
    Rule(
        "private-key",
        ("PuTTY-User-Key-File-",),
        r"[0-9]: [\s\S]{20}",
        r"[0-9]?:? ?[\s\S]{0,20}",
        end="Private-MAC:",
    ),
)
