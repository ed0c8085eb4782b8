#!/usr/bin/env bash
# Builds mpps by profile-guided optimisation: once with counters, runs of the workloads that need no device, and once
# more with what they counted. The program is target/pgo/mpps; docs/research/builds.md has what it brings.
#
#   scripts/pgo.sh        PGO_SECONDS=2: length of each run
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="${HOME:-/root}/.cargo/bin:$PATH"
host=$(rustc -vV | sed -n 's/^host: //p')
# The one of this rustc: a distribution's may be older than the format of the counters.
profdata=$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata
[ -x "$profdata" ] || { echo 'pgo: llvm-profdata is missing: rustup component add llvm-tools' >&2; exit 1; }
folder=$PWD/target/pgo
counts=$folder/counts
rm -rf "$counts"
mkdir -p "$counts"

# build FLAGS: with a target named, so that the flags are not those of build scripts and macros.
build() {
    RUSTFLAGS="${RUSTFLAGS:-} $1" cargo build --release -p mpps --target "$host" --target-dir "$folder"
}
built=$folder/$host/release/mpps

build "-C profile-generate=$counts"
# run WORDS…: 3 is done, but not valid: with counters, and as fast as can be, that is no surprise.
run() {
    local status=0
    "$built" "$@" --lanes 1 --duration "${PGO_SECONDS:-2}s" --quiet || status=$?
    [ "$status" -eq 0 ] || [ "$status" -eq 3 ] || { echo "pgo: mpps $* ended with $status" >&2; exit 1; }
}
run send null:
run send null: --frame-size 512
run drop null:
run sendrecv loop:
run sendrecv loop: --rate 100kpps --settle 100ms
run forward null: --mode 5tswap
if "$built" send dpdk:net_null0,no-rx=1 --dest-mac 02:00:00:00:00:02 --lanes 1 --duration 100ms --quiet; then
    run send dpdk:net_null0,no-rx=1 --dest-mac 02:00:00:00:00:02
    run reflect dpdk:net_null0,size=60
fi
"$profdata" merge -o "$folder/merged.profdata" "$counts"

build "-C profile-use=$folder/merged.profdata"
cp "$built" "$folder/mpps"
echo "pgo: $folder/mpps"
