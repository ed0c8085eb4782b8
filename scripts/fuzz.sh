#!/usr/bin/env bash
# Runs each fuzz target for FUZZ_SECONDS (default 60), beginning with its corpus. Stops at the first crash, whose
# input cargo-fuzz leaves under fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="${HOME:-/root}/.cargo/bin:$PATH"
for target in $(cargo +nightly fuzz list); do
    echo "fuzz: $target for ${FUZZ_SECONDS:-60} s"
    cargo +nightly fuzz run "$target" -- -max_total_time="${FUZZ_SECONDS:-60}"
done
