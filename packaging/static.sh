#!/usr/bin/env bash
# Builds the static program: no DPDK, no shared library, so that it runs in an empty folder and on any distribution.
#
#   packaging/static.sh [--out FOLDER]
#
# FOLDER/mpps-VERSION-ARCH-linux-static.tar.gz (target/packages) with the program, man pages, completions, dashboard and
# licences. The C library is musl's, whose licence asks for its notice alone; rustup has what is needed
# (`rustup target add ARCH-unknown-linux-musl`), and no C compiler is.
#
# MPPS_STATIC is a program that was built so before.
set -euo pipefail
# shellcheck source=packaging/lib.sh
. "$(dirname "$0")/lib.sh"

out=target/packages
while [ $# -gt 0 ]; do
    case "$1" in
        --out) out=$(from_caller "${2:?static: --out wants a folder}") && shift ;;
        *) fail "unknown argument '$1': must be --out" ;;
    esac
    shift
done

# scripts/arm64.sh says for which processor.
arch=${CARGO_BUILD_TARGET:-$(uname -m)}
arch=${arch%%-*}
target=$arch-unknown-linux-musl
program=${MPPS_STATIC:-}
if [ -z "$program" ]; then
    # The toolchain that this folder builds with.
    [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ] || fail "Rust has no $target here: rustup target add $target"
    MPPS_NO_DPDK=1 "${CARGO:-cargo}" build --release -p mpps --target "$target" --target-dir target/static
    program=target/static/$target/release/mpps
fi
if [ -n "$(libraries "$program")" ] || grep -q INTERP <<<"$(readelf -l "$program")"; then
    fail "$program is not static"
fi

version=$(mpps_version)
name=mpps-$version-$arch-linux-static
packaging/tree.sh "$made/$name" --program "$program" --package mpps --linked --musl \
    --units /lib/systemd/system --zsh /usr/share/zsh/site-functions
install -D -m 644 -t "$made/$name/usr/share/doc/mpps" LICENSE-MIT LICENSE-APACHE CHANGELOG.md
mkdir -p "$out"
tar -C "$made" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -c "$name" |
    gzip -9n >"$made/archive"
mv -f "$made/archive" "$out/$name.tar.gz"
echo "$out/$name.tar.gz"
