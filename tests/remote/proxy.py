"""A TCP proxy between a client and a real Redis that fails on purpose, and counts. Not a Redis itself.

with Proxy(("127.0.0.1", port)) as proxy:
    proxy.mode = Mode.SILENT        # from now on, for old and new connections
    proxy.turns, proxy.reply_bytes  # round trips and bytes so far; `proxy.reset()` begins anew
"""

from __future__ import annotations

import contextlib
import enum
import socket
import threading
import time

WRITES = frozenset({b"SET", b"HSET", b"HDEL", b"DEL", b"UNLINK", b"EXPIRE", b"PEXPIRE", b"EVAL", b"EVALSHA"})


class Mode(enum.Enum):
    PASS = "pass"
    REFUSE = "refuse"  # nobody listens
    SILENT = "silent"  # accepts, reads, never answers
    DRIP = "drip"  # one byte of the answer per second
    CUT = "cut"  # closes after `cut_after` bytes of answers
    ERROR = "error"  # answers `error` to everything
    WRITE_ERROR = "write-error"  # answers `error` to what writes
    GARBAGE = "garbage"  # answers in another language


class Proxy:
    """Listens on 127.0.0.1:`port`. turns: how often a client spoke after it was answered (or for the first time)."""

    def __init__(self, target: tuple[str, int] | str, port: int = 0) -> None:
        self._target = target
        self._mode = Mode.PASS
        self.error = b"-ERR made up\r\n"
        self.garbage = b"HTTP/1.1 400 Bad Request\r\nServer: nginx\r\n\r\n"
        self.cut_after = 0
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._closing = False
        self.port = port
        self.reset()
        self._listen()

    def reset(self) -> None:
        self.turns = self.connections = self.request_bytes = self.reply_bytes = 0
        self.commands: list[bytes] = []

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._closing = True
        self._shut(self._listener)
        self.drop()

    def drop(self) -> None:
        """Close all connections."""
        with self._lock:
            found = list(self._open)
        for one in found:
            self._shut(one)

    @property
    def mode(self) -> Mode:
        return self._mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        before, self._mode = self._mode, mode
        if mode is Mode.REFUSE and before is not Mode.REFUSE:
            self._shut(self._listener)
            self.drop()
        elif mode is not Mode.REFUSE and before is Mode.REFUSE:
            self._listen()

    # -- inside

    def _listen(self) -> None:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        for attempt in range(50):
            try:
                listener.bind(("127.0.0.1", self.port))
                break
            except OSError:
                if attempt == 49:
                    raise
                time.sleep(0.02)
        listener.listen(64)
        self.port = listener.getsockname()[1]
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True, name="proxy").start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True, name="proxy").start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX) if isinstance(self._target, str) else socket.socket()
        with self._lock:
            self._open |= {client, server}
            self.connections += 1
        try:
            server.connect(self._target)
            state = {"asked": False}
            pump = threading.Thread(target=self._answers, args=(server, client, state), daemon=True, name="proxy")
            pump.start()
            self._requests(client, server, state)
            pump.join(0.1)
        except OSError:
            pass
        finally:
            self._shut(client)
            self._shut(server)
            with self._lock:
                self._open -= {client, server}

    def _requests(self, client: socket.socket, server: socket.socket, state: dict[str, bool]) -> None:
        waiting = b""
        while data := client.recv(2**16):
            if not state["asked"]:
                self.turns += 1
                state["asked"] = True
            self.request_bytes += len(data)
            if self._mode is Mode.SILENT:
                continue
            if self._mode is Mode.GARBAGE:
                client.sendall(self.garbage)
                state["asked"] = False
                continue
            waiting += data
            commands, waiting = split(waiting)
            for name, raw in commands:
                self.commands.append(name)
                if self._mode is Mode.ERROR or (self._mode is Mode.WRITE_ERROR and name in WRITES):
                    client.sendall(self.error)
                    state["asked"] = False
                else:
                    server.sendall(raw)

    def _answers(self, server: socket.socket, client: socket.socket, state: dict[str, bool]) -> None:
        sent = 0
        with contextlib.suppress(OSError):
            while data := server.recv(2**16):
                state["asked"] = False
                if self._mode is Mode.CUT:
                    data = data[: self.cut_after - sent]
                    if not data:
                        break
                if self._mode is Mode.DRIP:
                    for byte in data:
                        client.sendall(bytes([byte]))
                        time.sleep(1)
                    continue
                client.sendall(data)
                sent += len(data)
                self.reply_bytes += len(data)
                if self._mode is Mode.CUT and sent >= self.cut_after:
                    break
        self._shut(client)

    @staticmethod
    def _shut(one: socket.socket) -> None:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()


def split(data: bytes) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """The whole commands (name, raw bytes) at the head of RESP requests, and what is left."""
    commands = []
    while True:
        found = _command(data)
        if found is None:
            return commands, data
        name, length = found
        commands.append((name, data[:length]))
        data = data[length:]


def _command(data: bytes) -> tuple[bytes, int] | None:
    end = data.find(b"\r\n")
    if end < 0:
        return None
    count, at, name = int(data[1:end]), end + 2, b""
    for number in range(count):
        end = data.find(b"\r\n", at)
        if end < 0:
            return None
        length = int(data[at + 1 : end])
        at = end + 2 + length + 2
        if at > len(data):
            return None
        if number == 0:
            name = data[end + 2 : end + 2 + length].upper()
    return name, at
