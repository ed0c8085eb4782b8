#!/usr/bin/env bash
# Runs every test, and ends with a list of those that failed: where each is and the last lines of what it said.
#
#   scripts/test.sh [--retry] [ARGUMENT of cargo test]...
#
# --retry, for the continuous integration, runs each failed test once more, by itself. One that passes then is named as
# UNSURE and fails nothing: it is a test to mend, not a change to refuse. Without it one failure is a failure.
#
# Cargo calls this script as well, as the runner of each test binary (--run BINARY ARGUMENT...), so that what a file
# printed and how it ended are known apart. MPPS_BIN is the program that the whole-program tests run.
set -uo pipefail

CARGO=${CARGO:-cargo}
# Seconds that one file may take: a test that hangs is to be found by its name, not by the end of everything.
FILE_LIMIT=${TEST_FILE_LIMIT:-1200}
# So many failures are no chance: none of them is tried again.
MANY=4
# Lines of a failed test's output that the list shows.
LINES_SHOWN=15

# record WHERE NAME OUTPUT-FILE COMMAND...: one failure. COMMAND runs it again, from this directory, with this environment.
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
# A process that a test left behind holds the output open: it is named, and not waited for.
shown() {
    local log=$1 tee status=0
    shift
    exec 3> >(exec tee "$log")
    tee=$!
    "$@" >&3 2>&1 3>&- || status=$?
    exec 3>&-
    for _ in $(seq 20); do
        kill -0 "$tee" 2>/dev/null || return "$status"
        sleep 0.1
    done
    echo "a process that was left behind holds the output of: $*" | tee -a "$log"
    kill "$tee"
    return "$status"
}

# The runner of one test binary, in the directory and environment that cargo gives it.
run_file() {
    local binary=$1 stem where log status=0 name started=$SECONDS
    stem=$(basename "$binary")
    stem=${stem%-*}
    for where in "tests/$stem.rs" "$stem.rs" "tests/$stem/main.rs" src; do
        [ -e "$where" ] && break
    done
    where=$(realpath --relative-to="$TEST_ROOT" "$where")
    log=$TEST_DIR/logs/${where//\//-}.$stem.log
    shown "$log" timeout --foreground --kill-after=5 "$FILE_LIMIT" "$@" || status=$?
    echo "$((SECONDS - started)) $where" >>"$TEST_DIR/times"
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

# step NAME COMMAND...: a step of its own, which prints as cargo test does, or is one test as a whole.
step() {
    local title=$1 log before after name args status=0 started=$SECONDS
    log="$TEST_DIR/logs/step-${title//[ \/]/-}.log"
    shift
    before=$(failed_so_far)
    shown "$log" "$@" || status=$?
    echo "$((SECONDS - started)) $title" >>"$TEST_DIR/times"
    [ "$title" = "test files" ] || count "$log"
    [ "$status" -ne 0 ] || return 0
    after=$(failed_so_far)
    [ "$title" != "test files" ] || [ "$before" -eq "$after" ] || return 0
    if [ "$title" = "doc tests" ]; then
        while IFS='|' read -r args name; do
            said "$log" "$name" >"$log.said"
            # The path alone: the name has spaces, where rustdoc splits it.
            # shellcheck disable=SC2086 # the arguments are split on purpose
            record "$title" "$name" "$log.said" "$CARGO" test $args -- "${name%% *}" --test-threads=1 --show-output
        done < <(failures "$log")
        [ "$(failed_so_far)" -eq "$before" ] || return 0
    fi
    # Something else than a test failed: most often, code that does not compile.
    grep -A 12 '^error' "$log" | grep -v 'to rerun pass' | head -n "$LINES_SHOWN" >"$log.said"
    [ -s "$log.said" ] || tail -n "$LINES_SHOWN" "$log" >"$log.said"
    echo "0 1 0" >>"$TEST_DIR/counts"
    case "$title" in
        "test files" | "doc tests") record "$title" "(the build)" "$log.said" ;;
        *) record "$title" "(the whole step)" "$log.said" "$@" ;;
    esac
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
    timeout --foreground --kill-after=5 "$FILE_LIMIT" bash "$place/again" </dev/null >"$place/second" 2>&1 || { sed 's/^/    | /' "$place/second"; return 1; }
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
    read -r passed failed ignored < <(awk '{ p += $1; f += $2; i += $3 } END { print p + 0, f + 0, i + 0 }' "$TEST_DIR/counts")
    failed=$((failed - unsure)) passed=$((passed + unsure))
    [ "$failed" -eq 0 ] || result=FAILED
    echo "test result: $result. $passed passed; $failed failed; $ignored ignored; 0 measured; 0 filtered out;" \
        "finished in $SECONDS.00s"
    [ "$failed" -eq 0 ]
}

if [ "${1:-}" = --run ]; then
    shift
    run_file "$@"
    exit
fi

cd "$(dirname "$0")/.." || exit
retry=0
if [ "${1:-}" = --retry ]; then
    retry=1
    shift
fi
export TEST_ROOT=$PWD TEST_DIR=${TEST_DIR:-$PWD/target/test}
# Messages are read below; where colours were wished for, they would be in the way.
export CARGO_TERM_COLOR=never
rm -rf "$TEST_DIR"
mkdir -p "$TEST_DIR/failed" "$TEST_DIR/logs"
: >"$TEST_DIR/counts"
: >"$TEST_DIR/times"

step "doc tests" "$CARGO" test --workspace --doc --no-fail-fast "$@"
step "scripts/miri.sh" scripts/miri.sh
step "scripts/no-dpdk.sh" scripts/no-dpdk.sh
step "examples of xsk" "$CARGO" build -p xsk --examples
# --show-output: a test that was SKIPPED says why though it passed.
step "test files" "$CARGO" --config "target.'cfg(all())'.runner=['$PWD/scripts/test.sh', '--run']" \
    test --workspace --lib --bins --tests --no-fail-fast "$@" -- --show-output

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
echo "slowest (seconds): $(grep -v ' test files$' "$TEST_DIR/times" | sort -rn | head -n 12 | paste -sd, | sed 's/,/, /g')"
summary | tee "$TEST_DIR/summary"
