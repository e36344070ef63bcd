"""Pure deciders, no I/O: (state, fact) → decision (ARC-2)."""
