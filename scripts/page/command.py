"""`warmgraph serve`: the audit's page, live, with metrics for Prometheus. The server itself is in `page`."""

from __future__ import annotations

import errno
import hashlib
import re
import signal
import socket
import threading
from functools import partial
from pathlib import Path

import click
from warmgraph.cache import ConfigError, secret_in_file, settings, store_root

from ..output import epilog, talk

_TOKEN = re.compile(r"[!-~]{16,1000}")


@click.command(
    epilog=epilog("warmgraph serve --fleet --port 8642", "the address cannot be used (a journal that cannot: /healthz)")
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8642, show_default=True, help="0 takes any free one.")
@click.option(
    "--token-file",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Ask for the token in this file: needed for an address, or a user, that is not yours alone.",
)
@click.option("--fleet", is_flag=True, help="The whole fleet's journal, from the server at WARMGRAPH_URL.")
def serve(host: str, port: int, token_file: Path | None, fleet: bool) -> int:
    """The audit as a page that keeps itself up to date.

    Until Ctrl-C or SIGTERM it serves /, /audit.json, /metrics (for Prometheus, with `pip install 'warmgraph[serve]'`)
    and /healthz. It answers GET and HEAD only, and changes nothing in the store. Without a token only you (and root)
    are answered, not this host's other users.

    A browser asks for the token as a password, of any user; scripts send it as "Authorization: Bearer ...". It is sent
    in the clear: put a proxy with TLS before an address that others reach.
    """
    from ..audit.sources import open_events, stored_entries
    from . import Live, Server, has_metrics, is_loopback

    token = None if token_file is None else _token_in(token_file)
    address = _address_of(host, port)
    if token is None and not is_loopback(address):
        raise click.UsageError(
            f"{host} is an address that others reach, and the page names your functions and files: give --token-file, "
            "or listen on 127.0.0.1"
        )
    events = open_events(fleet=fleet)
    live = Live(events, partial(stored_entries, fleet=fleet), _kept(events.source.name))
    try:
        server = Server((address, port), live, token)
    except OSError as error:
        raise click.ClickException(_cannot_listen(host, port, error)) from None
    shown = f"[{server.server_name}]" if ":" in server.server_name else server.server_name
    # A container's first process gets no SIGTERM that it does not ask for.
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    live.start()
    talk(f"serving {events.source.name} at http://{shown}:{server.server_port}/ (Ctrl-C ends it)")
    if not has_metrics():
        talk("without /metrics: TIP: pip install 'warmgraph[serve]'")
    try:
        server.serve_forever()
    finally:
        server.server_close()
        live.stop()
    return 0


def _token_in(path: Path) -> str:
    """Raises ConfigError."""
    how = "make one: umask 077; python -c 'import secrets; print(secrets.token_urlsafe(32))' > FILE"
    token = secret_in_file("--token-file", path, how).decode("utf-8", "replace").strip()
    if _TOKEN.fullmatch(token) is None:
        raise ConfigError(f"--token-file {path}: expected one line of 16 or more letters, digits and signs; {how}")
    return token


def _address_of(host: str, port: int) -> str:
    """The address that is then listened on, so that what was checked is what is used."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise click.UsageError(f"--host {host!r}: not an address of this machine ({error})") from None
    return str(found[0][4][0])


def _cannot_listen(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is in use: choose another with --port, or end what listens there"
    return f"cannot listen on port {port} of {host}: {error.strerror or error}"


def _kept(source: str) -> Path:
    """Where the sums of this source outlive the process: in the store's folder, which is private."""
    return store_root(settings()) / "served" / f"{hashlib.sha256(source.encode()).hexdigest()[:16]}.json"
