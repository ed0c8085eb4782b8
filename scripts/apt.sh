# Packages of any release of Debian's or Ubuntu's, for any processor: downloaded and unpacked, never installed. Sourced
# by scripts that set apt_state, the folder for apt's lists.
# shellcheck shell=bash

# of RELEASE[/ARCH] ORIGIN COMMAND…: a tool of apt's that knows nothing but the packages of one release. Those for
# another processor than this machine's are as for a system on which nothing is installed.
of() {
    local release=${1%/*} arch=${1#*/} origin=$2 tool=$3 folder=$apt_state/${1/\//-} base=${1%%[-/]*} options=()
    local mirror=http://archive.ubuntu.com/ubuntu key=${apt_keys:-/usr/share/keyrings}/ubuntu-archive-keyring.gpg
    shift 3
    mkdir -p "$folder"/{lists,cache/archives}/partial
    if [ "$arch" != "$release" ]; then
        : >"$folder/status"
        options=(-o "APT::Architecture=$arch" -o "APT::Architectures::=$arch" -o "Dir::State::status=$folder/status")
        # From 26.04 on, arm64 is where amd64 is.
        [[ ! $base < resolute ]] || mirror=http://ports.ubuntu.com/ubuntu-ports
    fi
    {
        case $origin in
            debian) echo "deb http://deb.debian.org/debian $base main" ;;
            ubuntu)
                echo "deb [signed-by=$key] $mirror $base main"
                echo "deb [signed-by=$key] $mirror $base-updates main"
                ;;
        esac
        [ "$base" = "$release" ] || echo "deb http://deb.debian.org/debian $release main"
    } >"$folder/sources.list"
    "$tool" -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::Etc::preferencesparts=/dev/null -o Dir::State::lists="$folder/lists" -o Dir::Cache="$folder/cache" \
        -o Acquire::Languages=none -o APT::Default-Release="$release" -o APT::Sandbox::User=root -qq \
        "${options[@]}" "$@"
}

# absent WHAT: a line for what can't be had: skipped without a network, failed with one.
absent() {
    if wget -q --spider --timeout 10 --tries 2 http://deb.debian.org/debian/dists/stable/Release; then
        echo "FAILED $1: can't be had, and there is a network"
    else
        echo "SKIPPED: ${apt_for:-packages}: no network, and nothing kept: $1"
    fi
}

# unpack FOLDER PACKAGE-FILE…
unpack() {
    local folder=$1 package
    shift
    mkdir -p "$folder"
    for package; do
        dpkg-deb -x "$package" "$folder" || return
    done
    # A link from the root of a system leads within this one: else a linker finds no libm.so, and takes libm.a.
    find "$folder" -type l -lname '/*' | while read -r link; do
        ln -sfn "$(realpath -ms --relative-to="${link%/*}" "$folder$(readlink "$link")")" "$link"
    done
}

# unpack_all FOLDER RELEASE[/ARCH] ORIGIN PACKAGE…: with all that they depend on and that is not installed. A file
# `done` in FOLDER names those that are there.
unpack_all() {
    local folder=$1 release=$2 origin=$3 cache=$apt_state/${2/\//-}/cache/archives
    shift 3
    [ "$(cat "$folder/done" 2>/dev/null)" != "$*" ] || return 0
    rm -rf "$folder" "$cache"/*.deb
    of "$release" "$origin" apt-get update &&
        of "$release" "$origin" apt-get install --reinstall -y --no-install-recommends --download-only "$@" \
            >/dev/null &&
        unpack "$folder" "$cache"/*.deb &&
        note_owners "$folder" "$cache"/*.deb &&
        rm -f "$cache"/*.deb &&
        echo "$*" >"$folder/done"
}

# note_owners FOLDER PACKAGE-FILE…: as if dpkg had installed them there, for dpkg-shlibdeps: who a library is from, and
# what a program that is linked with it depends on.
note_owners() {
    local folder=$1 at=$1/var/lib/dpkg package name file
    shift
    mkdir -p "$at/info"
    for package; do
        name=$(dpkg-deb -f "$package" Package)
        dpkg-deb -e "$package" "$at/control" || return
        for file in shlibs symbols; do
            [ ! -e "$at/control/$file" ] || mv "$at/control/$file" "$at/info/$name.$file"
        done
        rm -r "$at/control"
        dpkg-deb --fsys-tarfile "$package" | tar -t | sed -n "s#^\.\(/.*[^/]\)\$#$folder\1#p" >"$at/info/$name.list"
        { dpkg-deb -f "$package" && printf 'Status: install ok installed\n\n'; } >>"$at/status"
    done
}
