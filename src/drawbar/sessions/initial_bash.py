"""The Bash command that a new turn may begin with: ``!ls``, or ``!outside id`` for the scope ``outside`` (RUN-7).

The command is the text's first line after the ``!``; a line that ends in a backslash goes on in the next. What
follows is the request. The whole text stays the person's message, with the command's result after it, so that a text
which is only a command needs no other message: the model answers to what it printed.
"""

from __future__ import annotations

from typing import Final

from drawbar.contracts.errors import InvalidInput
from drawbar.contracts.ids import new_id
from drawbar.contracts.run import RunInput
from drawbar.contracts.tool import ToolCall

__all__ = ["check_initial_bash", "initial_call", "leading_command"]

_OUTSIDE: Final = "outside"
_TOOL: Final = "bash"


def leading_command(text: str) -> str | None:
    """The command with which a text begins; None when it begins with none.

    ``!!`` and ``![`` begin none: the one is a slip, the other a picture in Markdown.
    """
    begun = text.lstrip()
    if not begun.startswith("!") or begun.startswith(("!!", "![")):
        return None
    lines: list[str] = []
    for line in begun[1:].split("\n"):
        lines.append(line)
        if (len(line) - len(line.rstrip("\\"))) % 2 == 0:
            break
    return "\n".join(lines).strip() or None


def check_initial_bash(request: RunInput) -> None:
    """Refuse an initial command that this request can't have.

    Raises:
        InvalidInput: with the field named; nothing was written.
    """
    command = request.initial_bash
    if command is None:
        return
    if command != leading_command(request.text):
        raise _refused("must equal the command after the `!` with which the text begins")
    if command.split()[0] == _OUTSIDE and not _without_prefix(command):
        raise _refused("`!outside` names no command; write `!outside COMMAND`")
    if request.trigger != "user":
        raise _refused(
            f"a run with the trigger {request.trigger!r} can't begin with a command; a person's own turn can"
        )
    if request.automatic:
        raise _refused("an automatic run can't begin with a command, since nobody is there to allow it")
    if request.resume:
        raise _refused("only a new conversation can begin with a command; ask for it in words to go on with an old one")


def initial_call(command: str) -> ToolCall:
    """The call that carries the command out, judged and recorded like one that the model made."""
    if command.split()[0] == _OUTSIDE:
        arguments = {"command": _without_prefix(command), "scope": "outside"}
    else:
        arguments = {"command": command}
    return ToolCall(id=new_id("call"), name=_TOOL, arguments=arguments)


def _without_prefix(command: str) -> str:
    return command.removeprefix(_OUTSIDE).strip()


def _refused(why: str) -> InvalidInput:
    return InvalidInput(f"initial_bash: {why}", field="initial_bash")
