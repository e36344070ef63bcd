"""Providers that are known by name: where they are, what they speak, which variables hold a key (MDL-1, MDL-14)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

__all__ = ["PRESETS", "Preset"]


@dataclass(frozen=True, slots=True)
class Preset:
    """One provider.

    Args:
        protocol: the id of what it speaks (MDL-2).
        base_url: its address.
        keys: variables that may hold a key, the first that is set counts; none for a server of one's own.
        base_url_key, model_key: variables that name another address, and a model.
        model: the model that is taken when none is named; empty where one has to be.
        elsewhere: the id of what another address speaks: gateways that stand in for a provider often have only
            the older of its protocols; empty where it is the same.
    """

    protocol: str
    base_url: str
    keys: tuple[str, ...] = ()
    base_url_key: str = ""
    model_key: str = ""
    model: str = ""
    elsewhere: str = ""

    def protocol_at(self, base_url: str) -> str:
        """What is spoken at ``base_url``: the provider's own protocol on its own host and below it."""
        own, host = urlsplit(self.base_url).hostname or "", _host(base_url)
        return self.protocol if not self.elsewhere or host == own or host.endswith(f".{own}") else self.elsewhere

    @property
    def local(self) -> bool:
        """Whether it is a server of one's own that wants no key."""
        return not self.keys


def _host(base_url: str) -> str:
    try:
        return (urlsplit(base_url).hostname or "").lower()
    except ValueError:
        return ""  # whoever connects says what is wrong with it


def _hosted(name: str, protocol: str, base_url: str, *keys: str, model: str = "", elsewhere: str = "") -> Preset:
    return Preset(
        protocol=protocol,
        base_url=base_url,
        keys=keys or (f"{name}_API_KEY",),
        base_url_key=f"{name}_BASE_URL",
        model_key=f"{name}_MODEL",
        model=model,
        elsewhere=elsewhere,
    )


PRESETS: Final[dict[str, Preset]] = {
    "anthropic": _hosted("ANTHROPIC", "anthropic-messages", "https://api.anthropic.com", model="claude-sonnet-5"),
    "openai": _hosted(
        "OPENAI", "openai-responses", "https://api.openai.com/v1", model="gpt-5.2", elsewhere="openai-chat"
    ),
    "gemini": _hosted(
        "GEMINI",
        "gemini",
        "https://generativelanguage.googleapis.com",
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        model="gemini-3.6-flash",
    ),
    "openrouter": _hosted("OPENROUTER", "openai-chat", "https://openrouter.ai/api/v1"),
    "deepseek": _hosted("DEEPSEEK", "openai-chat", "https://api.deepseek.com/v1"),
    "groq": _hosted("GROQ", "openai-chat", "https://api.groq.com/openai/v1"),
    "mistral": _hosted("MISTRAL", "openai-chat", "https://api.mistral.ai/v1"),
    "xai": _hosted("XAI", "openai-chat", "https://api.x.ai/v1"),
    "ollama": Preset("openai-chat", "http://127.0.0.1:11434/v1"),
    "vllm": Preset("openai-chat", "http://127.0.0.1:8000/v1"),
    "llama-cpp": Preset("openai-chat", "http://127.0.0.1:8080/v1"),
}
"""In the order in which they are offered: the first with a key is taken when no account is named."""
