"""Files as programs use them."""

import fcntl
import mmap
import os
import shutil
import sqlite3
import tempfile
from pathlib import Path

os.mkdir("made")
os.chdir("made")
Path("a").write_text("a\n")
with (
    tempfile.NamedTemporaryFile() as one,
    tempfile.TemporaryDirectory() as two,
    tempfile.NamedTemporaryFile(dir=".") as three,
):
    print("temporary", one.name.startswith("/tmp/"), two.startswith("/tmp/"), os.path.exists(three.name))
with tempfile.TemporaryFile(dir=".") as file:
    file.write(b"x")
fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
os.link(f"/proc/self/fd/{fd}", "linked", src_dir_fd=os.open("/", os.O_RDONLY), follow_symlinks=True)
with open("lock", "w") as file, open("lock") as other:
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        print("locked")
    fcntl.lockf(file, fcntl.LOCK_EX)
    fcntl.flock(file, fcntl.LOCK_UN)
first, second = sqlite3.connect("d.sqlite"), sqlite3.connect("d.sqlite")
print(first.execute("pragma journal_mode=wal").fetchone()[0])
first.execute("create table t(x)")
first.execute("insert into t values(1)")
first.commit()
print(second.execute("select x from t").fetchone())
first.close()
second.close()
with open("m", "w+b") as file:
    file.truncate(1 << 16)
    mapped = mmap.mmap(file.fileno(), 0)
    mapped[0] = 7
    mapped.flush()
print(Path("m").read_bytes()[0])
os.posix_fallocate(os.open("big", os.O_CREAT | os.O_RDWR), 0, 1 << 20)
with open("sparse", "wb") as file:
    file.seek(1 << 30)
    file.write(b"x")
print("sparse", os.stat("sparse").st_blocks < 100)
with open("a", "rb") as source, open("sent", "wb") as target:
    os.sendfile(target.fileno(), source.fileno(), 0, 2)
with open("a", "rb") as source, open("copied", "wb") as target:
    os.copy_file_range(source.fileno(), target.fileno(), 2)
print(Path("sent").read_text(), Path("copied").read_text(), sep="", end="")
memory = os.memfd_create("x")
os.write(memory, b"in memory")
print(Path(f"/proc/self/fd/{memory}").read_text())
os.eventfd(0)
try:
    os.setxattr("a", "user.note", b"noted")
    print(os.getxattr("a", "user.note").decode())
except OSError:
    print("noted")  # this file system has none, in or out of a sandbox
os.link("a", "hard")
os.symlink("a", "soft")
os.symlink("nowhere", "dangling")
os.symlink(os.path.abspath("a"), "absolute")
os.makedirs("x/y/z")
os.rename("hard", "x/hard")
os.rename("x", "moved")
os.replace("soft", "moved/y/soft")
os.renames("moved/y/soft", "moved/deep/er/soft")
os.mkfifo("pipe")
os.chmod("a", 0o600)
os.utime("a", (1, 1))
os.truncate("m", 0)
os.sync()
shutil.copytree("moved", "tree", symlinks=True)
shutil.move("tree", "/tmp/tree")
shutil.move("/tmp/tree", "back")
shutil.rmtree("back")
Path("n" * 255).write_text("")
deep = Path(*["d" * 50] * 60)
here = os.open(".", os.O_RDONLY)
for part in deep.parts:
    os.mkdir(part)
    os.chdir(part)
Path("x").write_text("deep")
os.fchdir(here)
shutil.rmtree(deep.parts[0])
for name in (b"\xff\xfe", b"new\nline", b"\x01", "é".encode(), b"CASE", b"case"):
    Path(os.fsdecode(name)).write_bytes(name)
print(sorted(os.listdir(b"."))[:3], os.path.samefile("case", "CASE"))
usage = shutil.disk_usage(".")
print("done", usage.free > 0)
