#!/usr/bin/env bash
# Builds mpps without DPDK where DPDK is installed, and holds what such a build promises: its tests pass, the dpdk path
# is refused in one line that says what to do, and doctor says that it is left out.
#
# In a target directory of its own, so that neither build throws the other's objects away. Where DPDK is not installed,
# every build is such a one, and this has nothing to add.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="${HOME:-/root}/.cargo/bin:$PATH"

if [ "${MPPS_NO_DPDK:-0}" != 0 ] || ! pkg-config --exists libdpdk 2>/dev/null; then
    echo "no-dpdk: this build is without DPDK as it is"
    exit 0
fi
export MPPS_NO_DPDK=1
export CARGO_TARGET_DIR=${MPPS_NO_DPDK_TARGET:-target/no-dpdk}

# One call builds tests and program: a build of the program alone would make most dependencies once more, with other
# features. `--test library` is what asks for the program.
tests=(-p mpps-dpdk -p mpps-run -p mpps --lib --bins --test library)
cargo test -q "${tests[@]}"
program=$CARGO_TARGET_DIR/debug/mpps

# expect WHAT PATTERN TEXT
expect() {
    if ! grep -q "$2" <<<"$3"; then
        printf 'no-dpdk: %s: want "%s" in: %s\n' "$1" "$2" "$3" >&2
        exit 1
    fi
}

if said=$("$program" send dpdk:net_null0 --duration 1s 2>&1); then
    echo "no-dpdk: a build without DPDK opened dpdk:net_null0: $said" >&2
    exit 1
fi
expect 'send dpdk:net_null0' 'built without DPDK' "$said"
expect 'send dpdk:net_null0' 'libdpdk-dev' "$said"
# Which other paths work here is not the matter.
said=$("$program" doctor --json || true)
expect 'doctor' 'made without libdpdk' "$said"
echo "no-dpdk: tests pass, dpdk: is refused with what to do, doctor says that it is left out"
