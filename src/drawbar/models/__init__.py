"""Provider clients: encode a request, stream the reply, decode it; one protocol a client (chapter 09)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drawbar.contracts.errors import UnsupportedFeature

if TYPE_CHECKING:
    from drawbar.contracts.clock import Clock
    from drawbar.contracts.model import Account, Provider

__all__ = ["PROTOCOLS", "provider_for"]

PROTOCOLS = ("anthropic-messages", "openai-responses", "openai-chat", "gemini")
"""Protocols that can be spoken, by id (MDL-2)."""


def provider_for(account: Account, *, clock: Clock, **options: Any) -> Provider:
    """A client for ``account``, chosen by its protocol; nothing is connected yet.

    Args:
        account: with its credential resolved.
        clock: passed on to the client.
        options: further keyword arguments of the client, such as ``idle_timeout_s``.

    Raises:
        UnsupportedFeature: naming a protocol that this build doesn't speak.
        InvalidInput: when the account's base URL is none.
        AccountUnavailable: when its credential or one of its headers can't be sent.
    """
    if account.protocol == "anthropic-messages":
        from drawbar.models.anthropic import AnthropicProvider

        return AnthropicProvider(account, clock=clock, **options)
    if account.protocol == "openai-responses":
        from drawbar.models.client import HttpProvider
        from drawbar.models.responses import ResponsesWire

        return HttpProvider(ResponsesWire(account), account, clock=clock, **options)
    if account.protocol == "openai-chat":
        from drawbar.models.chat import ChatWire
        from drawbar.models.client import HttpProvider

        return HttpProvider(ChatWire(account), account, clock=clock, **options)
    if account.protocol == "gemini":
        from drawbar.models.client import HttpProvider
        from drawbar.models.gemini import GeminiWire

        return HttpProvider(GeminiWire(account), account, clock=clock, **options)
    raise UnsupportedFeature(
        f"the protocol {account.protocol!r} of account {account.id!r} isn't spoken by this build; "
        f"it speaks {', '.join(PROTOCOLS)}",
        feature=account.protocol,
    )
