#!/usr/bin/env python3
"""cairn against other HTTP servers that store files, on one machine in one run.

Every contestant gets a fresh server on a free loopback port, the same client (curl) and the same bytes. Contestants
are interleaved and their order is rotated from repetition to repetition. Read the ratios: a ratio is the median over
the repetitions of the ratio within one repetition. Absolute figures of a shared machine mean little.

A push counts until the bytes are durable: for servers that do not see to it themselves, the script calls fsync on the
stored file and its directory inside the timed part and books the CPU time of that to the server. For cairn nothing is
added. `late sync` is the time that an fsync of everything below the server's directory takes after the clock has
stopped, beyond the time of a second one: about zero when the server told the truth.

Rows (for --only, shell patterns): ref.* push.* first.* (with their push.*) push4.* pull1.* pull8.* pull32.* fetch.*
ttfb.* head.* small.* and, when asked for, many.* (--parallel), huge.* with hugeget.* (--huge). A token for cairn is
taken from CAIRN_TOKEN. Exit codes: 0 done, 1 a row failed, 2 could not run.
"""
import argparse
import fnmatch
import json
import os
import platform
import re
import select
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import artifact
from contestants import CURL, Cairn, Nginx, Registry, Sources, busy, durable, run, settle, late_sync, warm, which

PACKAGES = {"nginx": "nginx-light", "docker-registry": "docker-registry", "curl": "curl", "wrk": "wrk",
            "openssl": "openssl", "sha256sum": "coreutils", "dd": "coreutils"}


# ---- measuring -------------------------------------------------------------------------------------------------

class Bench:
    def __init__(self, args, work):
        self.work, self.size, self.seed, self.args = work, args.size, args.seed, args
        self.cairn, self.cairn_args, self.rows, self.failed, self.rep = args.cairn, args.cairn_arg, {}, [], 0
        self.kinds = [Nginx, Registry] + ([Cairn] if self.cairn else [])

    def wants(self, row):
        return any(fnmatch.fnmatch(row, p) for p in self.args.only)

    def note(self, row, value, unit="MB/s", **more):
        self.rows.setdefault(row, []).append({"rep": self.rep, "value": value, "unit": unit, **more})
        extra = "".join(f"  {k} {v:.2f}" for k, v in more.items() if v is not None)
        print(f"  {row:24} {value:10.1f} {unit}{extra}", file=sys.stderr, flush=True)

    def timed(self, row, server, size, work):
        """Runs work() against a server and notes speed, CPU and peak memory; work() may return what durable() did.
        `others` is how many cores something else kept busy meanwhile (kernel threads that write back included)."""
        ours, everybody, cpu, start = os.times(), busy(), server.cpu(), time.perf_counter()
        added, fsync = work() or (0, None)
        took = time.perf_counter() - start
        cpu, everybody = server.cpu() - cpu, busy() - everybody
        script, clients = (sum(os.times()[i:i + 2]) - sum(ours[i:i + 2]) for i in (0, 2))
        self.note(row, size / took / 1e6, cpu=(cpu + added) / size * 1e9, client_cpu=clients / size * 1e9,
                  rss=server.peak(), fsync=fsync, others=max(0, everybody - cpu - script - clients) / took)
        return took

    def attempt(self, job, row, *args):
        """Runs one row; a failure costs that row only (and the exit code)."""
        try:
            job(row, *args)
        except (RuntimeError, OSError, ValueError, KeyError, subprocess.TimeoutExpired) as e:
            self.failed.append(row)
            print(f"  {row} FAILED: {e}", file=sys.stderr, flush=True)

    def round(self, rep):
        """One repetition of everything that sends."""
        self.rep, sources = rep, Sources(self, rep)
        jobs = {"ref.sha256sum": lambda r: self.reference(r, sources, "cat {} | sha256sum"),
                "ref.openssl": lambda r: self.reference(r, sources, "cat {} | openssl dgst -sha256"),
                "ref.disk": lambda r: self.reference(r, sources, "dd if={} of={}.dd bs=1M oflag=direct conv=fsync")}

        def push(row, kind, layout, how, size=None, count=1):
            jobs[row] = lambda r: self.push(r, kind, sources.get(layout, size, count), how)

        many = [("push4", max(16, self.size // 4), 4)]
        if self.args.parallel:
            many.append(("many", max(4, self.size // 16), 20))
        if self.args.huge and rep == 0:
            many.append(("huge", 5 * self.size, 1))
        push("push.nginx", Nginx, "ordered", Nginx.send)
        push("push.registry-put", Registry, "ordered", Registry.send)
        push("push.registry-patch", Registry, "ordered", lambda server, s: server.send(s, patch=True))
        if self.cairn:
            push("push.cairn-ordered", Cairn, "ordered", Cairn.send)
            push("push.cairn-shuffled", Cairn, "shuffled", Cairn.send)
            push("push.cairn-shards", Cairn, "shards", Cairn.send)
            push("push.cairn-sessions", Cairn, "shards", lambda server, s: server.send_session(s[0]))
            jobs["push.cairn-cli"] = lambda r: self.cli_push(r, sources.get("ordered")[0])
        for group, size, count in many:
            for kind in self.kinds:
                push(f"{group}.{kind.name}", kind, "ordered", kind.send, size, count)
        names = [n for n in jobs if self.wants(n)]
        turn = rep * len(names) // self.args.reps
        try:
            for row in names[turn:] + names[:turn]:
                self.attempt(jobs[row], row)
        finally:
            sources.drop()

    def reference(self, row, sources, command):
        source = sources.get("ordered")[0]
        warm(source.tar)
        settle(self.work, self.args.patience)
        before, everybody, start = os.times(), busy(), time.perf_counter()
        run(["sh", "-c", command.replace("{}", source.tar)])
        took, cpu = time.perf_counter() - start, sum(os.times()[2:4]) - sum(before[2:4])
        self.note(row, source.size / took / 1e6, client_cpu=cpu / source.size * 1e9,
                  others=max(0, busy() - everybody - cpu) / took)
        if os.path.exists(source.tar + ".dd"):
            os.remove(source.tar + ".dd")

    def push(self, row, kind, sources, how):
        size = sum(s.size for s in sources)
        for s in sources:
            s.digest(s.tar)  # known to the client beforehand
            for file in (s.tar, *s.files):
                warm(file)
        with kind(self) as server:
            late_sync(server.dir)
            settle(self.work, self.args.patience)
            took = self.timed(row, server, size, lambda: how(server, sources))
            late = self.rows[row][-1]["late"] = late_sync(server.dir)
            if late > max(0.3, took / 10):
                print(f"  {row}: {late:.2f} s of work were NOT durable when it answered", file=sys.stderr)
            after = row.replace("push.", "first.").replace("huge.", "hugeget.")
            source = sources[0]
            if row.startswith(("push.", "huge.")) and self.wants(after):
                size = os.path.getsize(source.files[0]) if kind is Cairn else source.size
                self.attempt(self.pull, after, server, server.path_of(source), size)
            if row == "huge.cairn" and self.wants("hugeget.cairn-group"):
                size = artifact.group_size(source.dir, "encoder")
                self.attempt(self.pull, "hugeget.cairn-group", server, server.group_of(source), size)

    def cli_push(self, row, source):
        warm(source.files[0])
        with Cairn(self) as server:
            settle(self.work, self.args.patience)
            result = []
            self.timed(row, server, source.size, lambda: result.extend(
                run(server.cli("push", source.dir), watch=True)))
            self.rows[row][-1].update(late=late_sync(server.dir), client_rss=result[1])
            if json.loads(result[0])["content_hash"] != source.hash:
                raise RuntimeError("cairn push prints another content hash")

    def reading(self, _):
        """Everything that only reads: each server is filled once, started afresh, then all take turns."""
        groups = ("pull1", "pull8", "pull32", "fetch", "ttfb", "head", "small")
        names = ("nginx", "nginx-buf", "docker-registry", "cairn-file", "cairn-group", "nginx+openssl", "cairn-pull")
        if not any(self.wants(f"{g}.{n}") for g in groups for n in names):
            return
        sources, servers = Sources(self, "pull"), []
        try:
            s = sources.get("ordered")[0]
            group = os.path.join(sources.top, "encoder.safetensors")
            h2, weights = artifact.group_file(s.dir, "encoder", group), s.files[0]
            head = os.path.join(s.dir, "header.json")
            paths, small = {}, {}  # contestant -> (server, path, file with the same bytes)
            for kind in self.kinds:
                servers.append(server := kind(self))
                server.start()
                if kind is Cairn:
                    server.send([s])
                    paths["cairn-file"] = server, server.path_of(s), weights
                    paths["cairn-group"] = server, server.group_of(s), group
                    small["cairn-file"] = server, f"/v1/artifacts/{s.hash}/header.json", head
                elif kind is Registry:
                    server.send([s], file=weights)
                    server.send([s], file=head)
                    paths[kind.name] = server, server.path_of(s, weights), weights
                    small[kind.name] = server, server.path_of(s, head), head
                else:
                    server.send([s], file=weights)
                    shutil.copy(head, server.store)
                    paths["nginx"] = server, server.path_of(s), weights
                    paths["nginx-buf"] = server, "/buf" + server.path_of(s), weights
                    small["nginx"] = server, "/header.json", head
                server.stop()
                server.start()
            for name, (server, path, file) in {**paths, **{"small " + k: v for k, v in small.items()}}.items():
                out = os.path.join(sources.top, "got")
                get(server, path, out=out)
                if s.digest(file) != run(["openssl", "dgst", "-sha256", "-r", out])[0].split()[0]:
                    raise RuntimeError(f"{name} does not serve the bytes that it got")
            if s.digest(group) != h2:
                raise RuntimeError("the group file has another hash than its bytes")
            for self.rep in range(self.args.reps):
                self.read_round(self.rep, s, paths, small)
        finally:
            for server in servers:
                server.__exit__()
            sources.drop()

    def read_round(self, rep, source, paths, small):
        def turn(job, group, table):
            items = list(table.items())
            for name, (server, path, file) in items[rep % len(items):] + items[:rep % len(items)]:
                if self.wants(f"{group}.{name}"):
                    self.attempt(job, f"{group}.{name}", server, path, file)

        for clients in (1, 8, 32):
            turn(lambda row, server, path, file, n=clients: self.pull(row, server, path, os.path.getsize(file), n),
                 f"pull{clients}", paths)
        by_hand = {"nginx+openssl": paths["nginx"]}
        by_us = {"cairn-pull": paths["cairn-file"]} if self.cairn else {}
        turn(lambda *a: self.fetch(*a, source), "fetch", {**by_hand, **by_us})
        turn(self.ttfb, "ttfb", paths)
        turn(self.head, "head", paths)
        turn(self.small, "small", small)

    def pull(self, row, server, path, size, clients=1):
        if not row.startswith("first."):
            settle(self.work, self.args.patience)
        server.reset_peak()
        self.timed(row, server, size * clients, lambda: get(server, path, clients))

    def fetch(self, row, server, path, file, source):
        """Onto the disk, verified and durable: cairn pull, or by hand."""
        target, result = os.path.join(self.work, "pulled"), []
        out = os.path.join(target, "weights.safetensors")

        def work():
            if row == "fetch.cairn-pull":
                result.extend(run(server.cli("pull", source.hash, target), watch=True))
                durable(out, target)
            else:
                os.mkdir(target)
                get(server, path, out=out)
                durable(out)
                run(["openssl", "dgst", "-sha256", out])

        settle(self.work, self.args.patience)
        try:
            server.reset_peak()
            self.timed(row, server, os.path.getsize(file), work)
            if result:
                self.rows[row][-1].update(client_rss=result[1])
        finally:
            shutil.rmtree(target, ignore_errors=True)

    def head(self, row, server, path, file):
        before = server.cpu()
        rate, count = head_rate(server, path, os.path.getsize(file), self.args.seconds)
        self.note(row, rate, "HEAD/s", cpu_us=(server.cpu() - before) / count * 1e6)

    def small(self, row, server, path, _):
        out = run([which("wrk"), "-t1", "-c32", f"-d{self.args.seconds}s", "--latency", *server.headers(),
                   server.url(path)])[0]
        if "Non-2xx" in out or re.search(r"(connect|read|write) [1-9]", out):
            raise RuntimeError(f"wrk got errors\n{out}")
        p99, unit = re.search(r"99%\s+([\d.]+)(us|ms|s)\b", out).groups()
        self.note(row, float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1]), "GET/s",
                  p99_ms=float(p99) * {"us": 1e-3, "ms": 1, "s": 1e3}[unit])

    def ttfb(self, row, server, path, _, count=300):
        """Median time until the first byte of an answer on one kept connection; ranges of 64 KiB."""
        out = run([*CURL, *server.headers(), "-r", "0-65535", "-w",
                   "%{time_starttransfer} %{http_code}\n", "-K", "-"],
                  stdin=f'url = "{server.url(path)}"\noutput = "{os.devnull}"\n' * count)[0]
        values = [line.split() for line in out.splitlines()][1:]
        if any(code != "206" for _, code in values):
            raise RuntimeError(f"{row}: not every range was answered with 206")
        times = sorted(float(t) * 1e3 for t, _ in values)
        self.note(row, statistics.median(times), "ms", p99_ms=times[len(times) * 99 // 100])


def get(server, path, clients=1, out=os.devnull):
    run(*(server.curl_get(path, out) for _ in range(clients)))


def head_rate(server, path, size, seconds, connections=32):
    """HEAD requests per second over kept connections, one at a time on each. (wrk waits for a body after HEAD.)"""
    auth = "".join(f"{k}: {v}\r\n" for k, v in server.auth().items())
    ask = f"HEAD {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n{auth}\r\n".encode()

    def connect():
        s = socket.create_connection(("127.0.0.1", server.port), 10)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def answer(s):
        got = s.recv(4096)
        while got and not got.endswith(b"\r\n\r\n"):
            more = s.recv(4096)
            got = got + more if more else b""
        return got

    socks, poll, count = {}, select.epoll(), 0

    def start(s):
        socks[s.fileno()] = s
        poll.register(s, select.EPOLLIN)
        s.sendall(ask)

    try:
        with connect() as s:
            s.sendall(ask)
            first = answer(s).lower()
        if not first.startswith(b"http/1.1 200") or f"content-length: {size}\r\n".encode() not in first:
            raise RuntimeError(f"{server.name}: HEAD answered {first!r}")
        for _ in range(connections):
            start(connect())
        begin = time.perf_counter()
        until = begin + seconds
        while time.perf_counter() < until:
            for fd, _ in poll.poll(10):
                s = socks[fd]
                if answer(s).startswith(b"HTTP/1.1 200"):
                    count += 1
                    s.sendall(ask)
                else:  # the server closed a kept connection
                    poll.unregister(s)
                    s.close()
                    start(connect())
        if not count:
            raise RuntimeError(f"{server.name}: no HEAD was answered on a kept connection")
        return count / (time.perf_counter() - begin), count
    finally:
        poll.close()
        for s in socks.values():
            s.close()


# ---- report ----------------------------------------------------------------------------------------------------

# section -> (title, baselines: heading and pattern; of several rows the best one counts)
SECTIONS = {
    "ref": ("References", {}),
    "push": ("Push, one client", {"sha256sum": "ref.sha256sum", "openssl": "ref.openssl", "disk": "ref.disk",
                                  "nginx": "push.nginx", "registry": "push.registry-*"}),
    "push4": ("Push, four whole uploads of a quarter at once (sum)", {"nginx": "push4.nginx", "registry": "push4.docker-registry",
                                                         "one upload": None}),
    "many": ("Push, 20 uploads of a sixteenth at once (sum)", {"nginx": "many.nginx", "registry": "many.docker-registry"}),
    "huge": ("Push, five times the size", {"nginx": "huge.nginx", "registry": "huge.docker-registry"}),
    "hugeget": ("First GET, five times the size", {"nginx": "hugeget.nginx", "registry": "hugeget.docker-registry"}),
    "first": ("First GET after the upload", {"nginx": "first.nginx", "registry": "first.registry-*"}),
    **{f"pull{n}": (f"GET, {n} client{'s' * (n > 1)} (sum)",
                    {"nginx (best)": f"pull{n}.nginx*", "registry": f"pull{n}.docker-registry"}) for n in (1, 8, 32)},
    "fetch": ("GET to the disk, verified and durable", {"curl, fsync, openssl": "fetch.nginx+openssl"}),
    "ttfb": ("Time to first byte (less is better)", {"nginx (best)": "ttfb.nginx*", "registry": "ttfb.docker-registry"}),
    "head": ("HEAD, 32 connections", {"nginx (best)": "head.nginx*", "registry": "head.docker-registry"}),
    "small": ("Small GET (header.json), 32 connections, wrk", {"nginx": "small.nginx", "registry": "small.docker-registry"}),
}
EXTRA = {"cpu": "CPU s/GB", "rss": "peak MiB", "fsync": "of it fsync s", "late": "late sync s", "client_cpu": "client CPU s/GB",
         "client_rss": "client peak MiB", "others": "other cores",
         "cpu_us": "CPU us/request", "p99_ms": "p99 ms"}
SINGLE = {"push4.nginx": "push.nginx", "push4.docker-registry": "push.registry-*", "push4.cairn": "push.cairn-ordered"}


def summarize(rows):
    def median(row, key="value"):
        values = [r[key] for r in rows[row] if r.get(key) is not None]
        return statistics.median(values) if values else None

    def ratio(row, pattern):
        base = [r for r in rows if pattern and fnmatch.fnmatch(r, pattern)]
        if not base or row in base:
            return None
        pick = min if rows[row][0]["unit"] == "ms" else max
        base = pick(base, key=median)
        other = {r["rep"]: r["value"] for r in rows[base]}
        pairs = [r["value"] / other[r["rep"]] for r in rows[row] if r["rep"] in other]
        return statistics.median(pairs) if pairs else None

    out = []
    for section, (title, baselines) in SECTIONS.items():
        lines = []
        for row in sorted(r for r in rows if r.split(".")[0] == section):
            values = [r["value"] for r in rows[row]]
            lines.append({"row": row, "unit": rows[row][0]["unit"], "median": median(row), "min": min(values),
                          "max": max(values), "n": len(values),
                          "ratios": {h: ratio(row, p or SINGLE.get(row)) for h, p in baselines.items()},
                          **{k: median(row, k) for k in EXTRA}})
        if lines:
            out.append({"section": section, "title": title, "rows": lines})
    return out


def show(sections, markdown):
    def cell(v):
        return "" if v is None else f"{v:,.0f}" if abs(v) >= 100 else f"{v:.2f}"

    for s in sections:
        heads = [h for h in s["rows"][0]["ratios"] if any(r["ratios"][h] is not None for r in s["rows"])]
        extra = [k for k in EXTRA if any(r[k] is not None for r in s["rows"])]
        table = [["", s["rows"][0]["unit"], "min - max", *(f"x {h}" for h in heads), *(EXTRA[k] for k in extra)]]
        for r in s["rows"]:
            table.append([r["row"], cell(r["median"]), f"{cell(r['min'])} - {cell(r['max'])}",
                          *(cell(r["ratios"][h]) for h in heads), *(cell(r[k]) for k in extra)])
        widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
        print(f"\n{'### ' if markdown else ''}{s['title']}\n")
        for n, line in enumerate(table):
            padded = [c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths))]
            print("| " + " | ".join(padded) + " |" if markdown else "  ".join(padded))
            if n == 0 and markdown:
                print("|" + "|".join("-" * (w + 1) + (":" if i else "-") for i, w in enumerate(widths)) + "|")


def machine(work):
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        model = next((line.split(":")[1].strip() for line in f if line.startswith("model name")), platform.machine())
    fs = run(["stat", "-f", "-c", "%T", work])[0].strip()
    version = {"docker-registry": r"\S+$", "nginx": r"nginx/\S+", "curl": r"^curl \S+"}
    tools = []
    for tool, pattern in version.items():
        p = subprocess.run([which(tool), "-v" if tool == "nginx" else "--version"], capture_output=True, text=True,
                           check=False)
        found = re.search(pattern, (p.stdout + p.stderr).strip(), re.M)
        tools.append(f"{tool} {found[0].split('/')[-1].split()[-1]}" if found else tool)
    return f"{os.cpu_count()} cores {model}, Linux {platform.release()}, {fs}, {', '.join(tools)}"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--size", type=int, default=1024, metavar="MIB")
    p.add_argument("--reps", type=int, default=3)
    p.add_argument("--only", default="*", metavar="ROWS", help="patterns, separated by commas: 'push.*,ref.*'")
    p.add_argument("--cairn", default="target/release/cairn", metavar="PROGRAM")
    p.add_argument("--cairn-arg", action="append", default=[], metavar="ARG", help="another argument for cairn serve")
    p.add_argument("--no-cairn", action="store_true", help="only the others")
    p.add_argument("--parallel", action="store_true", help="also 20 uploads of size/16 at once")
    p.add_argument("--huge", action="store_true", help="also one artifact of five times the size")
    p.add_argument("--seconds", type=int, default=3, help="length of each request-rate row")
    p.add_argument("--patience", type=float, default=0, metavar="S", help="before each MB/s row wait up to so many seconds "
                   "for the machine to be idle; the column `other cores` says what was going on during a row")
    p.add_argument("--limit", type=int, default=5400, metavar="S", help="give up after so many seconds (default %(default)s)")
    p.add_argument("--workdir", metavar="DIR", help="where everything is kept meanwhile; must be on the disk to be measured")
    p.add_argument("--keep", action="store_true", help="leave the work directory behind")
    p.add_argument("--seed", default=None, help="of the checkpoints; another one each run by default")
    p.add_argument("--json", metavar="FILE")
    p.add_argument("--markdown", action="store_true")
    p.add_argument("--install", action="store_true", help="apt-get install what is missing, first")
    args = p.parse_args()
    args.only, args.seed = args.only.split(","), args.seed or os.urandom(8).hex()
    args.cairn = None if args.no_cairn else os.path.abspath(args.cairn)
    missing = sorted({pkg for tool, pkg in PACKAGES.items() if not which(tool)})
    install = ["apt-get", "install", "-y", "--no-install-recommends", *missing]
    if missing and args.install:
        subprocess.run(install, check=True, stdout=sys.stderr)
        missing = [tool for tool in PACKAGES if not which(tool)]
    if missing:
        print("missing; as root: " + " ".join(install) + "   (or run this with --install)", file=sys.stderr)
        return 2
    if args.cairn and not os.access(args.cairn, os.X_OK):
        print(f"no program at {args.cairn}: cargo build --release, or name it with --cairn, or --no-cairn", file=sys.stderr)
        return 2

    def give_up(number, _):
        raise SystemExit(f"ended by signal {number}" + (f": --limit of {args.limit} s" if number == signal.SIGALRM else ""))
    signal.signal(signal.SIGTERM, give_up)
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(args.limit)
    if args.workdir:
        os.makedirs(args.workdir, exist_ok=True)
    work = tempfile.mkdtemp(prefix="peers-", dir=args.workdir)
    bench, about = Bench(args, work), f"{args.size} MiB, {args.reps} repetitions; {machine(work)}"
    try:
        for rep in range(args.reps):
            print(f"sending, repetition {rep + 1} of {args.reps}", file=sys.stderr)
            bench.round(rep)
        bench.attempt(bench.reading, "reading")
    except (SystemExit, KeyboardInterrupt) as e:  # what there is, is shown
        bench.failed.append(str(e) or "interrupted")
    finally:
        signal.alarm(0)
        if args.keep:
            print(f"kept: {work}", file=sys.stderr)
        else:
            shutil.rmtree(work, ignore_errors=True)
    sections = summarize(bench.rows)
    print(about)
    show(sections, args.markdown)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump({"about": about, "failed": bench.failed, "size_mib": args.size, "sections": sections,
                       "raw": bench.rows}, f, indent=2)
    if bench.failed:
        print("\nfailed: " + ", ".join(bench.failed))
    return 1 if bench.failed else 0


if __name__ == "__main__":
    sys.exit(main())
