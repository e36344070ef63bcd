"""Sessions: conversations, each owning one native history and many runs, one active at a time (chapter 03)."""
