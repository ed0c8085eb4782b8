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

# The time of the last commit, so that one state gives the same package again; without a repository that of the
# changelog.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}
export SOURCE_DATE_EPOCH

# A folder that is gone at the end, and modes of files that packages have.
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
umask 022
