#!/bin/sh
# Checks xsk and mpps with the oldest Rust that Cargo.toml promises (rust-version), where rustup has it.
set -eu
cd "$(dirname "$0")/.."
oldest=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
if ! cargo "+$oldest" --version >/dev/null 2>&1; then
    echo "SKIPPED: Rust $oldest is not installed (rustup toolchain install $oldest --profile minimal)"
    exit 0
fi
# In a target directory of its own, so that neither compiler throws the other's objects away.
export CARGO_TARGET_DIR="${MPPS_MSRV_TARGET:-target/msrv}"
cargo "+$oldest" check -q --locked -p xsk --all-features
cargo "+$oldest" check -q --locked -p mpps
echo "msrv: xsk and mpps build with Rust $oldest"
