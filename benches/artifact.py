#!/usr/bin/env python3
"""Makes checkpoints of any size quickly, for benchmarks and trials by hand.

    artifact.py OUTDIR --size-mib 1024 --layout ordered|shuffled|shards [--seed S] [--tar FILE]
    artifact.py --check DIR...      recompute each directory's content hash against its header

A checkpoint looks like a vision transformer: 445 fp32 tensors named encoder.* and predictor.*, ordinary finite
values. Another seed gives other bytes in every tensor.
"""
import argparse
import hashlib
import json
import os
import random
import shutil
import struct
import sys
import tarfile
import threading

CODES = {"F32": ("float32", 4), "F16": ("float16", 2), "BF16": ("bfloat16", 2)}
GROUPS = ["encoder", "predictor"]
POOL = 8 << 20
ORDER = {"F32": 0, "BF16": 1, "F16": 2}  # as the safetensors library lays out dtypes


def shapes_for(size):
    """Name -> shape of a transformer whose fp32 weights take about `size` bytes."""
    def blocks(prefix, depth, width):
        for i in range(depth):
            at = f"{prefix}.blocks.{i}"
            for norm in ("norm1", "norm2"):
                yield f"{at}.{norm}.weight", (width,)
                yield f"{at}.{norm}.bias", (width,)
            for name, rows, cols in (("attn.qkv", 3, 1), ("attn.proj", 1, 1), ("mlp.fc1", 4, 1), ("mlp.fc2", 1, 4)):
                yield f"{at}.{name}.weight", (rows * width, cols * width)
                yield f"{at}.{name}.bias", (rows * width,)

    def model(width):
        narrow = width * 3 // 8
        out = dict(blocks("encoder", 24, width))
        out.update(blocks("predictor", 12, narrow))
        out.update({
            "encoder.patch_embed.proj.weight": (width, 3, 2, 16, 16), "encoder.patch_embed.proj.bias": (width,),
            "encoder.norm.weight": (width,), "encoder.norm.bias": (width,),
            "predictor.embed.weight": (narrow, width), "predictor.embed.bias": (narrow,),
            "predictor.mask_token": (1, 1, narrow), "predictor.pos_embed": (1, 196, narrow),
            "predictor.norm.weight": (narrow,), "predictor.norm.bias": (narrow,),
            "predictor.proj.weight": (width, narrow), "predictor.proj.bias": (width,),
        })
        return out

    def weigh(shapes):
        return sum(4 * product(s) for s in shapes.values())

    width = 16
    while weigh(model(width + 16)) < size:
        width += 16
    shapes = model(width)
    rest = max(1, (size - weigh(shapes)) // (4 * width))
    shapes["encoder.pos_embed"] = (1, rest, width)  # takes up what is left over
    return shapes


def product(shape):
    n = 1
    for d in shape:
        n *= d
    return n


class Weights:
    """Element bytes for every tensor, cut out of one pool of seeded random floats at a seeded offset."""

    def __init__(self, size, seed):
        rng = random.Random(seed)
        pool = bytearray(rng.randbytes(POOL))
        # Exponents that give values around +-0.01 ... +-0.5, never NaN or infinity.
        pool[3::4] = bytes(pool[3::4]).translate(bytes((0x3C, 0x3D, 0x3E, 0xBC, 0xBD, 0xBE, 0x3D, 0xBD) * 32))
        self.pool = memoryview(bytes(pool) * 2)
        self.shapes = shapes_for(size)
        self.names = sorted(self.shapes)
        self.starts = {name: 4 * rng.randrange(POOL // 4) for name in self.names}

    def size(self, name):
        return 4 * product(self.shapes[name])

    def chunks(self, name):
        left, start = self.size(name), self.starts[name]
        while left:
            n = min(left, POOL)
            yield self.pool[start:start + n]
            left -= n

    def tensor(self, name):
        return name, "F32", self.shapes[name], lambda: self.chunks(name)


def container_head(entries, bare=False):
    """The safetensors length and JSON for (name, code, shape) in data order, as the library writes them."""
    table, at = {}, 0
    for name, code, shape in entries:
        end = at + CODES[code][1] * product(shape)
        table[name.split(".", 1)[1] if bare else name] = {"dtype": code, "shape": list(shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(table, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def canonical_hash(header, tensors):
    """H1 of (name, code, shape, chunks()) in any order."""
    h = hashlib.sha256(b"lensemble/artifact/v1\0tensors\0")
    for name, code, shape, chunks in sorted(tensors, key=lambda t: t[0].encode()):
        raw, token = name.encode(), CODES[code][0].encode()
        h.update(struct.pack("<I", len(raw)) + raw + bytes([len(token)]) + token
                 + struct.pack(f"<I{len(shape)}Q", len(shape), *shape))
        for chunk in chunks():
            h.update(chunk)
    frame = {k: header[k] for k in ("round_index", "schema_version", "wmcp_version")}
    frame["param_groups"] = sorted(header["param_groups"])
    frame["parent_hash"] = header["parent_hash"] or ""
    frame = json.dumps(frame, sort_keys=True, separators=(",", ":")).encode()
    h.update(b"\0struct\0" + struct.pack("<I", len(frame)) + frame)
    return h.hexdigest()


def read_dir(path):
    """Header and tensors of a checkpoint directory, as canonical_hash() takes them."""
    with open(os.path.join(path, "header.json"), encoding="utf-8") as f:
        header = json.load(f)
    tensors = []
    for file in header["weight_files"]:
        file = os.path.join(path, file)
        with open(file, "rb") as f:
            n = struct.unpack("<Q", f.read(8))[0]
            table = json.loads(f.read(n))
        table.pop("__metadata__", None)
        for name, e in table.items():
            def chunks(file=file, at=8 + n + e["data_offsets"][0], left=e["data_offsets"][1] - e["data_offsets"][0]):
                with open(file, "rb") as f:
                    f.seek(at)
                    while left:
                        chunk = f.read(min(left, 1 << 20))
                        left -= len(chunk)
                        yield chunk
            tensors.append((name, e["dtype"], e["shape"], chunks))
    return header, tensors


def group_file(path, group, out):
    """Writes one parameter group with bare names, as the registry serves it; returns its SHA-256 (H2)."""
    _, tensors = read_dir(path)
    tensors = [t for t in tensors if t[0].split(".", 1)[0] == group]
    tensors.sort(key=lambda t: (ORDER[t[1]], t[0].encode()))
    h = hashlib.sha256()
    with open(out, "wb") as f:
        def put(b):
            f.write(b)
            h.update(b)
        put(container_head([t[:3] for t in tensors], bare=True))
        for t in tensors:
            for chunk in t[3]():
                put(chunk)
    return h.hexdigest()


def group_size(path, group):
    entries = [t[:3] for t in read_dir(path)[1] if t[0].split(".", 1)[0] == group]
    return len(container_head(entries, bare=True)) + sum(CODES[c][1] * product(s) for _, c, s in entries)


def write_tar(path, out):
    """The directory as the registry takes it: uncompressed ustar, header.json first."""
    with open(os.path.join(path, "header.json"), encoding="utf-8") as f:
        files = ["header.json"] + json.load(f)["weight_files"]
    with tarfile.open(out, "w", format=tarfile.USTAR_FORMAT, copybufsize=1 << 20) as tar:
        for name in files:
            info = tar.gettarinfo(os.path.join(path, name), name)
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            with open(os.path.join(path, name), "rb") as f:
                tar.addfile(info, f)


def make(out, size_mib, layout="ordered", seed=0, shards=4):
    """Writes a checkpoint directory and returns its header."""
    size = size_mib << 20
    w = Weights(size, f"{seed}/{layout}/{size_mib}")
    order = list(w.names)
    if layout == "shuffled":
        random.Random(seed).shuffle(order)
    files = [("weights.safetensors", order)]
    if layout == "shards":
        total, at, parts = sum(map(w.size, order)), 0, [[] for _ in range(shards)]
        for name in order:
            parts[min(shards - 1, at * shards // total)].append(name)
            at += w.size(name)
        files = [(f"weights-{i:05}-of-{shards:05}.safetensors", names) for i, names in enumerate(parts)]
    header = {
        "schema_version": 2, "content_hash": None, "parent_hash": None, "wmcp_version": "wmcp-1.0.0", "round_index": 0,
        "config_hash": hashlib.sha256(b"benchmark").hexdigest(), "param_groups": GROUPS,
        "tensor_manifest": [{"name": n, "group": n.split(".")[0], "dtype": "float32", "shape": list(w.shapes[n])}
                            for n in w.names],
        "weight_files": [name for name, _ in files], "created_at": "2026-01-01T00:00:00Z", "model_arch": None,
    }

    def hash_it():
        header["content_hash"] = canonical_hash(header, map(w.tensor, w.names))

    hasher = threading.Thread(target=hash_it)
    hasher.start()
    os.makedirs(out)
    for file, names in files:
        with open(os.path.join(out, file), "wb", buffering=0) as f:
            f.write(container_head([(n, "F32", w.shapes[n]) for n in names]))
            for name in names:
                for chunk in w.chunks(name):
                    while chunk:
                        chunk = chunk[f.write(chunk):]
    hasher.join()
    with open(os.path.join(out, "header.json"), "w", encoding="utf-8") as f:
        json.dump(header, f, indent=2, ensure_ascii=False)
    return header


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out", metavar="OUTDIR", nargs="?")
    p.add_argument("--size-mib", type=int, default=64)
    p.add_argument("--layout", choices=("ordered", "shuffled", "shards"), default="ordered")
    p.add_argument("--shards", type=int, default=4)
    p.add_argument("--seed", default="0")
    p.add_argument("--tar", metavar="FILE", help="also as a tar")
    p.add_argument("--force", action="store_true", help="replace OUTDIR")
    p.add_argument("--check", metavar="DIR", nargs="+")
    a = p.parse_args()
    if a.check:
        bad = 0
        for path in a.check:
            header, tensors = read_dir(path)
            got = canonical_hash(header, tensors)
            bad += got != header["content_hash"]
            print("ok " if got == header["content_hash"] else "BAD", got, path)
        return 1 if bad else 0
    if not a.out:
        p.error("OUTDIR is missing")
    if os.path.exists(a.out):
        if not a.force:
            p.error(f"{a.out} exists")
        shutil.rmtree(a.out)
    print(make(a.out, a.size_mib, a.layout, a.seed, a.shards)["content_hash"])
    if a.tar:
        write_tar(a.out, a.tar)
    return 0


if __name__ == "__main__":
    sys.exit(main())
