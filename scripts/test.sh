#!/usr/bin/env bash
# Runs every test, and ends with a list of those that failed: where each is and the last lines of what it said.
#
#   scripts/test.sh [--retry] [ARGUMENT of cargo test]...
#
# --retry, for the continuous integration, runs each failed test once more, by itself. One that passes then is named as
# UNSURE and fails nothing: it is a test to mend, not a change to refuse. Without it one failure is a failure.
#
# Everything is built first. Then TEST_JOBS test files run side by side, since most of them wait for packets most of the
# time; what a file printed is shown when it has ended. A test makes its own labs, sockets and files under names that no
# other process has, so files share the processors and nothing else. ALONE below lists those that do not.
#
# Cargo calls this script as well, as the runner of each test binary (--queue BINARY ARGUMENT...), and so says which
# there are, in which directory and environment. MPPS_BIN is the program that the whole-program tests run.
set -uo pipefail

CARGO=${CARGO:-cargo}
# Files that run at a time: two more than there are processors, since most wait; three to five.
CORES=$(nproc 2>/dev/null || echo 2)
TEST_JOBS=${TEST_JOBS:-$((CORES < 1 ? 3 : CORES > 3 ? 5 : CORES + 2))}
# Seconds that one file may take: a test that hangs is to be found by its name, not by the end of everything.
FILE_LIMIT=${TEST_FILE_LIMIT:-1200}
# So many failures are no chance: none of them is tried again.
MANY=4
# Lines of a failed test's output that the list shows.
LINES_SHOWN=15

# These begin first, so that no long one is left over at the end. The order is for speed only: the others follow as
# cargo names them.
FIRST=("doc tests" "tests/recipes.rs" "tests/xdp.rs" "tests/loops.rs" "tests/dpdk_faults.rs" "tests/dpdk.rs"
    "tests/dpdk_forward.rs" "tests/xdp_faults.rs" "crates/mpps/tests/sessions.rs" "crates/host/src"
    "tests/dpdk_hostile.rs" scripts/python.sh)
# These run by themselves after all others, one after the other. Each needs its reason here: their searches count a
# trial in which a lane was kept from running as void, and go on until enough of them count.
ALONE=("tests/ndr.rs" "tests/rfc2544.rs" "tests/overload.rs" "tests/compare.rs")

# record WHERE NAME OUTPUT-FILE COMMAND...: one failure. COMMAND runs it again, from this directory, with this
# environment.
record() {
    local place
    place=$(mktemp -d "$TEST_DIR/failed/$(date +%s%N)-XXXXXX")
    printf '%s\n' "$1" >"$place/where"
    printf '%s\n' "$2" >"$place/name"
    cp "$3" "$place/output"
    shift 3
    [ $# -gt 0 ] || return 0
    {
        export -p
        printf 'cd %q\n' "$PWD"
        printf 'exec'
        printf ' %q' "$@"
        echo
    } >"$place/again"
}

# count LOG: adds the results that the log tells to those so far, "passed failed ignored" a line.
count() {
    sed -n 's/^test result: [A-Za-z]*\. \([0-9]*\) passed; \([0-9]*\) failed; \([0-9]*\) ignored.*/\1 \2 \3/p' "$1" \
        >>"$TEST_DIR/counts"
}

# failures LOG: "rerun arguments|name" of each failed test. The arguments are those that cargo names after the list.
failures() {
    awk '
        function flush(args) { for (i = 0; i < n; i++) print args "|" name[i]; n = 0 }
        # The last list of this title is that of the names; the one before holds what they printed.
        /^failures:$/ { on = 1; count = 0; next }
        /^(successes:$|test result: )/ { for (i = 0; on && i < count; i++) name[n++] = held[i]; on = 0 }
        on && /^    [^ ]/ { held[count++] = substr($0, 5) }
        /to rerun pass `/ { args = $0; sub(/.*to rerun pass `/, "", args); sub(/`.*/, "", args); flush(args) }
        END { flush("") }
    ' "$1"
}

# said LOG NAME: what the failed test printed.
said() {
    awk -v start="---- $2 stdout ----" '
        $0 == start { on = 1; found = ""; next }
        on && (/^---- .* stdout ----$/ || /^failures:$/) { on = 0 }
        on { found = found $0 "\n" }
        END { printf "%s", found }
    ' "$1"
}

# how STATUS: how a process ended, in words.
how() {
    case "$1" in
        124) echo "took more than $FILE_LIMIT s (TEST_FILE_LIMIT)" ;;
        129 | 1[3-9]? | 2??) echo "killed by signal $(($1 - 128)) ($(kill -l "$(($1 - 128))" 2>/dev/null))" ;;
        *) echo "ended with exit code $1" ;;
    esac
}

# shown LOG COMMAND...: the command's exit code; its output goes to the log and is shown while it runs.
shown() {
    local log=$1
    shift
    # Without the list of what was built.
    "$@" 2>&1 | tee "$log" | grep -v '^  Executable '
    return "${PIPESTATUS[0]}"
}

# The runner that cargo calls: the test binary's turn comes later, in the directory and environment that cargo gives it.
queue_file() {
    local stem where place
    stem=$(basename "$1")
    stem=${stem%-*}
    for where in "tests/$stem.rs" "$stem.rs" "tests/$stem/main.rs" src; do
        [ -e "$where" ] && break
    done
    where=$(realpath --relative-to="$TEST_ROOT" "$where")
    # Cargo calls one runner at a time.
    place=$TEST_DIR/queue/$(printf '%04d' "$(find "$TEST_DIR/queue" -mindepth 1 | wc -l)")
    {
        export -p
        printf 'cd %q\n' "$PWD"
        printf 'exec'
        printf ' %q' "$TEST_ROOT/scripts/test.sh" --run "$where" "$TEST_DIR/logs/${where//\//-}.$stem.log" "$@"
        echo
    } >"$place"
    printf '%s\t%s\n' "$place" "$where" >>"$TEST_DIR/queued"
}

# Runs one test binary, whose output goes to LOG: WHERE LOG BINARY ARGUMENT...
run_file() {
    local where=$1 log=$2 binary=$3 status=0 name started=$SECONDS
    shift 2
    # The shell's own words about a signal come below, in ours.
    { timeout --foreground --kill-after=5 "$FILE_LIMIT" "$@" >"$log" 2>&1; } 2>/dev/null || status=$?
    took "$started" "$where"
    count "$log"
    if ! grep -q '^test result: ' "$log"; then
        # Killed, or ended by a call of exit: nobody says which test it was, so all that had not ended are named.
        {
            echo "the test binary $(how "$status"); not ended, or not begun:"
            "$binary" --list 2>/dev/null | sed -n 's/: test$//p' | while read -r name; do
                grep -q "^test $name \.\.\. \(ok\|ignored\)" "$log" || echo "    $name"
            done | head -n 40
        } >"$log.ended"
        echo "0 1 0" >>"$TEST_DIR/counts"
        record "$where" "(the whole file)" "$log.ended" "$@" --test-threads=1
        return 1
    fi
    [ "$status" -ne 0 ] || return 0
    while IFS='|' read -r _ name; do
        said "$log" "$name" >"$log.said"
        record "$where" "$name" "$log.said" "$binary" --exact "$name" --test-threads=1 --show-output
    done < <(failures "$log")
    return "$status"
}

# took STARTED NAME: how long it took.
took() {
    echo "$((SECONDS - $1)) $2" >>"$TEST_DIR/times"
}

# log_of TITLE
log_of() {
    echo "$TEST_DIR/logs/step-${1//[ \/]/-}.log"
}

# broken TITLE WHAT LOG [COMMAND...]: records that a step failed, of which no single test is known.
broken() {
    local title=$1 what=$2 log=$3
    shift 3
    grep -A 12 '^error' "$log" | grep -v 'to rerun pass' | head -n "$LINES_SHOWN" >"$log.said"
    [ -s "$log.said" ] || tail -n "$LINES_SHOWN" "$log" >"$log.said"
    # A step that tests is counted as it counts itself.
    awk '/^test result: FAILED/ { found = 1 } END { exit !found }' "$log" || echo "0 1 0" >>"$TEST_DIR/counts"
    record "$title" "$what" "$log.said" "$@"
}

# step TITLE COMMAND...: one test as a whole, or a cargo test of its own. It computes, for the most part, so that the
# files beside it, which wait for packets, go first.
step() {
    local title=$1 log args name status=0 found=0 started=$SECONDS
    log=$(log_of "$title")
    shift
    nice -n 10 "$@" >"$log" 2>&1 || status=$?
    took "$started" "$title"
    count "$log"
    [ "$status" -ne 0 ] || return 0
    if [ "$title" = "doc tests" ]; then
        while IFS='|' read -r args name; do
            said "$log" "$name" >"$log.said"
            found=1
            # The path alone: the name has spaces, where rustdoc splits it.
            # shellcheck disable=SC2086 # the arguments are split on purpose
            record "$title" "$name" "$log.said" "$CARGO" test $args -- "${name%% *}" --test-threads=1 --show-output
        done < <(failures "$log")
        # Else something other than a test failed: most often, code that does not compile.
        [ "$found" = 1 ] || broken "$title" "(the build)" "$log"
    else
        broken "$title" "(the whole step)" "$log" "$@"
    fi
    return "$status"
}

# Processes of the jobs that run, each the leader of a process group of its own, and what each is and logs.
declare -A titles=() logs=()

# start TITLE LOG COMMAND...
start() {
    local title=$1 log=$2
    shift 2
    # Job control, for the group: with it all that a file has started can be ended.
    set -m
    "$@" </dev/null &
    set +m
    titles[$!]=$title
    logs[$!]=$log
}

# Ends what is left of a process group, with as much time as a run of mpps takes to clean up; whether anything was.
end_group() {
    kill -TERM -- "-$1" 2>/dev/null || return 1
    for _ in $(seq 30); do
        kill -0 -- "-$1" 2>/dev/null || return 0
        sleep 0.1
    done
    kill -KILL -- "-$1" 2>/dev/null
    return 0
}

# Waits for the end of one job, and shows what it printed.
reap() {
    local pid=
    wait -n -p pid "${!titles[@]}" 2>/dev/null
    [ -n "$pid" ] || return
    printf '\n     Ran %s\n' "${titles[$pid]}"
    cat "${logs[$pid]}"
    # What it started may be on its way to the end.
    for _ in $(seq 20); do
        kill -0 -- "-$pid" 2>/dev/null || break
        sleep 0.1
    done
    if kill -0 -- "-$pid" 2>/dev/null; then
        echo "processes that ${titles[$pid]} left behind, ended now:" | tee -a "${logs[$pid]}"
        pgrep -a -g "$pid" | tee -a "${logs[$pid]}"
        end_group "$pid"
    fi
    unset "titles[$pid]" "logs[$pid]"
}

# job TITLE COMMAND...: the title's job, when there is room for it.
job() {
    while [ "${#titles[@]}" -ge "$TEST_JOBS" ]; do
        reap
    done
    start "$@"
}

# Begins all that is queued under a title.
begin() {
    local place where log
    case "$1" in
        "doc tests")
            job "$1" "$(log_of "$1")" step "$1" "$CARGO" test --workspace --doc --no-fail-fast "${arguments[@]}"
            ;;
        scripts/*) job "$1" "$(log_of "$1")" step "$1" "$1" ;;
        *)
            while IFS=$'\t' read -r place where; do
                log=$(sed -n 's/^exec .* --run [^ ]* \([^ ]*\) .*/\1/p' "$place")
                job "$where" "$log" bash "$place"
            done < <(awk -F '\t' -v where="$1" '$2 == where' "$TEST_DIR/queued")
            ;;
    esac
}

# listed TITLE ENTRY...: whether it is one of them.
listed() {
    local title=$1 entry
    shift
    for entry; do
        [ "$entry" != "$title" ] || return 0
    done
    return 1
}

# Everything, those of FIRST first, those of ALONE by themselves.
run_all() {
    local title all=() begun=()
    mapfile -t all < <(printf '%s\n' "doc tests" scripts/miri.sh scripts/no-dpdk.sh scripts/msrv.sh scripts/python.sh \
        scripts/packages.sh
        cut -f 2 "$TEST_DIR/queued" | awk '!seen[$0]++')
    for title in "${FIRST[@]}" "${all[@]}"; do
        listed "$title" "${ALONE[@]}" || ! listed "$title" "${all[@]}" || listed "$title" "${begun[@]}" || {
            begun+=("$title")
            begin "$title"
        }
    done
    while [ "${#titles[@]}" -gt 0 ]; do
        reap
    done
    for title in "${ALONE[@]}"; do
        ! listed "$title" "${all[@]}" || TEST_JOBS=1 begin "$title"
    done
    while [ "${#titles[@]}" -gt 0 ]; do
        reap
    done
}

failed_so_far() {
    find "$TEST_DIR/failed" -mindepth 1 -maxdepth 1 -type d | wc -l
}

# Runs the failure of this place again; whether it passed. No test at all is no pass.
again() {
    local place=$1 name
    [ -f "$place/again" ] || return 1
    echo
    echo "Once more, by itself: $(cat "$place/where")::$(cat "$place/name")"
    timeout --foreground --kill-after=5 "$FILE_LIMIT" bash "$place/again" </dev/null >"$place/second" 2>&1 ||
        { sed 's/^/    | /' "$place/second"; return 1; }
    sed 's/^/    | /' "$place/second"
    name=$(cat "$place/name")
    case "$name" in
        "(the whole step)") ;;
        "(the whole file)") grep -q '^test result: ok' "$place/second" ;;
        *) grep -q '^test result: ok\. [1-9]' "$place/second" && grep -qF "test $name" "$place/second" ;;
    esac
}

# The first line of what a test said when it failed: the line after the panic's place, or else the last one.
message() {
    awk '/panicked at .*:$/ { getline; print; found = 1; exit } NF { last = $0 } END { if (!found) print last }' "$1"
}

# The list, and the last line, in the form of cargo test's own.
summary() {
    local place where name unsure=0 passed failed ignored result=ok
    for place in "$TEST_DIR"/failed/*/; do
        [ -d "$place" ] || continue
        where=$(cat "$place/where") name=$(cat "$place/name")
        if [ -e "$place/passed" ]; then
            unsure=$((unsure + 1))
            echo "UNSURE: $where::$name failed once and passed when run alone: $(message "$place/output")"
        else
            echo "FAILED: $where::$name"
        fi
        sed '/^stack backtrace:$/,/^note: Some details are omitted/d; /^$/d' "$place/output" | tail -n "$LINES_SHOWN" |
            sed 's/^/    /'
    done
    read -r passed failed ignored < <(
        awk '{ p += $1; f += $2; i += $3 } END { print p + 0, f + 0, i + 0 }' "$TEST_DIR/counts"
    )
    failed=$((failed - unsure)) passed=$((passed + unsure))
    [ "$failed" -eq 0 ] || result=FAILED
    echo "test result: $result. $passed passed; $failed failed; $ignored ignored; 0 measured; 0 filtered out;" \
        "finished in $SECONDS.00s"
    [ "$failed" -eq 0 ]
}

case "${1:-}" in
    --queue)
        shift
        queue_file "$@"
        exit
        ;;
    --run)
        shift
        run_file "$@"
        exit
        ;;
esac

cd "$(dirname "$0")/.." || exit
retry=0
if [ "${1:-}" = --retry ]; then
    retry=1
    shift
fi
arguments=("$@")
export TEST_ROOT=$PWD TEST_DIR=${TEST_DIR:-$PWD/target/test}
# Messages are read below; where colours were wished for, they would be in the way.
export CARGO_TERM_COLOR=never
rm -rf "$TEST_DIR"
mkdir -p "$TEST_DIR/failed" "$TEST_DIR/logs" "$TEST_DIR/queue"
touch "$TEST_DIR/counts" "$TEST_DIR/times" "$TEST_DIR/queued"

# Ctrl-C ends all that runs, and this.
stop() {
    local pid
    trap '' INT TERM
    for pid in "${!titles[@]}"; do
        end_group "$pid" &
    done
    wait
    exit "$1"
}
trap 'stop 130' INT
trap 'stop 143' TERM
trap 'stop 129' HUP

files=(test --workspace --lib --bins --tests --no-fail-fast)
log=$(log_of "test files")
if shown "$log" "$CARGO" "${files[@]}" --no-run "${arguments[@]}"; then
    # --show-output: a test that was SKIPPED says why though it passed.
    "$CARGO" --config "target.'cfg(all())'.runner=['$PWD/scripts/test.sh', '--queue']" \
        "${files[@]}" "${arguments[@]}" -- --show-output >"$log" 2>&1 || broken "test files" "(the list of them)" "$log"
else
    broken "test files" "(the build)" "$log"
fi
shown "$(log_of "examples of xsk")" "$CARGO" build -p xsk --examples ||
    broken "examples of xsk" "(the build)" "$(log_of "examples of xsk")"
shown "$(log_of "no-dpdk build")" scripts/no-dpdk.sh --build ||
    broken "scripts/no-dpdk.sh" "(the build)" "$(log_of "no-dpdk build")"
echo
echo "$(wc -l <"$TEST_DIR/queued") test files, built after $SECONDS s; $TEST_JOBS at a time (TEST_JOBS)"
run_all

failed=$(failed_so_far)
if [ "$retry" = 1 ] && [ "$failed" -gt 0 ]; then
    if [ "$failed" -gt "$MANY" ]; then
        echo "more than $MANY tests failed: none is tried again"
    else
        for place in "$TEST_DIR"/failed/*/; do
            again "$place" && touch "$place/passed"
        done
    fi
fi
echo
echo "slowest (seconds): $(sort -rn "$TEST_DIR/times" | head -n 12 | paste -sd, | sed 's/,/, /g')"
summary | tee "$TEST_DIR/summary"
