"""Terminals that a program makes for itself."""

import curses
import os
import pty
import readline
import subprocess
import sys
import termios
import tty

main, side = os.openpty()
print(os.ttyname(side).startswith("/dev/pts/"), os.isatty(side))
before = termios.tcgetattr(side)
tty.setraw(side)
termios.tcsetattr(side, termios.TCSANOW, before)
os.write(main, b"typed\n")
print(os.read(side, 10))
pid, fd = pty.fork()
if pid == 0:
    os.execlp("bash", "bash", "-c", "tty; stty size; echo $((6*7)); test -t 0 && exec 3<>/dev/tty && echo own >&3")
text = b""
try:
    while data := os.read(fd, 1000):
        text += data
except OSError:
    pass
print(text.decode().split()[-2:])
print("spawn", pty.spawn(["true"]))
readline.set_history_length(3)
child = subprocess.run([sys.executable, "-c", "print(input('? '))"], input="said", capture_output=True, text=True)
print(child.stdout.strip())
curses.setupterm("xterm", 1)
print(curses.tigetnum("colors"))
