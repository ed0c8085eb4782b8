#!/usr/bin/env bash
# Measures between two hosts: `reflect` on B under `sendrecv` on A flat out and at half of that, `ndr --quick`,
# `rfc2544 throughput --quick`; and writes it down as a section of bench/RESULTS.md, with NIC, driver, firmware, NUMA
# node, CPU, kernel and share of line rate.
#
#   PORT_A=PORT PORT_B=PORT DEST=ADDRESS:PORT scripts/two-hosts.sh A B [FOLDER]
#
# A and B are hosts as ssh knows them. Results go into FOLDER (default: two-hosts-results), which must be new or empty:
# JSON of each run, what each program said, and section.md.
#
# PORT_A, PORT_B     the ports, as `mpps` has them: af_xdp:eth1, dpdk:0000:03:00.0, udp:10.0.1.4
# DEST               address and UDP port of B, such as 10.0.1.5:9000
# SRC                address of A (default: what `mpps sendrecv` takes)
# REACH              how a script is run on a host: its words, of which HOST is A or B, then the script as one more word
#                    (default: ssh -o BatchMode=yes -o ServerAliveInterval=5 -o ServerAliveCountMax=3 HOST)
# SUDO               words before it on the host, such as "sudo -n" (default: none)
# MPPS               the program on the hosts (default: mpps)
# A_ARGS, B_ARGS     further options of all runs on A and of `reflect` on B, such as "--cores 2" or "--dest-mac …"
# TESTS              what to do (default: flat half ndr rfc2544; half comes after flat)
# ROUNDS, RUN_TIME, HALF_TIME   runs flat out (3), length of each (3s), of the run at half the rate (10s)
# NDR_ARGS           (default: --quick)
# RFC2544_ARGS       (default: --quick)
# RESULTS            file into which the section is put as well, in place of an earlier one, such as bench/RESULTS.md
#
# Nothing goes on running on a host when this ends, however it ends: each host's end of the connection is watched there,
# and what was started ends with it. A program that could not be told ends by itself after two hours.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

refuse() {
    echo "two-hosts: $*" >&2
    exit 2
}
die() {
    echo "two-hosts: $*" >&2
    exit 1
}

usage='want PORT_A=PORT PORT_B=PORT DEST=ADDRESS:PORT scripts/two-hosts.sh A B [FOLDER]'
[ $# -ge 2 ] && [ $# -le 3 ] || refuse "$# arguments: $usage"
A=$1 B=$2 out=${3:-two-hosts-results}
for host in "$A" "$B"; do
    # It becomes a word of ssh's command line: an option there would be another thing.
    [[ $host =~ ^[A-Za-z0-9_.:@%][A-Za-z0-9_.:@%-]*$ ]] || refuse "host '$host': want a name or an address"
done
for name in PORT_A PORT_B; do
    [[ ${!name-} =~ ^[a-z_]+:[^[:space:]]*$ ]] || refuse "$name='${!name-}': want a port such as af_xdp:eth1"
done
[[ ${DEST-} =~ ^[^[:space:]]+:[0-9]+$ ]] || refuse "DEST='${DEST-}': want address and UDP port of B: 10.0.1.5:9000"
[[ ${SRC-} =~ ^[^[:space:]]*$ ]] || refuse "SRC='$SRC': want an address of A"
ROUNDS=${ROUNDS:-3} RUN_TIME=${RUN_TIME:-3s} HALF_TIME=${HALF_TIME:-10s}
[[ $ROUNDS =~ ^[1-9][0-9]?$ ]] || refuse "ROUNDS='$ROUNDS': want a number from 1 to 99"
for name in RUN_TIME HALF_TIME; do
    [[ ${!name} =~ ^[0-9.]+(ms|s|m)$ ]] || refuse "$name='${!name}': want a time such as 3s"
done
TESTS=${TESTS:-flat half ndr rfc2544} flat=
for test in $TESTS; do
    case $test in
    flat) flat=1 ;;
    half) [ -n "$flat" ] || refuse "TESTS='$TESTS': want flat before half, which is half of its rate" ;;
    ndr | rfc2544) ;;
    *) refuse "TESTS='$TESTS': want some of flat half ndr rfc2544" ;;
    esac
done
REACH=${REACH:-ssh -o BatchMode=yes -o ServerAliveInterval=5 -o ServerAliveCountMax=3 HOST}
[[ " $REACH " == *' HOST '* ]] || refuse "REACH='$REACH': want HOST among its words"
[ ! -e "$out" ] || { [ -d "$out" ] && [ -z "$(ls -A "$out")" ]; } || refuse "'$out': want a new or an empty folder"
for tool in python3 mkfifo setsid; do
    command -v "$tool" >/dev/null || refuse "$tool is not installed"
done
mkdir -p "$out" || die "can't make the folder '$out'"

# quoted WORD…: as a shell reads them, in single quotes.
quoted() {
    local word
    for word in "$@"; do
        printf " '%s'" "${word//\'/\'\\\'\'}"
    done
}

# What runs on a host around the program: it ends with the program, and the program with the connection, which is
# standard input. By sudo, mpps would become the user who called, in a folder that is root's here.
# shellcheck disable=SC2016 # It is expanded there.
around='unset SUDO_UID SUDO_GID SUDO_USER
exec 3<&0 </dev/null
dir=$(mktemp -d) || exit 1
trap "rm -rf \"$dir\"" EXIT
export dir
"$@" 3<&- &
pid=$!
trap "kill $pid 2>/dev/null" INT TERM HUP
(
    while read -r _; do :; done <&3
    kill "$pid" 2>/dev/null
    tries=0
    while kill -0 "$pid" 2>/dev/null && [ "$tries" -lt 100 ]; do tries=$((tries + 1)); sleep 0.1; done
    kill -9 "$pid" 2>/dev/null
) >/dev/null 2>&1 &
watch=$!
exec 3<&-
while :; do
    wait "$pid"
    code=$?
    kill -0 "$pid" 2>/dev/null || break
done
kill "$watch" 2>/dev/null
[ -z "${RESULT-}" ] || cat "$dir/$RESULT" 2>/dev/null
exit "$code"'

# start HOST NAME CONNECTION RESULT COMMAND…: COMMAND on the host, in the background (`$!`). File NAME has its output,
# and after that the file RESULT of its folder there ($dir), if any; NAME.log has its messages. It ends when CONNECTION
# has no writer left.
start() {
    local host=$1 name=$2 connection=$3 result=$4 script words told i
    shift 4
    script="${SUDO-} env RESULT='$result' sh -c$(quoted "$around" sh "$@")"
    read -ra words <<<"$REACH"
    for i in "${!words[@]}"; do
        [ "${words[i]}" != HOST ] || words[i]=$host
    done
    if [[ $name != facts-* ]]; then
        # Of a program in a shell, the program.
        [ "$1" = sh ] && told=("${@:5}") || told=("$@")
        printf '%s: %s\n' "$host" "${told[*]}" >>"$out/commands"
    fi
    # In a session of its own: Ctrl-C is this script's alone, which then ends both ends in order.
    setsid "${words[@]}" "$script" <"$connection" >"$out/$name" 2>"$out/${name%.*}.log" 8>&- 9>&- &
}

private=$(mktemp -d) || die "can't make a temporary folder"
reflector='' sender=''
finish() {
    trap '' INT TERM HUP
    # No writer is left: what runs on the hosts is ended there.
    exec 8>&- 9>&-
    local pid tries
    for pid in $sender $reflector; do
        tries=0
        while kill -0 "$pid" 2>/dev/null && [ "$tries" -lt 150 ]; do
            tries=$((tries + 1))
            sleep 0.1
        done
        kill "$pid" 2>/dev/null
    done
    rm -rf "$private"
}
trap finish EXIT
trap 'echo "two-hosts: interrupted" >&2; exit 130' INT
trap 'echo "two-hosts: ended" >&2; exit 143' TERM HUP

mkfifo "$private/a" "$private/b" || die "can't make a pipe"
# Open for both, so that opening waits for nobody; this script is their only writer.
exec 9<>"$private/a" 8<>"$private/b"

# pause: a moment, without a process, as A may be this host. Nothing is ever written to the connection.
pause() {
    read -rt 0.1 -u 9 _ || true
}

# last NAME: the last line that a program said.
last() {
    grep -v '^[[:space:]]*$' "$out/$1.log" | tail -n 1 || true
}

# on_a NAME RESULT COMMAND…: on A while B's end lives. 3 is done, but not valid or not complete: the section says so.
on_a() {
    local name=$1 status=0
    start "$A" "$name" "$private/a" "${@:2}"
    sender=$!
    while kill -0 "$sender" 2>/dev/null; do
        kill -0 "$reflector" 2>/dev/null || { reflector=; die "$B: reflect ended before its time: $(last reflect)"; }
        pause
    done
    wait "$sender" || status=$?
    sender=
    [ "$status" -eq 0 ] || [ "$status" -eq 3 ] || die "$A: ${name%.*} ended with $status: $(last "${name%.*}")"
}

# facts HOST NAME PORT: what is measured on what.
facts() {
    # shellcheck disable=SC2016 # It is expanded there.
    start "$1" "$2.txt" "$private/a" '' sh -c "$(cat "$here/two-hosts-facts.sh")" sh "$3" "${MPPS:-mpps}"
    sender=$!
    local status=0
    wait "$sender" || status=$?
    sender=
    [ "$status" -eq 0 ] || die "$1: can't be asked ($status): $(last "$2")"
}

say() {
    echo "two-hosts: $*" >&2
}

say "asking $A and $B"
facts "$A" facts-a "$PORT_A"
facts "$B" facts-b "$PORT_B"

say "reflect on $B"
# shellcheck disable=SC2086 # Options, split on purpose.
start "$B" reflect.json "$private/b" '' "${MPPS:-mpps}" reflect "$PORT_B" --plain --json - --duration 2h \
    ${B_ARGS-}
reflector=$!
tries=0
until grep -q 'is ready on' "$out/reflect.log"; do
    kill -0 "$reflector" 2>/dev/null || { reflector=; die "$B: reflect: $(last reflect)"; }
    tries=$((tries + 1))
    pause
    [ "$tries" -lt 600 ] || die "$B: reflect was not ready within a minute"
done

# shellcheck disable=SC2206 # Options, split on purpose.
ends=("$PORT_A" ${SRC:+--src "$SRC"} --dest "$DEST" ${A_ARGS-})
# highest: the median rate flat out, in whole packets a second; nothing if there is none.
highest() {
    python3 "$here/../bench/two_hosts.py" highest "$out" 2>/dev/null
}
for test in $TESTS; do
    say "$test on $A"
    case $test in
    flat)
        for round in $(seq "$ROUNDS"); do
            on_a "flat-$round.json" '' "${MPPS:-mpps}" sendrecv "${ends[@]}" --duration "$RUN_TIME" --quiet --json -
        done
        ;;
    half)
        rate=$(highest) || die "$A: no packet came back from $DEST"
        on_a half.json '' "${MPPS:-mpps}" sendrecv "${ends[@]}" --rate "$((rate / 2))pps" --duration "$HALF_TIME" \
            --quiet --json -
        ;;
    ndr | rfc2544)
        most=()
        # Programs in the kernel are made for a highest rate and one size.
        if [[ $PORT_A == xdp:* ]]; then
            rate=$(highest) || die "$test: a search on xdp wants flat before it, and packets that come back"
            most=(--max-rate "${rate}pps")
            [ "$test" = ndr ] || most+=(--sizes 64)
        fi
        kind=$test
        [ "$test" = ndr ] || kind='rfc2544 throughput'
        given=${NDR_ARGS---quick}
        [ "$test" = ndr ] || given=${RFC2544_ARGS---quick}
        # Into a folder on the host, which goes with the run.
        # shellcheck disable=SC2016,SC2086 # Expanded there; options, split on purpose.
        on_a "$test.json" out/result.json sh -c 'exec "$@" --out "$dir/out" >/dev/null' sh "${MPPS:-mpps}" $kind \
            "${ends[@]}" "${most[@]}" $given
        ;;
    esac
done

say "ending reflect on $B"
exec 8>&-
status=0
wait "$reflector" || status=$?
reflector=
[ "$status" -eq 0 ] || [ "$status" -eq 3 ] || [ "$status" -eq 143 ] || die "$B: reflect: $(last reflect)"
python3 "$here/../bench/two_hosts.py" section "$out" ${RESULTS:+"$RESULTS"} || die "the section could not be written"
say "$out/section.md"
