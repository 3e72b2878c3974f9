#!/usr/bin/env python3
"""How fast rounds become history: commits, heads, lists and audits of one server on this machine.

    rounds.py --cairn target/release/cairn [--rounds 10000] [--seconds 10] [--markdown]

Commits are measured against a bare one-row transaction of SQLite with `synchronous=FULL` in the same directory, in
turns within one run; read the ratio. Head requests are sent by wrk (Debian's package). Everything talks to 127.0.0.1.
"""
import argparse
import http.client
import json
import os
import select
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

import artifact
from contestants import end, memory

NAMES = {"encoder.a": (4,), "predictor.b": (4,)}


def checkpoint(round_index, parent, salt, names=NAMES):
    """A tiny checkpoint: its hash and the tar of its directory. Another salt gives other weights."""
    import hashlib
    import io
    import struct
    import tarfile
    data, entries, at = b"", {}, 0
    for i, (name, shape) in enumerate(sorted(names.items())):
        count = artifact.product(shape)
        raw = struct.pack(f"<{count}f", *((salt * 31 + i * 7 + j) % 1000003 for j in range(count)))
        entries[name] = (raw, shape)
        at += len(raw)
    offset, head = 0, {}
    for name, (raw, shape) in entries.items():
        head[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [offset, offset + len(raw)]}
        offset += len(raw)
        data += raw
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    weights = struct.pack("<Q", len(text)) + text + data
    h = hashlib.sha256(b"lensemble/artifact/v1\0tensors\0")
    for name, (raw, shape) in entries.items():
        n = name.encode()
        h.update(struct.pack("<I", len(n)) + n + bytes([7]) + b"float32" + struct.pack("<I", len(shape))
                 + b"".join(struct.pack("<Q", d) for d in shape) + raw)
    frame = json.dumps({"param_groups": ["encoder", "predictor"], "parent_hash": parent or "",
                        "round_index": round_index, "schema_version": 2, "wmcp_version": "wmcp-1.0.0"},
                       sort_keys=True, separators=(",", ":")).encode()
    h.update(b"\0struct\0" + struct.pack("<I", len(frame)) + frame)
    header = json.dumps({
        "schema_version": 2, "content_hash": h.hexdigest(), "parent_hash": parent, "wmcp_version": "wmcp-1.0.0",
        "round_index": round_index, "config_hash": "0" * 64, "param_groups": ["encoder", "predictor"],
        "tensor_manifest": [{"name": n, "group": n.split(".")[0], "dtype": "float32", "shape": list(s)}
                            for n, (_, s) in entries.items()],
        "weight_files": ["weights.safetensors"], "created_at": "2026-01-01T00:00:00Z"}).encode()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, body in (("header.json", header), ("weights.safetensors", weights)):
            info = tarfile.TarInfo(name)
            info.size = len(body)
            tar.addfile(info, io.BytesIO(body))
    return h.hexdigest(), out.getvalue()


class Server:
    def __init__(self, program, work):
        self.log = open(os.path.join(work, "log"), "w")
        self.process = subprocess.Popen([program, "serve", "--json", "--data-dir", os.path.join(work, "data"),
                                         "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=self.log)
        if not select.select([self.process.stdout], [], [], 60)[0]:
            raise RuntimeError("the server says nothing")
        self.port = urllib.parse.urlsplit(json.loads(self.process.stdout.readline())["listening"]).port

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)

    def stop(self):
        end(self.process)


def call(connection, method, path, body=None, kind="application/json", want=(200, 201)):
    connection.request(method, path, body, {"Content-Type": kind})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status not in want:
        raise RuntimeError(f"{method} {path}: {answer.status} {text[:300]}")
    return text


def new_run(connection, name):
    call(connection, "POST", "/v1/runs", json.dumps({"run": name, "consortium": "bench", "wmcp_version": "wmcp-1.0.0"}))


def commit(connection, run, hash_, index, parent):
    call(connection, "POST", f"/v1/runs/{run}/commits",
         json.dumps({"content_hash": hash_, "round_index": index, "parent_hash": parent}))


def in_threads(count, work):
    failures = []

    def guarded(i):
        try:
            work(i)
        except Exception as e:  # noqa: BLE001  (told to the caller below)
            failures.append(e)
    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise failures[0]


def push_chain(server, run, rounds, salt, names=NAMES, at_once=8):
    """Pushes a chain of checkpoints with several connections; the hashes."""
    hashes, tars = [], []
    for i in range(rounds):
        h, tar = checkpoint(i, hashes[-1] if hashes else None, salt + i, names)
        hashes.append(h)
        tars.append(tar)

    def send(k):
        c = server.connect()
        for i in range(k, rounds, at_once):
            call(c, "PUT", f"/v1/artifacts/{hashes[i]}", tars[i], "application/x-tar")
    in_threads(at_once, send)
    return hashes


def bare(work, seconds):
    """One-row transactions per second of SQLite alone."""
    path = os.path.join(work, "bare.sqlite")
    db = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode=wal", "synchronous=full"):
        db.execute(f"pragma {pragma}")
    db.execute("create table if not exists t(a integer primary key, b text)")
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        db.execute("begin immediate")
        db.execute("insert into t(b) values ('x')")
        db.execute("commit")
        count += 1
    db.close()
    return count / (time.perf_counter() - start)


COMMITS = """
local threads = 0
function setup(thread)
  thread:set("writer", threads)
  threads = threads + 1
end
function init()
  if not writer then return end
  hashes, next_round = {}, 0
  for line in io.lines(string.format("%s/%d", os.getenv("CHAINS"), writer)) do hashes[#hashes + 1] = line end
  path = string.format("/v1/runs/%s-%d/commits", os.getenv("RUNS"), writer)
end
function request()
  if not writer then return wrk.format("GET", "/healthz") end
  local parent = next_round > 0 and '"' .. hashes[next_round] .. '"' or "null"
  local body = string.format('{"content_hash":"%s","round_index":%d,"parent_hash":%s}',
    hashes[next_round + 1], next_round, parent)
  return wrk.format("POST", path, {["Content-Type"] = "application/json"}, body)
end
-- A round is over when it was answered: wrk asks for one request more than it sends.
function response()
  next_round = next_round + 1
  if next_round == #hashes then wrk.thread:stop() end
end
"""


def seconds_of(text):
    """A time as wrk prints it."""
    for unit, scale in (("us", 1e-6), ("ms", 1e-3), ("s", 1.0)):
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * scale
    raise ValueError(text)


def wrk(*arguments, **environment):
    """Runs wrk; its rate and the latencies at 50 and 99 of 100, in seconds."""
    done = subprocess.run(["wrk", "--latency", *arguments], capture_output=True, text=True, env={**os.environ, **environment})
    out = done.stdout
    if done.returncode or "Non-2xx" in out or "Socket errors" in out:
        raise RuntimeError(f"wrk: {out} {done.stderr}")
    lines = [line.split() for line in out.splitlines()]
    at = {line[0]: seconds_of(line[1]) for line in lines if line and line[0] in ("50%", "99%")}
    return next(float(line[1]) for line in lines if line[:1] == ["Requests/sec:"]), at["50%"], at["99%"]


def commits(server, work, rows, seconds, writers=8):
    """Each writer is a connection of wrk that commits its own run, one round after the other."""
    script, chains = os.path.join(work, "commits.lua"), os.path.join(work, "chains")
    os.mkdir(chains)
    with open(script, "w") as f:
        f.write(COMMITS)
    turns = []
    for turn in range(3):
        bares = bare(work, seconds / 3)
        c = server.connect()
        for w in range(writers):
            hashes = push_chain(server, f"c{turn}-{w}", seconds * 250, (1 + turn * writers + w) * 1_000_000)
            new_run(c, f"c{turn}-{w}")
            with open(os.path.join(chains, str(w)), "w") as f:
                f.write("\n".join(hashes) + "\n")
        rate, median, p99 = wrk(f"-t{writers}", f"-c{writers}", f"-d{seconds}s", "-s", script,
                                f"http://127.0.0.1:{server.port}", CHAINS=chains, RUNS=f"c{turn}")
        turns.append((rate, median, p99, bares, rate / bares))
    rate, median, p99, bares, ratio = (statistics.median(column) for column in zip(*turns))
    rows.append(("commits, 8 writers", f"{rate:.0f}/s", f"{ratio:.2f} x bare transactions"))
    rows.append(("commit, median / p99", f"{median * 1e3:.1f} / {p99 * 1e3:.1f} ms", ""))
    rows.append(("bare one-row transactions", f"{bares:.0f}/s", ""))


def heads(server, run, work, rows, seconds):
    """As fast as it goes, and at a pace of about 10,000/s: what a client waits when the machine is not full."""
    paced = os.path.join(work, "paced.lua")
    with open(paced, "w") as f:
        f.write("function delay() return 9 end\n")
    for what, more in (("", []), (", paced", ["-s", paced])):
        rate, _, p99 = wrk("-t1", "-c100", f"-d{seconds}s", *more, f"http://127.0.0.1:{server.port}/v1/runs/{run}/head")
        rows.append((f"head, 100 clients{what}", f"{rate:,.0f}/s", f"p99 {p99 * 1e3:.1f} ms"))


def waiting(server, run, rows, clients=1000):
    """Memory and delay with many participants that wait for the next round."""
    import socket
    before = memory(server.process.pid)
    c = server.connect()
    c.request("GET", f"/v1/runs/{run}/head")
    answer = c.getresponse()
    tag, head = answer.getheader("etag"), json.loads(answer.read())
    sockets = []
    for _ in range(clients):
        s = socket.create_connection(("127.0.0.1", server.port))
        s.sendall(f"GET /v1/runs/{run}/head?wait=60s HTTP/1.1\r\nhost: x\r\nif-none-match: {tag}\r\n\r\n".encode())
        sockets.append(s)
    time.sleep(1)
    during = memory(server.process.pid)
    index = head["round_index"] + 1
    h, tar = checkpoint(index, head["content_hash"], 77_000_000)
    call(c, "PUT", f"/v1/artifacts/{h}", tar, "application/x-tar")
    start = time.perf_counter()
    commit(c, run, h, index, head["content_hash"])
    committed = time.perf_counter()
    for s in sockets:
        s.settimeout(30)
        if b" 200 " not in s.recv(200):
            raise RuntimeError("a waiting client was not told the new head")
        s.close()
    told = time.perf_counter()
    rows.append((f"{clients} waiting clients", f"{(during - before) / clients * 1024:.1f} KiB each",
                 f"all told {1e3 * (told - committed):.0f} ms after the commit, which took {1e3 * (committed - start):.0f} ms"))


def timed(work):
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def audits(server, rounds, rows):
    c = server.connect()
    call(c, "GET", "/v1/runs/long/audit")
    before = memory(server.process.pid)
    text, took = timed(lambda: call(c, "GET", "/v1/runs/long/audit"))
    report = json.loads(text)
    if not report["ok"] or report["rounds"] != rounds:
        raise RuntimeError(f"the audit says {text[:500]}")
    rows.append((f"audit (quick) of {rounds} rounds", f"{took:.2f} s", f"memory +{memory(server.process.pid) - before:.0f} MiB"))
    for limit in (100, 1000):
        _, took = timed(lambda limit=limit: call(c, "GET", f"/v1/runs/long/rounds?limit={limit}"))
        rows.append((f"list of {limit} rounds", f"{took * 1e3:.1f} ms", ""))


def many_tensors(server, rows):
    names = {f"{'encoder' if i % 3 else 'predictor'}.blocks.{i}.weight": (2,) for i in range(447)}
    hashes = push_chain(server, "wide", 100, 500_000_000, names)
    c = server.connect()
    new_run(c, "wide")
    for i, h in enumerate(hashes):
        commit(c, "wide", h, i, hashes[i - 1] if i else None)
    _, took = timed(lambda: call(c, "GET", "/v1/runs/wide/rounds?limit=100"))
    rows.append(("list of 100 rounds with 447 tensors each", f"{took * 1e3:.1f} ms", ""))
    _, took = timed(lambda: call(c, "GET", "/v1/runs/wide/audit"))
    rows.append(("audit (quick) of the same", f"{took * 1e3:.0f} ms", ""))


def history(server, work, rows, args):
    """Everything that needs long runs."""
    c = server.connect()
    print(f"pushing {args.rounds} checkpoints", file=sys.stderr)
    hashes = push_chain(server, "long", args.rounds, 0)
    new_run(c, "long")
    for i, h in enumerate(hashes):
        commit(c, "long", h, i, hashes[i - 1] if i else None)
    audits(server, args.rounds, rows)
    many_tensors(server, rows)
    heads(server, "long", work, rows, args.seconds)
    waiting(server, "long", rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cairn", required=True)
    parser.add_argument("--rounds", type=int, default=10000)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--commits", action="store_true", help="nothing but commits")
    parser.add_argument("--markdown", action="store_true")
    args = parser.parse_args()
    work, rows, server = tempfile.mkdtemp(prefix="cairn-rounds-"), [], None
    try:
        server = Server(args.cairn, work)
        commits(server, work, rows, args.seconds)
        if not args.commits:
            history(server, work, rows, args)
    finally:
        if server:
            server.stop()
        shutil.rmtree(work, ignore_errors=True)
    line = "| {} | {} | {} |" if args.markdown else "{:44} {:>22}  {}"
    if args.markdown:
        print("| what | figure | beside |\n|---|---:|---|")
    for row in rows:
        print(line.format(*row))


if __name__ == "__main__":
    main()
