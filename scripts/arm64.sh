#!/usr/bin/env bash
# Runs a command that builds for arm64 on a machine with another processor: `scripts/arm64.sh cargo build -p mpps`.
#
# The linker is Debian's gcc-aarch64-linux-gnu. DPDK's packages for arm64, of the release that this machine runs, are
# downloaded and unpacked into target/arm64, once, with all that they depend on; nothing is installed. Without them
# (no network, or MPPS_NO_DPDK=1) the dpdk path is left out.
set -euo pipefail
home=$(cd "$(dirname "$0")/.." && pwd)
root=$home/target/arm64/root
apt_state=$home/target/arm64/apt
# shellcheck source=scripts/apt.sh
. "$home/scripts/apt.sh"

export CARGO_BUILD_TARGET=aarch64-unknown-linux-gnu
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=aarch64-linux-gnu-gcc
export OBJCOPY=aarch64-linux-gnu-objcopy STRIP=aarch64-linux-gnu-strip
if [ "${MPPS_NO_DPDK:-0}" = 0 ]; then
    # shellcheck source=/dev/null
    release=$(. /etc/os-release && echo "$VERSION_CODENAME") origin=$(. /etc/os-release && echo "$ID")
    if unpack_all "$root" "$release/arm64" "$origin" libdpdk-dev; then
        export PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_ALLOW_CROSS=1
        export PKG_CONFIG_LIBDIR=$root/usr/lib/aarch64-linux-gnu/pkgconfig:$root/usr/share/pkgconfig
        # The whole of the C library is there, too: of one release with the rest.
        export CFLAGS_aarch64_unknown_linux_gnu=--sysroot=$root
        # Cargo reads the second only where the first is not set, as by `make build PROFILED=1`.
        [ -z "${RUSTFLAGS:-}" ] || export RUSTFLAGS="$RUSTFLAGS -C link-arg=--sysroot=$root"
        export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS="-C link-arg=--sysroot=$root"
    else
        echo "arm64: libdpdk-dev for arm64 can't be had: built without the dpdk path" >&2
        export MPPS_NO_DPDK=1
    fi
fi
exec "$@"
