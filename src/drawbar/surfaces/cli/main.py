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

        try:
            print(f"drawbar {__version__}", flush=True)
        except OSError as error:
            from drawbar.surfaces.cli.shell import output_failed

            return output_failed(error)
        return 0
    if arguments is None:
        _speak_utf8()
    from drawbar.surfaces.cli.shell import run_command

    return run_command(argv)


def _speak_utf8() -> None:
    """Begin anew in UTF-8 mode where file names and commands would be encoded otherwise.

    What is recorded is UTF-8, so what runs has to be, whatever the locale says; the terminal is still written to in
    its own encoding. Done once: in UTF-8 mode there is nothing left to do.
    """
    if sys.flags.utf8_mode or not sys.executable or sys.getfilesystemencoding().lower() in ("utf-8", "utf8"):
        return
    import os

    encoding = getattr(sys.stdout, "encoding", None) or getattr(sys.stderr, "encoding", None) or "ascii"
    environ = {"PYTHONIOENCODING": f"{encoding}:replace", **os.environ}
    os.execve(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]], environ)


if __name__ == "__main__":
    sys.exit(main())
