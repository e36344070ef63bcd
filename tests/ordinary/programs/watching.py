"""Changes are told to whoever watches a folder."""

import ctypes
import os
import struct

libc = ctypes.CDLL(None, use_errno=True)
fd = libc.inotify_init1(os.O_NONBLOCK)
assert fd >= 0, os.strerror(ctypes.get_errno())
for folder in (b".", b"/tmp"):
    assert libc.inotify_add_watch(fd, folder, 0x100) > 0, os.strerror(ctypes.get_errno())
for path in ("seen.txt", "/tmp/seen-too.txt"):
    open(path, "w").close()
data = os.read(fd, 4096)
names = []
while data:
    length = struct.unpack_from("iIII", data)[3]
    names.append(data[16 : 16 + length].rstrip(b"\0").decode())
    data = data[16 + length :]
print(names)
