"""Searching as a program of its own in the read-only scope, with ripgrep and fd or without (ENG-6).

``regex``, ``dialects``, ``globs``, ``ignore`` and ``worker`` run inside the sandbox on whatever Python the system has,
so they import nothing but the standard library and each other. ``sandboxed`` is the harness's side.
"""
