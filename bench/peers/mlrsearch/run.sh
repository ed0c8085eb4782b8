#!/usr/bin/env bash
# Searches by mpps and by the PyPI package MLRsearch on the same simulated devices: bench/peers/mlrsearch/run.sh [SEEDS]
set -euo pipefail
cd "$(dirname "$0")/../../.."
venv=target/mlrsearch
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -c 'import MLRsearch' 2>/dev/null || "$venv/bin/pip" install --quiet MLRsearch==1.2.1
cargo build --quiet --release -p mpps-methods --example simulate
"$venv/bin/python" bench/peers/mlrsearch/peer.py target/release/examples/simulate "${1:-100}"
