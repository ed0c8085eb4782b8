#!/usr/bin/env bash
# Measures mpps side by side with other programs and writes bench/RESULTS.md. `make bench` builds first, then runs this.
#
#   bench/run.sh [SECTION…]      engine udp io_uring af_packet af_xdp xdp dpdk latency stats growth ndr l2fwd_study
#                                pairs bursts two_links long views isolation streams replay
#                                (nothing given: all)
#   bench/run.sh --mark          measures nothing; says below each section whether the code has changed since
#
# A section with a rate of 0, or in which a program refused its work, fails: it says so, and the exit code is 1.
#
# BENCH_ROUNDS=5           how often each pair is alternated
# BENCH_SECONDS=3          length of one run
# BENCH_STEADY_SECONDS=60  length of the paced no-loss and no-dip runs
# BENCH_LONG=1             adds the 10 min runs; long: 20 min instead of BENCH_STEADY_SECONDS; replay: 10 min of drift,
#                          with BENCH_QUICK, too
# BENCH_QUICK=1            ndr, l2fwd_study, pairs, bursts, two_links: coarser bounds, three frame sizes, three sizes
#                          of bursts; replay: a drift of 20 s in place of 10 min
# BENCH_RIGS=veth,memif    ndr: on what
# BENCH_DEVICES='mpps forward,C l2fwd,testpmd io,testpmd macswap,testpmd 5tswap,Linux bridge,Linux router'
#                          ndr: of which devices
# BENCH_GOAL=…             ndr, two_links: another goal, as `mpps ndr --goal` has it
# BENCH_WAYS=one-way,both-ways
#                          two_links: in which directions
# BENCH_LINKS='mpps forward,mpps forward busy-poll,xsk l2fwd,afxdp l2fwd-2link,C libxdp,C libxdp poll,
# testpmd io,testpmd io busy_budget=0'
#                          two_links: of which devices
# BENCH_RATE=20kpps        isolation: what is sent
# BENCH_SIZES=64,1518      l2fwd_study: some of its 26 frame sizes
# BENCH_STUDY_ROUNDS=2     l2fwd_study: searches of each size and program
# BENCH_NEURING=…          pairs: the DPDK article's baseline program, built already (else it is fetched and built)
# BENCH_METHOD_ARGS=…      ndr, l2fwd_study, two_links: further options of the tester, such as '--catch-up 20ms'
# BENCH_DATA=bench/data    where io_uring, ndr, l2fwd_study, pairs, bursts, two_links, long keep raw data (CSV)
# MPPS_BIN=…               the program to measure (default: target/release/mpps)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
export PYTHONDONTWRITEBYTECODE=1
# By sudo, mpps would become the user who called, in folders that are root's here.
unset SUDO_UID SUDO_GID SUDO_USER
command -v python3 >/dev/null || { echo 'bench: python3 is not installed (apt-get install -y python3)' >&2; exit 1; }
exec python3 "$here/bench.py" "$@"
