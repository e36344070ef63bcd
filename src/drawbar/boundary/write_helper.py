"""The write helper: does native writes in a process that the sandbox confines, where Landlock is missing (BND-7).

Run as ``python -I -S write_helper.py``, with one line of JSON and then the new bytes of each job on standard
input. It prints one line of JSON, a result for each job. It needs the standard library and the modules beside it.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def main() -> None:
    """Read the jobs, do them in order up to the first that fails, and report each."""
    # Appended, so that no module of the package can stand in for one of the standard library.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    header: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    results: list[dict[str, Any]] = []
    for job in header["jobs"]:
        data = sys.stdin.buffer.read(job["length"])
        whole = len(data) == job["length"]
        results.append(_do(header, job, data) if whole else {"errno": 0, "error": "the new bytes did not arrive whole"})
        if "after" not in results[-1]:
            break
    sys.stdout.write(json.dumps(results))


def _do(header: dict[str, Any], job: dict[str, Any], data: bytes) -> dict[str, Any]:
    from drawbar.boundary.openat2 import open_beneath
    from drawbar.boundary.swap import Conflict, folder_for, place

    try:
        root_fd = os.open(header["root"], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if _identity(root_fd) != header["identity"]:
                return {"root_gone": True}
            parent_fd = open_beneath(root_fd, os.fsencode(job["parent"]), os.O_RDONLY | os.O_DIRECTORY, links=False)
        finally:
            os.close(root_fd)
        try:
            if _identity(parent_fd) != job["identity"]:
                raise Conflict("moved")
            missing = [os.fsencode(name) for name in job["missing"]]
            with folder_for(parent_fd, missing) as folder_fd:
                placed = place(
                    folder_fd,
                    os.fsencode(job["name"]),
                    data,
                    expected=job["expected"],
                    create=job["create"],
                    overwrite=job["overwrite"],
                )
        finally:
            os.close(parent_fd)
    except Conflict as error:
        return {"conflict": error.kind, "kept": error.kept}
    except OSError as error:
        return {"errno": error.errno or 0, "error": error.strerror or str(error)}
    return {"before": placed.before, "after": placed.after}


def _identity(fd: int) -> list[int]:
    found = os.fstat(fd)
    return [found.st_dev, found.st_ino]


if __name__ == "__main__":
    main()
