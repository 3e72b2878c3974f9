#!/bin/sh
# Runs each fuzz target for a short time, from seeds made of the golden vectors.
#
#     fuzz/smoke.sh [SECONDS]       20 by default
#
# Needs a nightly compiler and `cargo install cargo-fuzz --locked`; without them it fails. The same checks run as
# property tests on the stable compiler (tests/it/properties.rs).
set -eu

cd "$(dirname "$0")"
seconds=${1:-20}
golden=../tests/golden/lensemble

if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
    echo "cargo-fuzz or a nightly compiler is not installed: cargo install cargo-fuzz --locked" >&2
    exit 2
fi

seed() {
    mkdir -p "seeds/$1"
    cp "$2" "seeds/$1/$(printf '%s' "$2" | cksum | cut -d' ' -f1)"
}

rm -rf seeds
find "$golden/checkpoints" "$golden/checkpoints-negative" "$golden/chains" -type f -name '*.safetensors' -size -64k |
    while read -r file; do seed decoder "$file"; done
find "$golden" -type f -name header.json -size -64k | while read -r file; do seed header "$file"; done
mkdir -p seeds/tar seeds/range seeds/intake
for name in single-fp32 shards-3 mixed-dtypes zero-size; do
    dir=$golden/checkpoints/$name
    for format in ustar pax gnu; do
        (cd "$dir" && tar --format=$format -cf - header.json *.safetensors) >"seeds/tar/$name-$format"
    done
done
number=0
for text in bytes=0- bytes=5-9 bytes=-3 bytes=3-2 bytes=0-0,2-3 bytes=99999999999999999999- items=1-2; do
    printf '\144\0\0\0\0\0\0\0%s' "$text" >"seeds/range/$number"
    number=$((number + 1))
done
printf '\0\021\042\063\361\104\370\125' >seeds/intake/0
printf '\003\000\020\040\360\060\100\120' >seeds/intake/1

find "$golden/manifests" "$golden/commitments" "$golden/reports" "$golden/manifests-negative" -type f -size -64k |
    while read -r file; do seed document "$file"; done
find "$golden/ledger" "$golden/ledger-negative" -type f | while read -r file; do seed ledger "$file"; done
head -n 1 "$golden/ledger/escapes.jsonl" >seeds/ledger/record
find "$golden/probes" "$golden/probes-negative" -type f | while read -r file; do seed probe "$file"; done

for target in decoder header tar range intake document ledger probe; do
    echo "== $target"
    mkdir -p "corpus/$target"
    cargo +nightly fuzz run "$target" "corpus/$target" "seeds/$target" -- \
        -max_total_time="$seconds" -max_len=65536 -timeout=10 -rss_limit_mb=2048 -verbosity=0
done
echo "every target held"
