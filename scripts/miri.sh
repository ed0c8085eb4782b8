#!/bin/sh
# Runs the tests of crates/xsk that Miri can follow: rings, pools and frames over the fake kernel, its memory on the heap.
set -eu
cd "$(dirname "$0")/.."
if ! cargo +nightly miri --version >/dev/null 2>&1; then
    echo "SKIPPED: Miri is not installed for any nightly toolchain (rustup component add miri --toolchain nightly)"
    exit 0
fi
# Strict provenance: no pointer is made of a number. No isolation: proptest reads the environment.
export MIRIFLAGS="${MIRIFLAGS:-} -Zmiri-strict-provenance -Zmiri-disable-isolation"
exec cargo +nightly miri test -p xsk --lib --test model --test audit --test frames "$@"
