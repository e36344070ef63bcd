"""Native histories: Pi's session format, version 3, read whatever a file holds and written by one writer (SES-1)."""

from drawbar.stores.history.blocks import SizeLimits
from drawbar.stores.history.context import Entry
from drawbar.stores.history.file import HistoryFile
from drawbar.stores.history.fork import fork_history
from drawbar.stores.history.index import Repair
from drawbar.stores.history.listing import HistoryHead, list_histories, select_history
from drawbar.stores.history.repair import MessageRepairer, repair_messages
from drawbar.stores.history.text import cut_text, well_formed
from drawbar.stores.history.view import HistoryView, inspect_history, read_history

__all__ = [
    "Entry",
    "HistoryFile",
    "HistoryHead",
    "HistoryView",
    "MessageRepairer",
    "Repair",
    "SizeLimits",
    "cut_text",
    "fork_history",
    "inspect_history",
    "list_histories",
    "read_history",
    "repair_messages",
    "select_history",
    "well_formed",
]
