"""Providers that are known by name: where they are, what they speak, which variables hold a key (MDL-1, MDL-14)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

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
    """

    protocol: str
    base_url: str
    keys: tuple[str, ...] = ()
    base_url_key: str = ""
    model_key: str = ""
    model: str = ""

    @property
    def local(self) -> bool:
        """Whether it is a server of one's own that wants no key."""
        return not self.keys


def _hosted(name: str, protocol: str, base_url: str, *keys: str, model: str = "") -> Preset:
    return Preset(
        protocol=protocol,
        base_url=base_url,
        keys=keys or (f"{name}_API_KEY",),
        base_url_key=f"{name}_BASE_URL",
        model_key=f"{name}_MODEL",
        model=model,
    )


PRESETS: Final[dict[str, Preset]] = {
    "anthropic": _hosted("ANTHROPIC", "anthropic-messages", "https://api.anthropic.com", model="claude-sonnet-5"),
    "openai": _hosted("OPENAI", "openai-chat", "https://api.openai.com/v1", model="gpt-5.2"),
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
