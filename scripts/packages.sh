#!/usr/bin/env bash
# Holds the packages to what docs/use/packages.md says of them: what is in them, that they install and run, that their
# units and workflows are well-formed. Builds no program: it packages those that are there.
#
#   scripts/packages.sh            what can be tried here; the rest is SKIPPED, with the reason
#   scripts/packages.sh --base     makes target/packages/debian, the Debian that packages are installed into (root,
#                                  debootstrap, network, a minute); once, tests copy it
#
# MPPS_BIN is the program (target/release/mpps). Where it has DPDK, the one that scripts/no-dpdk.sh has built is
# packaged as well. MPPS_STATIC is a static program (what packaging/static.sh has left).
set -uo pipefail
cd "$(dirname "$0")/.." || exit
PATH="$HOME/.cargo/bin:$PATH:/usr/local/sbin:/usr/sbin:/sbin"

MPPS_BIN=${MPPS_BIN:-$PWD/target/release/mpps}
base=target/packages/debian
if [ "${1:-}" = --base ]; then
    [ "$(id -u)" = 0 ] || { echo "packages: --base wants root" >&2 && exit 1; }
    command -v debootstrap >/dev/null || { echo "packages: apt-get install debootstrap" >&2 && exit 1; }
    rm -rf "$base" "$base.new"
    mkdir -p target/packages
    # The distribution that builds the program: its C library and DPDK are the ones that it is linked with.
    suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    log=target/packages/debootstrap.log
    debootstrap --variant=minbase --include=man-db,iproute2,systemd "$suite" "$base.new" >"$log" 2>&1 ||
        { tail -n 5 "$log" >&2 && exit 1; }
    # The archives that the packages' dependencies come from.
    cp /etc/apt/sources.list "$base.new/etc/apt/" 2>/dev/null
    exec mv "$base.new" "$base"
fi

work=$(mktemp -d)
root=$work/root
unmount() {
    ! mountpoint -q "$root/proc" || umount "$root/proc"
    rm -rf "$work"
}
trap unmount EXIT
passed=0 failed=0 skipped=0 problem=

# holds PROPERTY COMMAND...: one test. Exit code 77 means that it can't be tried here, as its last line says.
holds() {
    local property=$1 status=0 said
    shift
    said=$("$@" 2>&1) || status=$?
    case "$status" in
        0) passed=$((passed + 1)) && echo "packages: $property ... ok" ;;
        77) skipped=$((skipped + 1)) && echo "SKIPPED: packages: $property: $(tail -n 1 <<<"$said")" ;;
        *)
            failed=$((failed + 1)) problem=1
            echo "packages: $property ... FAILED"
            printf '    %s\n' "${said//$'\n'/$'\n'    }"
            ;;
    esac
}

skip() { echo "$*" && exit 77; }
die() { echo "$*" && exit 1; }
# needs TOOL PACKAGE
needs() { command -v "$1" >/dev/null || skip "$1 is missing (apt-get install $2)"; }

# Not by a pipe: grep ends at what it looks for, and pipefail takes the writer that this ends for a failure.
has_dpdk() { grep -q 'NEEDED *librte_' <<<"$(objdump -p "$1")"; }

# The programs to package: that of MPPS_BIN, and where it has DPDK another without.
with='' without=''
if [ ! -x "$MPPS_BIN" ]; then
    echo "packages: no program to package at $MPPS_BIN: run \`make build\` first" >&2
    exit 1
fi
if has_dpdk "$MPPS_BIN"; then
    with=$MPPS_BIN
    for program in "${CARGO_TARGET_DIR:-target}"/no-dpdk/{release,debug}/mpps target/no-dpdk/{release,debug}/mpps; do
        # The one that was built last.
        if [ -x "$program" ] && { [ -z "$without" ] || [ "$program" -nt "$without" ]; }; then
            without=$(realpath "$program")
        fi
    done
else
    without=$MPPS_BIN
fi
static=${MPPS_STATIC:-$PWD/target/static/$(uname -m)-unknown-linux-musl/release/mpps}

# Tests, each in a shell of its own.

notes() {
    local notes=packaging/release-notes.sh log=$work/changelog
    printf '# C\n\n## [Unreleased] – 0.3.0\n\n### Added\n- [Three](docs/3.md) and [a\n  fourth](docs/4.md).\n
## [0.2.0] - 2027-01-31\n- Two, [there](https://example.org/2).\n\n## [0.1.10] - 2027-01-30\n- Ten.\n
## [0.1.1] - 2027-01-29\n\n' >"$log"
    [ "$($notes 0.2.0 "$log")" = '- Two, [there](https://example.org/2).' ] || die "0.2.0: $($notes 0.2.0 "$log")"
    [ "$($notes v0.1.10 "$log")" = '- Ten.' ] || die "v0.1.10: $($notes v0.1.10 "$log")"
    [ "$($notes 0.3.0 "$log")" = $'### Added\n- Three and a\n  fourth.' ] || die "0.3.0: $($notes 0.3.0 "$log")"
    for version in 0.1.1 0.1 0.4.0 0x2.0; do
        ! $notes "$version" "$log" 2>"$work/said" || die "$version has notes"
        grep -q "says nothing of $version" "$work/said" || die "$version: $(cat "$work/said")"
    done
    $notes "$(sed -n 's/^version *= *"\(.*\)"/\1/p' Cargo.toml | head -n 1)" >/dev/null
}

licences() {
    needs python3 python3
    local crate text
    text=$(packaging/licences.py) || exit 1
    for crate in $(MPPS_NO_DPDK=1 "${CARGO:-cargo}" tree --locked -p mpps -e normal,no-proc-macro --prefix none \
        --target x86_64-unknown-linux-gnu -f '{p}' | sed -n '/(/d; s/^\([^ ]*\) v.*/\1/p' | sort -u); do
        grep -q "^  $crate [0-9]" <<<"$text" || die "$crate is not named"
    done
    for part in uPlot 'DejaVu fonts' 'Rust standard library'; do
        [ "$(grep -c "^$part\$\|^  $part: " <<<"$text")" = 2 ] || die "$part is not named, or has no text"
    done
}

# package PROGRAM FOLDER ARGUMENT...: quickly, not small.
package() {
    local program=$1 out=$2
    shift 2
    DEB_COMPRESSION="gzip -z1" packaging/deb.sh "$program" --out "$work/$out" "$@" 2>&1
}

# deb PROGRAM NAME ARGUMENT...: makes it for the tests that follow.
deb() {
    local program=$1 name=$2
    shift 2
    needs dpkg-shlibdeps dpkg-dev
    package "$program" debs "$@" || exit 1
    dpkg-deb --fsys-tarfile "$work/debs/$name"_*.deb | tar -t | grep -v '/$' | sed 's/^\.//' >"$work/$name.files"
    local file
    for file in /usr/bin/mpps /usr/share/man/man1/mpps.1.gz /usr/share/man/man1/mpps-reflect.1.gz \
        /usr/share/bash-completion/completions/mpps /usr/share/zsh/vendor-completions/_mpps \
        /usr/share/fish/vendor_completions.d/mpps.fish /lib/systemd/system/mpps-reflect-{udp,af_xdp}@.service \
        /usr/share/mpps/grafana/mpps.json /usr/share/mpps/prometheus/mpps-alerts.yml \
        /usr/share/mpps/schema/lines.schema.json \
        "/usr/share/doc/$name"/{copyright,changelog.gz,changelog.Debian.gz,THIRD-PARTY.txt.gz,docs/use/packages.md}; do
        grep -qxF "$file" "$work/$name.files" || die "$name has no $file: $(cat "$work/$name.files")"
    done
}

same_again() {
    local program=$1 name=$2
    shift 2
    deb_there "$name"
    package "$program" again "$@" || exit 1
    cmp "$work/debs/$name"_*.deb "$work/again/$name"_*.deb
}

deb_there() { [ -e "$work/$1.files" ] || skip "the package is not made"; }

refused() {
    needs dpkg-shlibdeps dpkg-dev
    local said
    if [ -n "$with" ]; then
        ! said=$(package "$with" refused) || die "a program with DPDK was packaged as mpps"
        grep -q 'is linked with DPDK: it is for mpps-dpdk' <<<"$said" || die "$said"
    fi
    [ -n "$without" ] || return 0
    ! said=$(package "$without" refused --dpdk) || die "a program without DPDK was packaged as mpps-dpdk"
    grep -q 'was built without DPDK: it is for mpps' <<<"$said" || die "$said"
}

lint() {
    deb_there "$1"
    needs lintian lintian
    local said
    # As root it warns of being root.
    said=$(lintian --allow-root --fail-on error,warning --tag-display-limit 0 "$work/debs/$1"_*.deb 2>&1) || die "$said"
    ! grep -q '^[EW]:' <<<"$said" || die "$said"
}

# with_package NAME: the Debian of the tests, made anew, with this package in its /tmp.
with_package() { rm -rf "$root" && cp -a "$base" "$root" && cp "$work/debs/$1"_*.deb "$root/tmp/package.deb"; }

# inside COMMAND...: in the Debian of the tests, and not for ever: a mirror may not answer.
inside() { timeout 600 chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 "$@"; }

installed() {
    local name=$1
    deb_there "$name"
    [ "$(id -u)" = 0 ] || skip "installing wants root"
    [ -d "$base" ] || skip "no Debian to install into: scripts/packages.sh --base makes one"
    with_package "$name" || exit 1
    if [ "$name" = mpps-dpdk ]; then
        # The one that it takes the place of.
        inside apt-get -qq update >/dev/null 2>&1
        inside apt-get -qq install -y --no-install-recommends /tmp/package.deb >"$work/apt" 2>&1 ||
            skip "its libraries can't be had: $(tail -n 1 "$work/apt")"
    else
        inside dpkg -i /tmp/package.deb || exit 1
    fi
    runs_inside || exit 1
    inside man -P cat mpps | grep 'mpps' >/dev/null || die "man mpps shows nothing"
    inside man -P cat mpps-reflect | grep -i 'reflect' >/dev/null || die "man mpps-reflect shows nothing"
    [ "$(stat -c '%U %a' "$root/usr/bin/mpps")" = 'root 755' ] || die "$(stat -c '%U %a' "$root/usr/bin/mpps")"
    [ -z "$(getcap "$root/usr/bin/mpps" 2>/dev/null)" ] || die "the package gave capabilities"
    inside dpkg -P "$name" || exit 1
    local file
    while read -r file; do
        [ ! -e "$root$file" ] || die "$file is left after the package was removed"
    done <"$work/$name.files"
}

# Its services, by a systemd of their own.
services() {
    local name=$1
    deb_there "$name"
    [ "$(id -u)" = 0 ] || skip "namespaces want root"
    [ -x "$base/lib/systemd/systemd" ] || skip "no Debian with systemd to boot: scripts/packages.sh --base makes one"
    with_package "$name" || exit 1
    inside dpkg -i /tmp/package.deb || exit 1
    packaging/try-units.sh "$root"
}

# The program of the folder that is installed into does what it should, for root and for nobody.
runs_inside() {
    local said status=0
    mount -t proc proc "$root/proc" || skip "no /proc can be mounted here"
    inside mpps --version | grep '^mpps [0-9]' >/dev/null || die "mpps --version"
    inside mpps doctor >"$work/doctor" 2>&1 || status=$?
    if [ "$status" -gt 1 ] || ! grep -q af_xdp "$work/doctor"; then
        die "doctor: exit code $status: $(cat "$work/doctor")"
    fi
    status=0
    said=$(inside mpps sendrecv loop: --rate 10kpps --duration 200ms --settle 20ms) || status=$?
    # A busy host may make the run not valid (3).
    case "$status" in 0 | 3) ;; *) die "sendrecv loop: exit code $status: $said" ;; esac
    grep -q 'sendrecv, 0.2 s' <<<"$said" || die "sendrecv loop: $said"
    umount "$root/proc"
}

unpacked() {
    local name=$1 root=$work/unpacked-$1
    deb_there "$name"
    [ ! -d "$base" ] || skip "it was installed for real"
    mkdir "$root" && dpkg-deb -x "$work/debs/$name"_*.deb "$root" || exit 1
    "$root/usr/bin/mpps" --version | grep '^mpps [0-9]' >/dev/null || die "mpps --version"
    command -v man >/dev/null || return 0
    man -P cat -l "$root/usr/share/man/man1/mpps.1.gz" | grep mpps >/dev/null || die "man mpps.1.gz"
}

rpm_package() {
    needs rpmbuild rpm
    [ -n "$without" ] || skip "no program without DPDK: scripts/no-dpdk.sh builds one"
    RPM_PAYLOAD=w1.gzdio packaging/rpm.sh "$without" --out "$work/rpms" || exit 1
    rpm -qpl --nosignature "$work"/rpms/*.rpm >"$work/rpm.files" || exit 1
    local file
    for file in /usr/bin/mpps /usr/share/man/man1/mpps-reflect.1.gz /usr/share/zsh/site-functions/_mpps \
        /usr/lib/systemd/system/mpps-reflect-udp@.service /usr/share/licenses/mpps/LICENSE-MIT \
        /usr/share/doc/mpps/THIRD-PARTY.txt.gz /usr/share/mpps/grafana/mpps.json; do
        grep -qxF "$file" "$work/rpm.files" || die "no $file: $(cat "$work/rpm.files")"
    done
    rpm -qpR --nosignature "$work"/rpms/*.rpm >"$work/rpm.needs"
    grep -q '^libc\.so\.6' "$work/rpm.needs" || die "it does not ask for the C library: $(cat "$work/rpm.needs")"
    ! grep -q librte "$work/rpm.needs" || die "it asks for DPDK: $(cat "$work/rpm.needs")"
    # What is in it is the program, whole.
    mkdir "$work/rpm" && rpm2archive - <"$(echo "$work"/rpms/*.rpm)" | tar -xzC "$work/rpm" || exit 1
    "$work/rpm/usr/bin/mpps" --version | grep '^mpps [0-9]' >/dev/null || die "the program does not run"
}

static_program() {
    [ -x "$static" ] || skip "no static program: packaging/static.sh builds one"
    [ "$(id -u)" = 0 ] || skip "chroot wants root"
    mkdir "$work/empty" && cp "$static" "$work/empty/mpps"
    chroot "$work/empty" /mpps --version | grep '^mpps [0-9]' >/dev/null || die "mpps --version"
    local status=0
    chroot "$work/empty" /mpps sendrecv loop: --rate 10kpps --duration 200ms --settle 20ms || status=$?
    case "$status" in 0 | 3) ;; *) die "sendrecv loop: exit code $status" ;; esac
    # Names are looked up without libraries that are loaded at run time.
    mkdir "$work/empty/etc" && echo '127.0.0.1 here.invalid' >"$work/empty/etc/hosts"
    status=0
    chroot "$work/empty" /mpps send udp:127.0.0.1 --dest here.invalid:9 --rate 1kpps --duration 50ms || status=$?
    case "$status" in 0 | 3) ;; *) die "a name of /etc/hosts: exit code $status" ;; esac
    MPPS_STATIC=$static packaging/static.sh --out "$work/static" || exit 1
    tar -tzf "$work"/static/*.tar.gz | grep '/usr/bin/mpps$' >/dev/null || die "no program in the archive"
}

units() {
    needs systemd-analyze systemd
    local unit said name instance
    mkdir -p "$work/units" "$work/tree"
    cp "$(type -P true)" "$work/true"
    for name in mpps mpps-dpdk; do
        [ ! -e "$work/$name.files" ] || dpkg-deb -x "$work/debs/$name"_*.deb "$work/tree"
    done
    ls "$work"/tree/lib/systemd/system/*.service >/dev/null 2>&1 || skip "no package is made"
    for unit in "$work"/tree/lib/systemd/system/*.service; do
        # Of a program that is there, in an instance.
        name=$(basename "$unit" @.service)
        sed "s#^ExecStart=/usr/bin/mpps#ExecStart=$work/true#" "$unit" >"$work/units/$name@eth1.service"
        instance=$work/units/$name@eth1.service
        said=$(systemd-analyze verify --man=no "$instance" 2>&1)
        ! grep -F "$name" <<<"$said" || die "$said"
        # 0 is closed, 100 open.
        said=$(systemd-analyze security --offline=true --threshold=25 --no-pager "$instance" 2>&1) ||
            die "$name: $said"
        grep 'Overall exposure' <<<"$said"
        ! grep -q '@[A-Z]*@' "$unit" || die "$name: not filled in: $(grep '@[A-Z]*@' "$unit")"
    done
}

workflows() {
    needs actionlint 'from the Go module github.com/rhysd/actionlint'
    actionlint .github/workflows/*.yml
}

holds "release notes are those of the version that is asked for" notes
holds "every crate that is linked in is named, with its licence" licences
[ -z "$without" ] || holds "mpps holds what it says" deb "$without" mpps
[ -z "$with" ] || holds "mpps-dpdk holds what it says" deb "$with" mpps-dpdk --dpdk
if [ -n "$with" ]; then
    holds "the same program gives the same package" same_again "$with" mpps-dpdk --dpdk
elif [ -n "$without" ]; then
    holds "the same program gives the same package" same_again "$without" mpps
fi
holds "a program is packaged under the name for which it was built" refused
for name in mpps mpps-dpdk; do
    [ -e "$work/$name.files" ] || continue
    holds "lintian has no word against $name" lint "$name"
    holds "$name unpacked runs, and its manual opens" unpacked "$name"
    holds "$name installs into a Debian, runs, has a manual, and goes again" installed "$name"
done
[ ! -e "$work/mpps.files" ] || holds "services reflect in their sandbox, without privileges in force" services mpps
holds "an RPM holds the same, and asks for what it needs" rpm_package
holds "the static program runs where there is nothing else" static_program
holds "units are well-formed, and narrow" units
holds "workflows are well-formed" workflows

echo "test result: $([ -z "$problem" ] && echo ok || echo FAILED). $passed passed; $failed failed; $skipped ignored;" \
    "0 measured; 0 filtered out"
[ -z "$problem" ]
