#!/usr/bin/env bash
# Makes the container image mpps:VERSION of what packaging/static.sh has packed.
#
#   packaging/image.sh [ARCHIVE]
#
# By docker, podman or buildah, the first that is there; ENGINE names another, with its arguments ("buildah
# --storage-driver vfs").
set -euo pipefail
# shellcheck source=packaging/lib.sh
. "$(dirname "$0")/lib.sh"

version=$(mpps_version)
# scripts/arm64.sh says for which processor.
arch=${CARGO_BUILD_TARGET:-$(uname -m)}
arch=${arch%%-*} platform=()
[ "$arch" = "$(uname -m)" ] || platform=(--platform linux/arm64)
archive=target/packages/mpps-$version-$arch-linux-static.tar.gz
[ $# -eq 0 ] || archive=$(from_caller "$1")
[ -e "$archive" ] || fail "$archive is not there: make static makes it"
engine=${ENGINE:-}
for name in docker podman buildah; do
    # A docker client without an engine behind it is none.
    [ -n "$engine" ] || ! "$name" info >/dev/null 2>&1 || engine=$name
done
[ -n "$engine" ] || fail "neither docker, podman nor buildah works here (see \`docker info\`)"

tar -xzf "$archive" -C "$made" --strip-components=1
# shellcheck disable=SC2086 # the engine's arguments are split on purpose
$engine build "${platform[@]}" -t "mpps:$version" -f packaging/Dockerfile "$made"
