"""A fleet of a thousand ranks and more against one real Redis: what it asks, who waits, when the last rank runs.

    python -m benchmarks.fleet_simulation                               # 1,000 and 10,000 ranks; ten minutes
    python -m benchmarks.fleet_simulation --ranks 200 --out /tmp/x.json
    python -m benchmarks.fleet_simulation --journal ~/.cache/warmgraph/journal   # compile times and sizes of your own

Ranks speak the real protocol (`fleet_ranks`); a compile is a sleep and its result random bytes, by a fixed distribution
or as a journal's misses were. Eight ranks share a host, which is a folder; they arrive within a minute (where all is
warm, within a quarter of one), those of a host within half a second. Runs, each on what the one before left:

    cold      nothing anywhere
    full      folders and server have everything, as at a restart
    empty     new hosts: the server alone has it
    failover  cold again; while the first graph is compiled, Redis is stopped and comes back empty, and one rank in a
              hundred (in a process of its own, whoever compiles among them) is killed: another begins anew

All ranks share this machine's cores: so deadlines are patient, and seconds beyond the compile times are mostly this
machine's. Commands, bytes, fetches and compiles are not. A fleet of more than `--at-once` ranks comes in groups, one
after another, and only its `empty` run. Writes benchmarks/results/fleet_simulation.json.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import redis
from warmgraph.cache import new_key, read

from .redis_server import RedisServer, free_port

RESULTS = Path(__file__).with_name("results") / "fleet_simulation.json"
RANKS_OF_A_HOST = 8
ARRIVING, WARM_ARRIVING, JITTER = 60.0, 15.0, 0.5  # seconds in which all ranks arrive, and those of one host
GRAPHS = ({"seconds": 40.0, "bytes": 600_000}, {"seconds": 25.0, "bytes": 300_000}, {"seconds": 10.0, "bytes": 100_000})
PATIENCE = 60.0
OUTAGE = 1.0  # seconds without Redis
AT_ONCE = 200  # ranks, by default; more come in groups of hosts, one after another
WIRE = 10e9 / 8  # bytes per second of the network to one Redis
KINDS = {
    "look up": ("getrange", "strlen"),
    "publish": ("set", "del", "unlink"),
    "leases": ("evalsha", "eval"),
    "journal": ("xadd", "expire"),  # nothing here is old enough to be prolonged
}


def measured(server: Any) -> dict[str, float]:
    stats, cpu = server.info("stats"), server.info("cpu")
    calls = Counter()
    for name, row in server.info("commandstats").items():
        calls[name.removeprefix("cmdstat_")] = row["calls"]
    found = {kind: float(sum(calls[name] for name in names)) for kind, names in KINDS.items()}
    found |= {"sent": stats["total_net_output_bytes"], "received": stats["total_net_input_bytes"]}
    return found | {"server_cpu_seconds": cpu["used_cpu_sys"] + cpu["used_cpu_user"]}


class Fleet:
    """Starts ranks, in processes of many; and those that are to be killed in processes of their own."""

    def __init__(self, folder: Path, server: RedisServer, graphs: Sequence[dict[str, float]], compress: float) -> None:
        self.folder, self.redis, self.compress = folder, server, compress  # compress: by how much all is quicker
        self.graphs = [{"seconds": one["seconds"] / compress, "bytes": int(one["bytes"])} for one in graphs]
        self.server = redis.Redis(port=server.port)
        self.key = new_key()

    def run(
        self, name: str, hosts: Sequence[str], *, arriving: float = WARM_ARRIVING, doomed: Sequence[int] = ()
    ) -> dict[str, Any]:
        """All ranks of `hosts`, of which those with the numbers `doomed` are killed, and Redis with them."""
        begin = time.time() + 8.0 + len(hosts) / 10  # by then all processes run
        chance = random.Random(len(hosts))
        ranks = []
        for host in hosts:
            arrives = begin + chance.uniform(0, arriving - JITTER) / self.compress
            for _ in range(RANKS_OF_A_HOST):
                at = arrives + chance.uniform(0, JITTER) / self.compress
                ranks.append({"rank": len(ranks), "host": str(self.folder / host), "arrives": at})
        first = sorted(ranks, key=lambda rank: rank["arrives"])[: max(1, len(doomed) // 4)] if doomed else []
        for rank in first:  # so that whoever compiles is among them
            rank["arrives"] = begin - 1.0
        dying = {rank["rank"] for rank in first} | set(doomed[len(first) :])
        groups = [[rank] for rank in ranks if rank["rank"] in dying]
        living = [rank for rank in ranks if rank["rank"] not in dying]
        count = max(1, min(32, len(living) // 25))
        groups += [living[number::count] for number in range(count)]
        before = measured(self.server)
        processes = [self._start(name, group, len(ranks)) for group in groups]
        if doomed:
            before = self._disaster(begin, processes[: len(dying)])
            print(
                f"{name}: {len(dying)} ranks are killed, and Redis was gone for {OUTAGE} s", file=sys.stderr, flush=True
            )
        found = []
        for process in processes[len(dying) :]:
            out, err = process.communicate()
            if process.returncode != 0:
                sys.exit(f"a process of ranks failed:\n{err[-3000:]}")
            found += json.loads(out)["ranks"]
        after = measured(self.server)
        return self._summary(begin, found, {what: after[what] - before[what] for what in after})

    def _start(self, name: str, ranks: Sequence[dict[str, Any]], size: int) -> subprocess.Popen[str]:
        work = {"url": f"redis://127.0.0.1:{self.redis.port}/0", "job": name, "size": size, "ranks": ranks}
        work |= {"graphs": self.graphs, "patience": PATIENCE}
        environment = {one: value for one, value in os.environ.items() if not one.startswith("WARMGRAPH_")}
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.fleet_ranks"],
            env=environment | {"WARMGRAPH_SIGNING_KEY": self.key, "WARMGRAPH_WAIT": "1h"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(work))
        process.stdin.close()
        process.stdin = None
        return process

    def _disaster(self, begin: float, doomed: Sequence[subprocess.Popen[str]]) -> dict[str, float]:
        """In the middle of the first compile. Returns what the server that comes back has measured: nothing."""
        time.sleep(max(0.0, begin + self.graphs[0]["seconds"] / 2 - time.time()))
        for process in doomed:
            process.send_signal(signal.SIGKILL)
        self.redis.stop()
        for process in doomed:
            process.communicate()
        time.sleep(OUTAGE)
        self.redis.start()
        return measured(self.server)

    def _summary(self, begin: float, ranks: Sequence[dict[str, Any]], used: dict[str, float]) -> dict[str, Any]:
        """late: seconds that a rank was ready after it could have been, had it known all that others compiled."""
        compiling = sum(graph["seconds"] for graph in self.graphs)
        hosts = {rank["host"] for rank in ranks}
        compiled = Counter(number for rank in ranks for number in rank["compiled"])
        start = min(rank["arrived"] for rank in ranks)
        cold = bool(compiled)
        late = [rank["ready"] - max(rank["arrived"], start + compiling * cold) for rank in ranks]
        last = max(rank["ready"] for rank in ranks) - start
        pairs = len(ranks) * len(self.graphs)
        tiers = Counter()
        for rank in ranks:
            tiers.update(rank["tiers"])
        # Less the one by which each process learns what is revoked. What scripts do on the server counts as well.
        asked = sum(used[kind] for kind in KINDS if kind != "journal") - len(ranks)
        return {
            "ranks": len(ranks),
            "hosts": len(hosts),
            "graphs": len(self.graphs),
            "compiled": sum(compiled.values()),
            "compiled_more_than_once": sum(count - 1 for count in compiled.values()),
            "hits": dict(tiers),
            "fetches_per_host_and_graph": tiers["redis"] / (len(hosts) * len(self.graphs)),
            "commands_per_rank_and_graph": asked / pairs,
            "commands": {kind: int(used[kind]) for kind in KINDS},
            "commands_per_second": sum(used[kind] for kind in KINDS) / last,
            "bytes_sent": int(used["sent"]),
            "bytes_received": int(used["received"]),
            "server_cpu_seconds": used["server_cpu_seconds"],
            "compile_seconds": compiling,
            "seconds_until_the_last_rank_runs": last,
            "seconds_late": {"median": sorted(late)[len(late) // 2], "last": max(late)},
            "seconds_waited_for_compiles": sum(rank["waited"] for rank in ranks),
            "seconds_waited_for_ranks": sum(rank["skew"] for rank in ranks),
            "sick": sum(rank["sick"] for rank in ranks),
        }


def graphs_of(folder: Path) -> list[dict[str, float]]:
    """Compile times and sizes of what a journal's misses published, the ten that took longest."""
    found = [
        {"seconds": event["seconds"].get("compile", 0.0), "bytes": event["bytes"]}
        for event in read(folder)
        if event["outcome"] == "miss" and event["bytes"]
    ]
    if not found:
        sys.exit(f"{folder}: no misses in this journal")
    return sorted(found, key=lambda graph: -graph["seconds"])[:10]


def by_arithmetic(runs: dict[str, Any], graphs: Sequence[dict[str, float]]) -> dict[str, Any]:
    """What one Redis can serve, from what was measured: its network, and its one core."""
    empty = runs["empty"]
    per_host = empty["bytes_sent"] / empty["hosts"]
    published = sum(graph["bytes"] for graph in graphs)
    cpu = empty["server_cpu_seconds"] / empty["ranks"]
    return {
        "network_bytes_per_second": WIRE,
        "bytes_sent_per_host": per_host,
        "bytes_published": published,
        "hosts_per_second_at_these_sizes": WIRE / per_host,
        "hosts_within_ten_seconds_at_these_sizes": 10 * WIRE / per_host,
        "hosts_within_ten_seconds_at_100_MB": 10 * WIRE / (1e8 * per_host / published),
        "server_cpu_seconds_per_rank": cpu,
        "ranks_per_second_of_its_core": 1 / cpu,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", nargs="*", type=int, default=(1000, 10_000))
    parser.add_argument(
        "--runs", nargs="*", choices=("cold", "full", "empty", "failover"), help="of the smallest fleet"
    )
    parser.add_argument("--compress", type=float, default=1.0, help="by how much compiles and arrivals are quicker")
    parser.add_argument("--journal", type=Path, help="a folder of events to take compile times and sizes from")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="ranks; more come in groups, one after another")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    executable = shutil.which("redis-server")
    if executable is None:
        sys.exit("redis-server is not installed")
    graphs = graphs_of(options.journal) if options.journal else list(GRAPHS)
    found: dict[str, Any] = {
        "cpus": os.cpu_count(),
        "compress": options.compress,
        "arriving_seconds": {"cold": ARRIVING / options.compress, "warm": WARM_ARRIVING / options.compress},
    }
    found |= {"ranks_of_a_host": RANKS_OF_A_HOST, "graphs": graphs, "at_once": options.at_once, "fleets": {}}
    for ranks in options.ranks:
        runs = found["fleets"][str(ranks)] = simulate(executable, ranks, graphs, options)
        if "empty" in runs:
            runs["by_arithmetic"] = by_arithmetic(runs, graphs)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(found, indent=1) + "\n")
    return 0


def simulate(executable: str, ranks: int, graphs: Sequence[dict[str, float]], options: Any) -> dict[str, Any]:
    """A fleet above `--at-once` comes in groups of new hosts, one after another, to a server that has everything."""
    wanted = options.runs or (("cold", "full", "empty", "failover") if ranks <= options.at_once else ("empty",))
    at_once = min(ranks, options.at_once) // RANKS_OF_A_HOST
    runs: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory(prefix="warmgraph-simulation-") as folder,
        RedisServer(executable, free_port()) as server,
    ):
        server.start()
        fleet = Fleet(Path(folder), server, graphs, options.compress)

        def run(name: str, hosts: str, groups: int = 1, **more: Any) -> None:
            many = []
            for group in range(groups):
                names = [f"{hosts}{group * at_once + number}" for number in range(at_once)]
                many.append(fleet.run(f"{name} {group}", names, **more))
                if groups > 1:
                    for one in names:
                        shutil.rmtree(Path(folder) / one)
            runs[name] = many[0] if groups == 1 else together(many)
            print(f"{ranks} ranks, {name}: {json.dumps(runs[name])}", file=sys.stderr, flush=True)

        if "cold" in wanted:
            run("cold", "host", arriving=ARRIVING)
        elif "empty" in wanted:
            fleet.run("fill", ["first"])
        if "full" in wanted:
            run("full", "host")
        if "empty" in wanted:
            run("empty", "new", max(1, ranks // options.at_once))
        if "failover" in wanted:
            fleet.server.flushall()
            chance = random.Random(1)
            run(
                "failover",
                "late",
                arriving=ARRIVING,
                doomed=chance.sample(range(at_once * RANKS_OF_A_HOST), max(1, ranks // 100)),
            )
    return runs


def together(many: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Sums over groups; of seconds and rates the worst, since groups would come at once."""
    summed = ("ranks", "hosts", "compiled", "bytes_sent", "bytes_received", "server_cpu_seconds", "sick")
    found = dict(many[-1]) | {name: sum(one[name] for one in many) for name in summed}
    for table in ("commands", "hits"):
        found[table] = dict(sum((Counter(one[table]) for one in many), Counter()))
    worst = ("commands_per_rank_and_graph", "fetches_per_host_and_graph", "seconds_until_the_last_rank_runs")
    found |= {name: max(one[name] for one in many) for name in worst}
    return found | {"groups_one_after_another": len(many)}


if __name__ == "__main__":
    sys.exit(main())
