"""Where credentials are kept: data for the native tools and for the sandbox's mounts alike (BND-17)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

__all__ = [
    "HOME_CREDENTIALS",
    "SYSTEM_CREDENTIALS",
    "credential_paths",
    "passwd_homes",
    "system_credential_paths",
]

HOME_CREDENTIALS: Final[tuple[str, ...]] = (
    # keys and tokens of the shell, version control and package registries
    ".ssh",
    ".gnupg",
    ".netrc",
    "_netrc",
    ".authinfo",
    ".authinfo.gpg",
    ".git-credentials",
    ".git-credential-cache",
    ".cache/git/credential",
    ".config/git/credentials",
    ".config/gh",
    ".config/hub",
    ".config/glab-cli",
    ".config/tea",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".config/pnpm/rc",
    ".pypirc",
    ".config/pypoetry/auth.toml",
    ".local/share/uv/credentials",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".bundle/config",
    ".composer/auth.json",
    ".config/composer/auth.json",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".gradle/gradle.properties",
    ".nuget/NuGet/NuGet.Config",
    ".config/NuGet/NuGet.Config",
    ".hex/hex.config",
    ".cabal/config",
    ".pub-cache/credentials.json",
    ".config/dart/pub-credentials.json",
    ".condarc",
    # clouds, clusters and infrastructure
    ".aws",
    ".azure",
    ".config/gcloud",
    ".config/doctl",
    ".config/hcloud",
    ".config/scw",
    ".config/linode-cli",
    ".oci",
    ".bluemix",
    ".aliyun",
    ".kube",
    ".docker/config.json",
    ".docker/contexts",
    ".config/containers/auth.json",
    ".config/helm/registry",
    ".config/helm/repositories.yaml",
    ".terraformrc",
    ".terraform.d/credentials.tfrc.json",
    ".pulumi/credentials.json",
    ".vault-token",
    ".config/op",
    ".config/heroku",
    ".fly",
    ".config/netlify",
    ".config/.wrangler",
    ".wrangler",
    ".vercel",
    ".local/share/com.vercel.cli",
    ".config/stripe",
    ".databrickscfg",
    ".snowflake",
    ".snowsql/config",
    ".dbt/profiles.yml",
    ".kaggle",
    ".huggingface/token",
    ".cache/huggingface/token",
    ".config/rclone",
    ".s3cfg",
    ".boto",
    ".ngrok2",
    ".config/ngrok",
    ".cloudflared",
    ".sentryclirc",
    # databases
    ".pgpass",
    ".my.cnf",
    ".mylogin.cnf",
    ".mongorc.js",
    ".dbshell",
    # password managers, key rings, wallets
    ".password-store",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".local/share/pass",
    ".config/keepassxc",
    ".config/Bitwarden",
    ".config/Bitwarden CLI",
    ".config/1Password",
    ".config/sops/age",
    ".config/age",
    ".age",
    ".electrum",
    ".bitcoin",
    ".ethereum",
    ".config/solana",
    # browsers and mail
    ".mozilla",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/microsoft-edge",
    ".config/vivaldi",
    ".config/opera",
    ".thunderbird",
    ".msmtprc",
    ".mbsyncrc",
    ".fetchmailrc",
    # other agents' logins
    ".claude/.credentials.json",
    ".claude.json",
    ".codex/auth.json",
    ".pi/agent/auth.json",
    ".gemini/oauth_creds.json",
    ".local/share/opencode/auth.json",
    ".config/github-copilot",
    ".config/goose",
    ".aider.conf.yml",
    ".continue/config.json",
    # what was typed may hold what was pasted
    ".bash_history",
    ".zsh_history",
    ".local/share/fish/fish_history",
    ".python_history",
    ".node_repl_history",
    ".psql_history",
    ".mysql_history",
    ".sqlite_history",
    ".rediscli_history",
    ".Xauthority",
    ".ICEauthority",
)
"""Credential stores below a home folder: files and whole folders, relative to it (BND-17)."""

SYSTEM_CREDENTIALS: Final[tuple[str, ...]] = (
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/ssl/private",
    "/etc/krb5.keytab",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/NetworkManager/system-connections",
    "/etc/wireguard",
    "/etc/openvpn",
    "/etc/letsencrypt",
    "/etc/kubernetes",
    "/etc/rancher",
    "/run/secrets",
    "/run/credentials",
    "/var/run/secrets",
    "/var/lib/kubelet",
)
"""The machine's own credential stores, absolute."""

_SYSTEM_FOLDERS: Final = frozenset({"", "bin", "dev", "etc", "proc", "run", "sbin", "sys", "usr"})


def credential_paths(home: Path) -> tuple[Path, ...]:
    """The credential stores of one home folder, whether or not they exist (BND-17)."""
    return tuple(home / relative for relative in HOME_CREDENTIALS)


def system_credential_paths() -> tuple[Path, ...]:
    """The machine's own credential stores, whether or not they exist."""
    return tuple(Path(path) for path in SYSTEM_CREDENTIALS)


def passwd_homes() -> tuple[Path, ...]:
    """Every home folder of the user database that exists, and ``$HOME``; system folders are no homes."""
    import pwd

    named = [entry.pw_dir for entry in pwd.getpwall()]
    named.append(os.path.expanduser("~"))
    homes = {os.path.realpath(path) for path in named if path.startswith("/") and os.path.isdir(path)}
    ordinary = (path for path in homes if path.split("/")[1] not in _SYSTEM_FOLDERS)
    return tuple(Path(path) for path in sorted(ordinary))
