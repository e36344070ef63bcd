"""The one vocabulary that every layer speaks: records, events, inputs, codes, Protocols; no I/O (ARC-3, ARC-4)."""
