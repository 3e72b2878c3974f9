"""The contestants of peers.py: throw-away servers, what is sent to them, and how their processes are watched."""
import concurrent.futures
import http.client
import json
import os
import re
import select
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.parse

import artifact

TIMEOUT = 900  # seconds for one client command
TICK = os.sysconf("SC_CLK_TCK")
CURL = ["curl", "-q", "-sS", "--fail-with-body", "--noproxy", "*"]


# ---- processes -------------------------------------------------------------------------------------------------

def which(tool):
    return shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/local/sbin")


def end(p):
    """Ends one process of ours by its pid."""
    if p.poll() is None:
        p.terminate()
        try:
            p.wait(10)
        except subprocess.TimeoutExpired:
            p.kill()
            p.wait()


def run(*commands, stdin=None, watch=False):
    """Runs commands at the same time; returns their outputs, or with watch one command's output and peak MiB."""
    started, peak, done = [], [0], threading.Event()

    def sample():
        while not done.wait(0.01):
            peak[0] = max(peak[0], memory(started[0].pid))

    try:
        for c in commands:
            started.append(subprocess.Popen(c, stdin=subprocess.PIPE if stdin else subprocess.DEVNULL, text=True,
                                            stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        if watch:
            threading.Thread(target=sample, daemon=True).start()
        outputs = [p.communicate(stdin, timeout=TIMEOUT) for p in started]
    finally:
        done.set()
        for p in started:
            end(p)
    for c, p, (out, err) in zip(commands, started, outputs):
        if p.returncode:
            raise RuntimeError(f"exit code {p.returncode}: {' '.join(c)}\n{err[-600:]}{out[-600:]}")
    outputs = [out for out, _ in outputs]
    return (outputs[0], peak[0]) if watch else outputs


def memory(pid):
    """Peak resident MiB of a process so far."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
            return next((int(line.split()[1]) / 1024 for line in f if line.startswith("VmHWM")), 0)
    except OSError:
        return 0


def busy():
    """CPU seconds that this machine has spent on anything (stolen ones included)."""
    with open("/proc/stat", encoding="ascii") as f:
        v = [int(n) for n in f.readline().split()[1:9]]
    return (sum(v) - v[3] - v[4]) / TICK


def stat(pid):
    """Parent and (own, waited-for children's) CPU seconds of a process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            v = f.read().rpartition(")")[2].split()
    except OSError:
        return None, 0, 0
    return int(v[1]), (int(v[11]) + int(v[12])) / TICK, (int(v[13]) + int(v[14])) / TICK


# ---- the disk --------------------------------------------------------------------------------------------------

def fsync(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def durable(*files):
    """fsync of files and their directories, side by side; returns the CPU seconds and the seconds it took."""
    before, start = time.process_time(), time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(len(files)) as pool:
        for names in (files, {os.path.dirname(f) for f in files}):
            list(pool.map(fsync, names))
    return time.process_time() - before, time.perf_counter() - start


def late_sync(top):
    """Seconds that an fsync of everything below takes beyond what it takes when there is nothing to write."""
    def sync_all():
        start = time.perf_counter()
        for d, _, files in os.walk(top):
            for f in files:
                if os.path.isfile(os.path.join(d, f)):
                    fsync(os.path.join(d, f))
            fsync(d)
        return time.perf_counter() - start

    return max(0, sync_all() - sync_all())


def settle(work, patience=0):
    """Lets earlier rows' dirty pages and deletions reach the disk, for three seconds at most; then waits up to
    `patience` seconds for the machine to have nothing else to do."""
    fsync(work)
    until = time.monotonic() + 3
    while time.monotonic() < until:
        with open("/proc/meminfo", encoding="ascii") as f:
            if sum(int(line.split()[1]) for line in f if line.startswith(("Dirty:", "Writeback:"))) < 16384:
                break
        time.sleep(0.05)
    until = time.monotonic() + patience
    while time.monotonic() < until:
        before = busy()
        time.sleep(0.5)
        if busy() - before < 0.1:
            break


def warm(path):
    with open(path, "rb", buffering=0) as f:
        buffer = bytearray(1 << 20)
        while f.readinto(buffer):
            pass


# ---- what is sent ----------------------------------------------------------------------------------------------

class Source:
    """One checkpoint: directory, tar, hashes; made, synced and warm before any clock starts."""

    def __init__(self, top, name, size, layout, seed):
        self.dir, self.tar, self._digests = os.path.join(top, name), os.path.join(top, name + ".tar"), {}
        self.header = artifact.make(self.dir, size, layout, seed)
        artifact.write_tar(self.dir, self.tar)
        self.hash, self.size = self.header["content_hash"], os.path.getsize(self.tar)
        self.files = [os.path.join(self.dir, f) for f in self.header["weight_files"]]
        durable(self.tar, *self.files)

    def digest(self, path):
        if path not in self._digests:
            self._digests[path] = run(["openssl", "dgst", "-sha256", "-r", path])[0].split()[0]
        return self._digests[path]


class Sources:
    """The checkpoints of one repetition, made when first asked for; dropped together."""

    def __init__(self, bench, rep):
        self.bench, self.rep, self.made = bench, rep, {}
        self.top = tempfile.mkdtemp(prefix="sources-", dir=bench.work)

    def get(self, layout, size=None, count=1):
        out = []
        for i in range(count):
            name = f"{layout}-{size or self.bench.size}-{i}of{count}"
            if name not in self.made:
                seed = f"{self.bench.seed}/{self.rep}/{i}"
                self.made[name] = Source(self.top, name, size or self.bench.size, layout, seed)
            out.append(self.made[name])
        return out

    def drop(self):
        shutil.rmtree(self.top, ignore_errors=True)


# ---- servers ---------------------------------------------------------------------------------------------------

class Server:
    """A throw-away server: own directory, own port. Subclasses say how to start it and how to send to it."""

    def __init__(self, bench):
        self.bench, self.process = bench, None
        self.dir = tempfile.mkdtemp(prefix=self.name + "-", dir=bench.work)
        self.log = os.path.join(bench.work, self.name + ".log")
        self.store = os.path.join(self.dir, "store")
        os.mkdir(self.store)

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.dir, ignore_errors=True)

    def spawn(self, command, stdout=None):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, cwd=self.dir, stdin=subprocess.DEVNULL, stdout=stdout or log,
                                            stderr=log)

    def start(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.launch()
        self.wait_for_port()

    def wait_for_port(self):
        until = time.monotonic() + 30
        while time.monotonic() < until and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.01)
        raise RuntimeError(f"{self.name} does not listen, see {self.log} (kept with --keep)")

    def stop(self):
        if self.process:
            end(self.process)

    def tree(self):
        parents = {int(p): stat(p)[0] for p in os.listdir("/proc") if p.isdigit()}
        mine = [self.process.pid]
        for pid in mine:
            mine += [p for p, parent in parents.items() if parent == pid]
        return mine

    def cpu(self):
        return sum(stat(p)[1] for p in self.tree()) + stat(self.process.pid)[2]

    def peak(self):
        return sum(map(memory, self.tree()))

    def reset_peak(self):
        for p in self.tree():
            try:
                with open(f"/proc/{p}/clear_refs", "w", encoding="ascii") as f:
                    f.write("5")
            except OSError:
                pass

    def url(self, path):
        return f"http://127.0.0.1:{self.port}{path}"

    def call(self, method, path, body=b"", want=(200, 201, 202), headers=None):
        """One small request; returns the Location header."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        try:
            c.request(method, path, body, {**self.auth(), **(headers or {})})
            r = c.getresponse()
            text = r.read()
            if r.status not in want:
                raise RuntimeError(f"{self.name}: {method} {path}: {r.status} {text[:300]}")
            where = urllib.parse.urlsplit(r.headers.get("Location", ""))
            return where.path + ("?" + where.query if where.query else "")
        finally:
            c.close()

    def auth(self):
        return {}

    def headers(self):
        return sum((["-H", f"{k}: {v}"] for k, v in self.auth().items()), [])

    def curl_send(self, path, file, *options):
        return [*CURL, *self.headers(), "-w", "%{http_code}", "-T", file, *options, self.url(path)]

    def curl_get(self, path, out=os.devnull):
        return [*CURL, *self.headers(), "-o", out, self.url(path)]

    def send(self, sources):
        """Uploads whole checkpoints side by side until durable; returns what durable() said, if it was needed."""
        raise NotImplementedError

    def path_of(self, source):
        """Where the weights are afterwards."""
        raise NotImplementedError


class Nginx(Server):
    name = "nginx"

    def launch(self):
        root, conf = self.store, os.path.join(self.dir, "nginx.conf")
        temp = "".join(f"{t}_temp_path {self.dir}/{t};" for t in ("proxy", "fastcgi", "uwsgi", "scgi"))
        with open(conf, "w", encoding="ascii") as f:
            f.write(f"""daemon off; worker_processes auto; pid {self.dir}/pid; error_log stderr warn;
                {'user root;' if os.geteuid() == 0 else ''}
                events {{ worker_connections 1024; }}
                http {{ access_log off; {temp} client_body_temp_path {self.dir}/store/.body; client_max_body_size 0;
                  client_body_buffer_size 1m; keepalive_requests 1000000000; tcp_nopush on;
                  server {{ listen 127.0.0.1:{self.port}; root {root};
                    location / {{ sendfile on; dav_methods PUT; create_full_put_path on; }}
                    location /buf/ {{ alias {root}/; sendfile off; output_buffers 2 1m; }} }} }}""")
        self.spawn([which("nginx"), "-c", conf, "-p", self.dir, "-e", "stderr"])

    def send(self, sources, file=None):
        run(*(self.curl_send(self.path_of(s), file or s.tar) for s in sources))
        return durable(*(self.store + self.path_of(s) for s in sources))

    def path_of(self, source):
        return f"/{source.hash}/weights"


class Registry(Server):
    name = "docker-registry"

    def launch(self):
        conf = os.path.join(self.dir, "config.yml")
        with open(conf, "w", encoding="ascii") as f:
            json.dump({"version": 0.1, "log": {"level": "error", "accesslog": {"disabled": True}},
                       "storage": {"filesystem": {"rootdirectory": self.store}, "cache": {"blobdescriptor": "inmemory"}},
                       "http": {"addr": f"127.0.0.1:{self.port}"}, "health": {"storagedriver": {"enabled": False}}}, f)
        self.spawn(["docker-registry", "serve", conf])  # JSON is YAML

    def send(self, sources, patch=False, file=None):
        """2.8 calls fsync on a blob before it renames it into place, not on the directory: that is added here."""
        octets = ["-H", "Content-Type: application/octet-stream"]
        at = [self.call("POST", "/v2/bench/blobs/uploads/") for _ in sources]
        digests = [s.digest(file or s.tar) for s in sources]
        if patch:
            heads = run(*(self.curl_send(a, s.tar, *octets, "-X", "PATCH", "-D", "-", "-o", os.devnull)
                          for a, s in zip(at, sources)))
            at = [urllib.parse.urlsplit(re.search(r"(?im)^location: *(\S+)", h)[1]) for h in heads]
            for a, d in zip(at, digests):
                self.call("PUT", f"{a.path}?{a.query}&digest=sha256:{d}")
        else:
            run(*(self.curl_send(f"{a}&digest=sha256:{d}", file or s.tar, *octets)
                  for a, d, s in zip(at, digests, sources)))
        return durable(*(f"{self.store}/docker/registry/v2/blobs/sha256/{d[:2]}/{d}/data" for d in digests))

    def path_of(self, source, file=None):
        return f"/v2/bench/blobs/sha256:{source.digest(file or source.tar)}"


class Cairn(Server):
    name = "cairn"

    def start(self):
        self.spawn([self.bench.cairn, "serve", "--json", "--data-dir", self.store, "--listen", "127.0.0.1:0",
                    *self.bench.cairn_args], subprocess.PIPE)
        if not select.select([self.process.stdout], [], [], 60)[0]:
            raise RuntimeError("cairn serve says nothing")
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"cairn serve ended, see {self.log} (kept with --keep)")
        self.port = urllib.parse.urlsplit(json.loads(line)["listening"]).port

    def auth(self):
        token = os.environ.get("CAIRN_TOKEN")
        return {"Authorization": f"Bearer {token}"} if token else {}

    def send(self, sources):
        answers = run(*(self.curl_send(f"/v1/artifacts/{s.hash}", s.tar, "-H", "Content-Type: application/x-tar")
                        for s in sources))
        if any(a[-3:] != "201" for a in answers):
            raise RuntimeError(f"cairn: PUT answered {[a[-3:] for a in answers]}, not 201")

    def send_session(self, source):
        with open(os.path.join(source.dir, "header.json"), "rb") as f:
            at = self.call("POST", "/v1/uploads", f.read(), (201,), {"Content-Type": "application/json"})
        run(*(self.curl_send(f"{at}/files/{os.path.basename(f)}", f, "-X", "PATCH", "-H", "Upload-Offset: 0",
                             "-H", "Content-Type: application/partial-upload") for f in source.files))
        self.call("POST", f"{at}/finish", want=(201,))

    def path_of(self, source):
        return f"/v1/artifacts/{source.hash}/files/{source.header['weight_files'][0]}"

    def group_of(self, source):
        return f"/v1/artifacts/{source.hash}/groups/encoder.safetensors"

    def cli(self, *args):
        return [self.bench.cairn, *args, "--server", self.url(""), "--json"]
