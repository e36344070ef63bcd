"""Engines: what talks to a model and has its tool calls carried out (chapter 10)."""
