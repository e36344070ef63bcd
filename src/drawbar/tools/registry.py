"""Which tools there are, and in which order every request lists them (ENG-6, USE-07)."""

from __future__ import annotations

from drawbar.contracts.tool import Tool
from drawbar.tools.ask_user import AskUserTool
from drawbar.tools.bash import BashTool
from drawbar.tools.capabilities import CapabilitiesTool
from drawbar.tools.edit import EditTool
from drawbar.tools.find import FindTool
from drawbar.tools.grep import GrepTool
from drawbar.tools.job_output import JobOutputTool
from drawbar.tools.job_stop import JobStopTool
from drawbar.tools.jobs import JobTable
from drawbar.tools.ls import LsTool
from drawbar.tools.read import ReadTool
from drawbar.tools.search.sandboxed import SearchPrograms
from drawbar.tools.todo import TodoTool
from drawbar.tools.web_fetch import WebFetchTool
from drawbar.tools.write import WriteTool

__all__ = ["builtin_tools"]


def builtin_tools(programs: SearchPrograms | None = None) -> list[Tool]:
    """The built-in tools, always in this order.

    Args:
        programs: what ``grep`` and ``find`` may use; what this machine has if left out.
    """
    found = programs or SearchPrograms()
    jobs = JobTable()
    return [
        ReadTool(),
        WriteTool(),
        EditTool(),
        BashTool(jobs),
        GrepTool(found),
        FindTool(found),
        LsTool(),
        TodoTool(),
        CapabilitiesTool(),
        JobOutputTool(jobs),
        JobStopTool(jobs),
        AskUserTool(),
        WebFetchTool(),
    ]
