#!/usr/bin/env bash
# Measures mpps side by side with other programs and writes bench/RESULTS.md. `make bench` builds first, then runs this.
#
#   bench/run.sh [SECTION…]      engine udp af_packet af_xdp xdp dpdk latency stats growth (nothing given: all)
#
# BENCH_ROUNDS=5           how often each pair is alternated
# BENCH_SECONDS=3          length of one run
# BENCH_STEADY_SECONDS=60  length of the paced no-loss and no-dip runs
# BENCH_LONG=1             adds the 10 min runs
# MPPS_BIN=…               the program to measure (default: target/release/mpps)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
export PYTHONDONTWRITEBYTECODE=1
# By sudo, mpps would become the user who called, in folders that are root's here.
unset SUDO_UID SUDO_GID SUDO_USER
command -v python3 >/dev/null || { echo 'bench: python3 is not installed (apt-get install -y python3)' >&2; exit 1; }
exec python3 "$here/bench.py" "$@"
