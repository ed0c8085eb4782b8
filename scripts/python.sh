#!/usr/bin/env bash
# The Python package (python/): installs it into an environment of its own, target/python, and runs its tests.
#
#   scripts/python.sh [ARGUMENT of pytest]...
#   scripts/python.sh --wheel                   a wheel that carries the program, into target/wheels
#
# MPPS_BIN is the program (target/release/mpps). Packages come from where pip gets them; where it gets none, the tests
# are SKIPPED. Those of the optional packages say themselves that they are.
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-python3}
venv=$PWD/target/python
export MPPS_BIN=${MPPS_BIN:-$PWD/target/release/mpps}
export PIP_DISABLE_PIP_VERSION_CHECK=1

# skip WHY: no failure of the package.
skip() {
    echo "SKIPPED: python: $*"
    echo "test result: ok. 0 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out"
    exit 0
}

pip() { "$venv/bin/python" -m pip "$@"; }

# Makes the environment with what is needed to build and, if they can be had, all packages that the tests can use. Once:
# until the package asks for others.
environment() {
    local want log=$venv.log
    want=$("$PYTHON" --version && sed -n '/^\[project.optional-dependencies\]/,/^\[tool/p' python/pyproject.toml)
    [ "$want" != "$(cat "$venv/made-for" 2>/dev/null)" ] || return 0
    [ -z "${MPPS_NO_INSTALL:-}" ] || "$1" "MPPS_NO_INSTALL is set, and target/python is not there yet"
    mkdir -p target
    if ! "$PYTHON" -m venv --clear "$venv" >"$log" 2>&1; then
        "$1" "$PYTHON -m venv fails: $(tail -n 1 "$log") (apt-get install python3-venv)"
    fi
    # What builds the package is installed beside it, so that only what has changed is asked for next time.
    if ! pip install -q hatchling pytest >"$log" 2>&1; then
        "$1" "pip can't install hatchling and pytest: $(tail -n 1 "$log")"
    fi
    if pip install -q --no-compile './python[pandas,polars,hdr,notebook,test]' >"$log" 2>&1; then
        echo "$want" >"$venv/made-for"
    else
        echo "python: not all optional packages can be installed: $(tail -n 1 "$log")"
    fi
}

# An environment that can build the wheel, and no more.
builder() {
    local log=$venv.log
    venv=$PWD/target/python-wheel
    [ ! -e "$venv/made" ] || return 0
    mkdir -p target
    "$PYTHON" -m venv --clear "$venv" >"$log" 2>&1 ||
        fail "$PYTHON -m venv fails: $(tail -n 1 "$log") (apt-get install python3-venv)"
    pip install -q hatchling >"$log" 2>&1 || fail "pip can't install hatchling: $(tail -n 1 "$log")"
    touch "$venv/made"
}

fail() {
    echo "python: $*" >&2
    exit 1
}

if ! command -v "$PYTHON" >/dev/null; then
    [ "${1:-}" = --wheel ] && fail "$PYTHON is not installed"
    skip "$PYTHON is not installed"
fi

if [ "${1:-}" = --wheel ]; then
    [ -x "$MPPS_BIN" ] || fail "$MPPS_BIN is not built: make wheel builds it first"
    builder
    made=$(mktemp -d target/wheel-XXXXXX)
    trap 'rm -rf "$made"' EXIT
    MPPS_WHEEL_PROGRAM=$MPPS_BIN pip wheel -q --no-deps --no-build-isolation -w "$made" ./python
    mkdir -p target/wheels
    for wheel in "$made"/*.whl; do
        mv -f "$wheel" target/wheels/
        echo "target/wheels/${wheel##*/}"
    done
    exit
fi

environment skip
if ! pip install -q --no-deps --no-build-isolation --force-reinstall ./python; then
    echo "python: pip can't install ./python"
    echo "test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out"
    exit 1
fi

log=$venv.pytest.log status=0
pytest=("$venv/bin/python" -m pytest -q -rfEs -p no:cacheprovider "$@")
# Side by side where that can be had: they wait for packets most of the time.
! "$venv/bin/python" -c 'import xdist' 2>/dev/null || pytest+=(-n 3)
(cd python && timeout --kill-after=5 "${TEST_LIMIT:-1200}" "${pytest[@]}") 2>&1 | tee "$log" || status=$?
# pytest's last line is "1 failed, 71 passed, 2 skipped, 1 error in 81.29s"; here it is in the words of cargo.
awk -v status="$status" '
    / in [0-9.]+s/ {
        passed = failed = skipped = 0
        for (i = 2; i <= NF; i++) {
            if ($i ~ /^passed/) passed = $(i - 1)
            if ($i ~ /^(failed|error)/) failed += $(i - 1)
            if ($i ~ /^skipped/) skipped = $(i - 1)
        }
    }
    END {
        if (status != 0 && failed == 0) failed = 1
        printf "test result: %s. %d passed; %d failed; %d ignored; 0 measured; 0 filtered out\n",
            failed ? "FAILED" : "ok", passed, failed, skipped
    }
' "$log"
exit "$status"
