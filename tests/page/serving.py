"""A journal that tests write into, and a server in this process that shows it. No browser here."""

from __future__ import annotations

import http.client
import json
import threading
import time
from types import SimpleNamespace

from warmgraph.cache import journal_dir, settings
from warmgraph.scripts.audit.sources import open_events, stored_entries
from warmgraph.scripts.page import Live, Server


class Journal:
    """A journal that tests write into as processes do."""

    def __init__(self):
        self.dir = journal_dir(settings())
        self.dir.mkdir(parents=True, exist_ok=True)

    def write(self, events, day="2026-11-20"):
        self.raw(b"".join(json.dumps(event).encode() + b"\n" for event in events), day)

    def raw(self, data, day="2026-11-20"):
        with (self.dir / f"{day}.somehost.jsonl").open("ab") as file:
            file.write(data)


class Served:
    """A server on a free port, and what it answers."""

    def __init__(self, kept, token=None):
        self.live = Live(open_events(), stored_entries, kept)
        self._server = Server(("127.0.0.1", 0), self.live, token)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self.live.start()
        self._thread.start()

    def stop(self):
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
            self.live.stop()

    def ask(self, path="/audit.json", method="GET", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.putrequest(method, path, skip_host="Host" in headers)
            for name, value in headers.items():
                connection.putheader(name.replace("_", "-"), value)
            connection.endheaders()
            answer = connection.getresponse()
            return SimpleNamespace(status=answer.status, body=answer.read().decode(), headers=answer.headers)
        finally:
            connection.close()

    def until(self, check, path="/audit.json"):
        """Ask until the answer passes."""
        end = time.monotonic() + 60
        while not check(answer := self.ask(path)):
            assert time.monotonic() < end, answer.body[:500]
            time.sleep(0.02)

    def read(self, count):
        """Wait until so many events were read, and the store was listed after them."""

        def whole(answer):
            found = json.loads(answer.body)
            return found["source"]["events"] >= count and found["store"] is not None

        self.until(whole)

    def samples(self):
        """What /metrics says: value by (name, (label, value), ...)."""
        from prometheus_client.parser import text_string_to_metric_families

        families = text_string_to_metric_families(self.ask("/metrics").body)
        return {(one.name, *sorted(one.labels.items())): one.value for family in families for one in family.samples}

    def total(self, name, **labels):
        return sum(v for key, v in self.samples().items() if key[0] == name and set(labels.items()) <= set(key[1:]))
