"""``get_capabilities``: the model sees its own frozen set, to the letter (BND-2, BND-16)."""

from __future__ import annotations

from drawbar.contracts.boundary import Verdict
from drawbar.contracts.codec import Request, encode, indent
from drawbar.contracts.tool import ToolContext, ToolResult, ToolSpec

__all__ = ["CapabilitiesTool", "GetCapabilitiesInput"]


class GetCapabilitiesInput(Request):
    pass


class CapabilitiesTool:
    """Shows what this run may do; looking changes nothing."""

    spec = ToolSpec(
        name="get_capabilities",
        description=(
            "Show what this run may do: its tools, the scopes of commands, network, subagents, whether a person can be "
            "asked, and where the workspace is. The set was fixed when the run started."
        ),
        input=GetCapabilitiesInput,
        kind="internal",
        plan_mode_safe=True,
        parallel=True,
    )

    async def run(self, verdict: Verdict, context: ToolContext) -> ToolResult:
        frozen = context.capabilities
        return ToolResult.text(
            indent(
                encode(
                    {
                        "capabilities": frozen.normalised(),
                        "network": "off" if not frozen.network else "only the listed hosts",
                        "workspace_root": str(context.root.path),
                        "working_directory": str(context.root.working_directory),
                        **context.facts,
                    }
                )
            ).decode()
        )
