# What the scripts of this folder share; they source it, and are in the repository's folder then.
# shellcheck shell=bash

called_from=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

# fail WORDS...: one line, under the script's name.
fail() {
    local name=${0##*/}
    echo "${name%.sh}: $*" >&2
    exit 1
}

# from_caller FILE: a path as the caller meant it.
from_caller() {
    case "$1" in
        /*) echo "$1" ;;
        *) echo "$called_from/$1" ;;
    esac
}

# The version of the program, which stands in one place.
mpps_version() { sed -n 's/^version *= *"\(.*\)"/\1/p' Cargo.toml | head -n 1; }

# By the headers of a program, which may be for another processor: the libraries that it is linked with, a line each,
# and its processor as uname -m has it.
libraries() { readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }
processor() {
    case $(readelf -h "$1" | sed -n 's/^ *Machine: *//p') in
        AArch64) echo aarch64 ;;
        *) uname -m ;;
    esac
}

# run PROGRAM ARGUMENT...: one for arm64 by QEMU where this machine is another; its libraries are those that
# scripts/arm64.sh unpacked, or those that the compiler is for.
run() {
    if [ "$(processor "$1")" = "$(uname -m)" ]; then
        "$@"
        return
    fi
    # Not by -L, which takes other files from there, too.
    local root=$PWD/target/arm64/root loader=() paths
    paths=$root/lib/aarch64-linux-gnu:$root/usr/lib/aarch64-linux-gnu
    [ -d "$root" ] || root=/usr/aarch64-linux-gnu paths=/usr/aarch64-linux-gnu/lib
    [ -z "$(libraries "$1")" ] || loader=("$root/lib/ld-linux-aarch64.so.1" --library-path "$paths")
    command -v qemu-aarch64-static >/dev/null ||
        fail "$1 is for arm64: want qemu-aarch64-static to run it here (apt-get install qemu-user-static)"
    qemu-aarch64-static "${loader[@]}" "$@"
}

# The time of the last commit, so that one state gives the same package again; without a repository that of the
# changelog.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}
export SOURCE_DATE_EPOCH

# A folder that is gone at the end, and modes of files that packages have.
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
umask 022
