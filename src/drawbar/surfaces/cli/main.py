"""The program's entry: answers ``--version`` before anything is loaded, hands the rest to the commands (PRF-6)."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code.

    Args:
        arguments: what follows the program's name; None takes the process's own.
    """
    argv = list(sys.argv[1:] if arguments is None else arguments)
    if argv == ["--version"]:
        from drawbar import __version__

        print(f"drawbar {__version__}")
        return 0
    from drawbar.surfaces.cli.shell import run_command

    return run_command(argv)


if __name__ == "__main__":
    sys.exit(main())
