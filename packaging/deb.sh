#!/usr/bin/env bash
# Makes a Debian package of a built program.
#
#   packaging/deb.sh PROGRAM [--dpdk] [--out FOLDER]
#
# mpps_VERSION_ARCH.deb, or with --dpdk mpps-dpdk_VERSION_ARCH.deb, of a program that was built with DPDK; into
# target/packages, or FOLDER. Wants dpkg-deb and dpkg-shlibdeps (dpkg-dev). The same program gives the same bytes.
#
# DEBFULLNAME and DEBEMAIL say who made the package, DEB_REVISION which revision of this version it is (1),
# DEB_COMPRESSION how it is compressed (xz; "gzip -z1" is quick).
set -euo pipefail
# shellcheck source=packaging/lib.sh
. "$(dirname "$0")/lib.sh"

program=$(from_caller "${1:?deb: the program to package is missing}")
shift
package=mpps out=target/packages
while [ $# -gt 0 ]; do
    case "$1" in
        --dpdk) package=mpps-dpdk ;;
        --out) out=$(from_caller "${2:?deb: --out wants a folder}") && shift ;;
        *) fail "unknown argument '$1': must be --dpdk or --out" ;;
    esac
    shift
done
for tool in dpkg-deb dpkg-shlibdeps strip; do
    command -v "$tool" >/dev/null || fail "$tool is missing (apt-get install dpkg-dev binutils)"
done
[ -x "$program" ] || fail "$program is not built"

# Which libraries of DPDK's a program is linked with says which of the two packages it is for.
linked=$(libraries "$program")
case "$package:$linked" in
    mpps:*librte_*) fail "$program is linked with DPDK: it is for mpps-dpdk (--dpdk), or build with MPPS_NO_DPDK=1" ;;
    mpps-dpdk:*librte_*) ;;
    mpps-dpdk:*) fail "$program was built without DPDK: it is for mpps (no --dpdk), or install libdpdk-dev and build" ;;
esac

version=$(mpps_version)-${DEB_REVISION:-1}
maintainer="${DEBFULLNAME:-The mpps authors} <${DEBEMAIL:-mpps@packages.invalid}>"
arch=$(dpkg --print-architecture) foreign=()
if [ "$(processor "$program")" != "$(uname -m)" ]; then
    arch=arm64 root=$PWD/target/arm64/root
    [ -d "$root" ] || fail "want the packages of the libraries for arm64: scripts/arm64.sh unpacks them"
    foreign=(--admindir="$root/var/lib/dpkg" -l"$root/lib/aarch64-linux-gnu" -l"$root/usr/lib/aarch64-linux-gnu")
fi
root=$made/root
doc=$root/usr/share/doc/$package
mkdir -p "$root"
parts=()
[ "$package" = mpps ] || parts=(--linked --dpdk)
packaging/tree.sh "$root" --program "$program" --package "$package" "${parts[@]}" \
    --units /lib/systemd/system --zsh /usr/share/zsh/vendor-completions

put() { install -D -m 644 "$1" "$2"; }
put CHANGELOG.md "$doc/changelog"
{
    printf '%s (%s) unstable; urgency=medium\n\n' "$package" "$version"
    printf '  * Packaged by packaging/deb.sh. changelog.gz says what is new.\n\n'
    printf ' -- %s  %s\n' "$maintainer" "$(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")"
} >"$doc/changelog.Debian"
gzip -9n "$doc/changelog" "$doc/changelog.Debian"
sed "s/@PACKAGE@/$package/g" packaging/debian/copyright >"$made/copyright"
put "$made/copyright" "$doc/copyright"
sed "s/@PACKAGE@/$package/g" packaging/debian/lintian-overrides >"$made/overrides"
put "$made/overrides" "$root/usr/share/lintian/overrides/$package"

# dpkg-shlibdeps reads the packages that the libraries are from, and wants a source package to stand in.
mkdir "$made/debian"
printf 'Source: mpps\n\nPackage: %s\nArchitecture: any\n' "$package" >"$made/debian/control"
depends=$(cd "$made" && DEB_HOST_ARCH=$arch dpkg-shlibdeps "${foreign[@]}" -O --ignore-missing-info \
    -e root/usr/bin/mpps 2>"$made/said") ||
    fail "dpkg-shlibdeps: $(cat "$made/said")"
depends=$(sed -n 's/^shlibs:Depends=//p' <<<"$depends")

mkdir "$root/DEBIAN"
{
    printf 'Package: %s\nVersion: %s\nArchitecture: %s\nMaintainer: %s\n' "$package" "$version" "$arch" "$maintainer"
    printf 'Installed-Size: %s\n' "$(du -sk --apparent-size --exclude=DEBIAN "$root" | cut -f 1)"
    [ -z "$depends" ] || printf 'Depends: %s\n' "$depends"
    printf 'Recommends: iproute2\nSection: net\nPriority: optional\n'
    # Files of the same names: one of the two is installed.
    case "$package" in
        mpps) printf 'Conflicts: mpps-dpdk\nReplaces: mpps-dpdk\n' ;;
        *) printf 'Provides: mpps (= %s)\nConflicts: mpps\nReplaces: mpps\n' "$version" ;;
    esac
    sed -n "/^Package: $package\$/,/^\$/ { /^Package:/d; /^\$/d; p }" packaging/debian/descriptions
} >"$root/DEBIAN/control"
(cd "$root" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

mkdir -p "$out"
file=$out/${package}_${version}_$arch.deb
read -r -a compression <<<"-Z${DEB_COMPRESSION:-xz}"
dpkg-deb --root-owner-group "${compression[@]}" --build "$root" "$made/package.deb" >/dev/null
mv -f "$made/package.deb" "$file"
echo "$file"
