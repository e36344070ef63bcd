"""The command line: what a person types, sees and is asked (CLI-1 … CLI-7)."""
