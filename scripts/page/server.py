"""The live page over HTTP: read-only, bounded, for one reader or a few. What it shows comes from `live`.

Not meant to face the internet. It ends a connection after one answer, refuses more than so many at a time, and cuts
off who is slow; a token is asked for in the clear, so that beyond one machine a proxy with TLS belongs before it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import logging
import re
import socket
import socketserver
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .live import Live
from .peers import is_our_own

logger = logging.getLogger(__package__)

MOST_CONNECTIONS = 32
MOST_OF_A_PEER = 16  # at once, of one address
SILENT_SECONDS = 5.0  # without a byte
WHOLE_SECONDS = 20.0  # for a whole request and its answer
_BUSY = b"HTTP/1.0 503 Service Unavailable\r\nRetry-After: 2\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_TEXT = "text/plain; charset=utf-8"
_HOST = re.compile(r"(?:\[([0-9a-f:.%]{2,60})\]|([a-z0-9_](?:[a-z0-9._-]{0,252}[a-z0-9_])?))(?::\d{1,5})?", re.ASCII)
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",  # of the page itself; the rest of its policy stands in it
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_CLOSED = _HEADERS | {"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'"}


def is_loopback(address: str) -> bool:
    """Whether this is an address that only this machine reaches."""
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


class Server(ThreadingHTTPServer):
    """Serves `live`. token: what who asks must know; without one this host's user alone is answered. Raises OSError
    when it cannot listen.
    """

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, place: tuple[str, int], live: Live, token: str | None) -> None:
        self.live = live
        self.token = token
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._since: dict[socket.socket, tuple[str, float]] = {}  # whose, and since when
        self._lock = threading.Lock()
        self.address_family = socket.AF_INET6 if ":" in place[0] else socket.AF_INET
        super().__init__(place, Handler)

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # HTTPServer would ask the network for this address's name
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        peer = str(client_address[0]) if client_address else ""
        with self._lock:
            greedy = [of for of, _ in self._since.values()].count(peer) >= MOST_OF_A_PEER
        if greedy or not self._free.acquire(blocking=False):
            request.settimeout(0.5)
            try:
                request.sendall(_BUSY)
            except OSError:
                logger.debug("who came while all was busy did not wait")
            self.shutdown_request(request)
            return
        with self._lock:
            self._since[request] = peer, time.monotonic()
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._done(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._done(request)

    def service_actions(self) -> None:
        """Called twice a second: ends what takes too long, however busily it drips."""
        now = time.monotonic()
        with self._lock:
            late = [request for request, (_, since) in self._since.items() if now - since > WHOLE_SECONDS]
        for request in late:
            try:
                request.shutdown(socket.SHUT_RDWR)  # its thread finds it at its end, and closes it
            except OSError:
                logger.debug("a slow connection ended by itself")

    def handle_error(self, request: Any, client_address: Any) -> None:
        logger.debug("a request failed", exc_info=True)

    def _done(self, request: socket.socket) -> None:
        with self._lock:
            known = self._since.pop(request, None) is not None
        if known:
            self._free.release()


class Handler(BaseHTTPRequestHandler):
    """One request. Answers GET and HEAD, and closes."""

    server: Server
    timeout = SILENT_SECONDS

    def do_GET(self) -> None:
        self._answer()

    do_HEAD = do_GET

    def _refuse_method(self) -> None:
        self._send(405, "only GET and HEAD are answered here\n", extra={"Allow": "GET, HEAD"})

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_TRACE = do_CONNECT = _refuse_method

    def _answer(self) -> None:
        path = self.path.partition("?")[0]
        if not self._is_for_us():
            self._send(421, "this server is asked for by another name: a token is needed for that\n")
            return
        token = self.server.token
        if token is None:
            allowed = is_our_own(self.client_address, self.connection.getsockname())
        else:
            allowed = _knows(self.headers.get("Authorization", ""), token)
        if path == "/healthz":
            self._health(allowed)
            return
        if not allowed and token is None:
            self._send(403, "this server answers its own user: it has to be started with --token-file for others\n")
            return
        if not allowed:
            asked = {"WWW-Authenticate": 'Basic realm="warmgraph: any name, and the token as password"'}
            self._send(401, "a token is needed: as a bearer token, or as the password of any user\n", extra=asked)
            return
        routes: dict[str, Callable[[], None]] = {"/": self._page, "/audit.json": self._json, "/metrics": self._metrics}
        route = routes.get(path)
        if route is None:
            self._send(404, "there is /, /audit.json, /metrics and /healthz\n")
        else:
            route()

    def _is_for_us(self) -> bool:
        """By one name and a port. Without a token, by a name of this machine's: another may have been pointed here (DNS
        rebinding).
        """
        names = self.headers.get_all("Host", [])
        match = _HOST.fullmatch(names[0].strip().lower()) if len(names) == 1 else None
        if match is None:
            return not names and self.server.token is not None  # HTTP/1.0 need not say
        host = match[1] or match[2]
        return self.server.token is not None or host == "localhost" or is_loopback(host)

    def _page(self) -> None:
        self._send(200, self.server.live.page(), "text/html; charset=utf-8", headers=_HEADERS)

    def _json(self) -> None:
        text, tag = self.server.live.json()
        if self.headers.get("If-None-Match") == tag:
            self._send(304, "", extra={"ETag": tag})
        else:
            self._send(200, text, "application/json", extra={"ETag": tag})

    def _metrics(self) -> None:
        try:
            body, kind = self.server.live.metrics(self.headers.get("Accept", ""))
        except ImportError:
            self._send(501, "metrics need prometheus_client: pip install 'warmgraph[serve]'\n")
            return
        self._send(200, body, kind)

    def _health(self, allowed: bool) -> None:
        """Anyone may ask whether; why not is for who may see the rest."""
        why = self.server.live.trouble()
        if why is None:
            self._send(200, "ok\n")
        else:
            self._send(503, f"{why}\n" if allowed else "not well\n")

    def _send(
        self,
        status: int,
        body: str | bytes,
        kind: str = _TEXT,
        *,
        headers: dict[str, str] = _CLOSED,
        extra: dict[str, str] | None = None,
    ) -> None:
        data = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        for name, value in {**headers, **(extra or {})}.items():
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD" and status != 304:
            self.wfile.write(data)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the standard library finds wrong with a request, as text."""
        self.command = self.command or ""
        self.close_connection = True
        self._send(code, f"{self.responses.get(code, ('not a request',))[0]}\n")

    def version_string(self) -> str:
        return "warmgraph"

    def log_message(self, format: str, *args: object) -> None:
        logger.debug("%s: %r", self.client_address[0], format % args)


def _knows(header: str, token: str) -> bool:
    """Whether an Authorization header holds the token; takes as long for a wrong one as for a right one."""
    scheme, _, given = header.partition(" ")
    if scheme.lower() == "basic":
        try:
            given = base64.b64decode(given.strip(), validate=True).decode("utf-8", "replace").partition(":")[2]
        except (binascii.Error, ValueError):
            given = ""
    elif scheme.lower() != "bearer":
        given = ""
    return hmac.compare_digest(_digest(given.strip()), _digest(token))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
