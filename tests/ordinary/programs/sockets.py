"""Servers and clients that meet inside: TCP, UDP, IPv6, unix sockets in the root and in /tmp, abstract ones."""

import asyncio
import http.server
import os
import signal
import socket
import threading
import urllib.request


async def echo(reader, writer):
    writer.write((await reader.readline()).upper())
    await writer.drain()
    writer.close()


async def streams():
    for host in ("127.0.0.1", "::1", "localhost"):
        server = await asyncio.start_server(echo, host, 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        writer.write(b"tcp\n")
        print(host, (await reader.readline()).decode().strip())
        writer.close()
        server.close()
    for path in ("inside.sock", "/tmp/inside.sock", f"{os.environ['XDG_CACHE_HOME']}/inside.sock"):
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        server = await asyncio.start_unix_server(echo, path)
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(b"unix\n")
        print((await reader.readline()).decode().strip())
        writer.close()
        server.close()
        os.unlink(path)


class Datagrams(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, address):
        self.transport.sendto(data.upper(), address)


async def datagrams():
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(Datagrams, local_addr=("127.0.0.1", 0))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.setblocking(False)
        await loop.sock_sendto(client, b"udp", transport.get_extra_info("sockname"))
        print((await loop.sock_recv(client, 10)).decode())
    transport.close()


async def children():
    process = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
    print((await process.communicate(b"child"))[0].decode())
    print(await asyncio.to_thread(lambda: "thread"))
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, told.set)
    os.kill(os.getpid(), signal.SIGUSR1)
    await asyncio.wait_for(told.wait(), 5)
    print("signal")


def pairs():
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        a, b = socket.socketpair(socket.AF_UNIX, kind)
        a.sendall(b"x")
        assert b.recv(1) == b"x"
    a, b = socket.socketpair()
    socket.send_fds(a, [b"x"], [1])
    assert socket.recv_fds(b, 1, 1)[1]
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("\0abstract")
    listener.listen()
    socket.socket(socket.AF_UNIX).connect("\0abstract")
    print("pairs")


def web():
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("", 0), Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(urllib.request.urlopen(f"http://localhost:{server.server_port}/file.txt").read().decode().split())
    server.shutdown()


asyncio.run(streams())
asyncio.run(datagrams())
asyncio.run(children())
pairs()
web()
