#!/bin/sh
# Runs the tests of crates/xsk that Miri can follow: rings, pools and frames over the fake kernel, its memory on the
# heap. The tests know that they run under Miri, and take fixed cases instead of random ones. Then two threads with a
# ring between them, under MIRI_SEEDS (16) schedules, in which loads see old values where the memory order allows it.
set -eu
cd "$(dirname "$0")/.."
if ! cargo +nightly miri --version >/dev/null 2>&1; then
    echo "SKIPPED: Miri is not installed for any nightly toolchain (rustup component add miri --toolchain nightly)"
    exit 0
fi
# Seconds for each of building and running: against one that hangs. A machine that does nothing else needs 20.
LIMIT="${MIRI_LIMIT:-900}"
# Strict provenance: no pointer is made of a number. No isolation: proptest reads the environment.
export MIRIFLAGS="${MIRIFLAGS:-} -Zmiri-strict-provenance -Zmiri-disable-isolation"
# A test that panics on purpose need not say where: that takes Miri long.
export RUST_BACKTRACE=0

# limited <what> <command>...: fails with a line that says so when the command takes longer than LIMIT.
limited() {
    what=$1
    shift
    status=0
    timeout --kill-after=5 "$LIMIT" "$@" || status=$?
    if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
        echo "Miri: $what took more than $LIMIT s (MIRI_LIMIT)" >&2
    fi
    return "$status"
}

tests="--test model --test audit --test frames"
# shellcheck disable=SC2086 # The list is split on purpose.
limited "building the tests" cargo +nightly miri test -q -p xsk $tests --no-run
# shellcheck disable=SC2086
limited "running the tests" cargo +nightly miri test -p xsk $tests "$@"
export MIRIFLAGS="$MIRIFLAGS -Zmiri-many-seeds=0..${MIRI_SEEDS:-16}"
limited "two threads and a ring" cargo +nightly miri test -q -p mpps-io --lib two_threads
