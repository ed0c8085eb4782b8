#!/usr/bin/env bash
# Lays out what a package installs, below a folder: program, man pages, completions, units, dashboard, pages, licences.
# deb.sh and rpm.sh make packages of it, so that all of them hold the same.
#
#   packaging/tree.sh ROOT --program FILE --package NAME --units FOLDER --zsh FOLDER [--linked --musl|--dpdk]
#
# --linked names what else is linked into this program (packaging/licences.py).
# The program itself writes its man pages and completions, so it must run here, if by QEMU.
set -euo pipefail
# shellcheck source=packaging/lib.sh
. "$(dirname "$0")/lib.sh"

root=$(from_caller "${1:?tree: the folder to lay out below is missing}")
shift
program='' package='' units='' zsh='' linked=()
while [ $# -gt 0 ]; do
    case "$1" in
        --program) program=$(from_caller "${2:?}") ;;
        --package) package=${2:?} ;;
        --units) units=${2:?} ;;
        --zsh) zsh=${2:?} ;;
        --linked) linked=("${2:?}") ;;
        *) fail "unknown argument '$1': must be --program, --package, --units, --zsh or --linked" ;;
    esac
    shift 2
done
[ -n "$program" ] && [ -n "$package" ] && [ -n "$units" ] && [ -n "$zsh" ] ||
    fail "--program, --package, --units and --zsh are all needed"
[ -x "$program" ] || fail "$program is not built"

share=$root/usr/share
doc=$share/doc/$package

# put MODE SOURCE TARGET
put() { install -D -m "$1" "$2" "$3"; }

put 755 "$program" "$root/usr/bin/mpps"
# Without lines of source, with the names of functions: --profile tells where lanes are by them.
"${STRIP:-strip}" --strip-debug --remove-section=.comment "$root/usr/bin/mpps"

mkdir "$made/man"
run "$program" man --out "$made/man" >/dev/null || fail "\`$program man --out DIR\` failed: no man pages"
pages=("$made"/man/*.1)
[ -e "${pages[0]}" ] || fail "\`$program man --out DIR\` wrote no file that ends in .1"
for page in "${pages[@]}"; do
    gzip -9n "$page"
    put 644 "$page.gz" "$share/man/man1/${page##*/}.gz"
done

completions() {
    run "$program" completions "$1" >"$made/completions" || fail "\`$program completions $1\` failed"
    [ -s "$made/completions" ] || fail "\`$program completions $1\` printed nothing"
    put 644 "$made/completions" "$root$2"
}
completions bash /usr/share/bash-completion/completions/mpps
completions zsh "$zsh/_mpps"
completions fish /usr/share/fish/vendor_completions.d/mpps.fish

# unit PATH CAPABILITIES FAMILY... : a reflector on this path, with the rights that it needs (docs/security.md) and no
# others. A path that needs none has user namespaces of its own besides.
unit() {
    local path=$1 capabilities=$2 more='PrivateUsers=yes'
    shift 2
    case "$capabilities" in
        *CAP_BPF*) more='SystemCallFilter=bpf' ;;
    esac
    sed -e "s/@PATH@/$path/g; s/@PACKAGE@/$package/g; s/@CAPABILITIES@/$capabilities/g; s/@MORE@/$more/g" \
        -e "s/@FAMILIES@/$*/g" 'packaging/systemd/mpps-reflect@.service.in' >"$made/unit"
    put 644 "$made/unit" "$root$units/mpps-reflect-$path@.service"
}
sockets='AF_INET AF_INET6 AF_NETLINK'
unit udp '' "$sockets"
unit io_uring '' "$sockets"
unit af_packet 'CAP_NET_RAW CAP_NET_ADMIN CAP_BPF' "$sockets AF_PACKET"
unit af_xdp 'CAP_NET_RAW CAP_NET_ADMIN CAP_BPF CAP_PERFMON' "$sockets AF_PACKET AF_XDP"
unit xdp 'CAP_NET_ADMIN CAP_BPF CAP_PERFMON' "$sockets"

put 644 packaging/grafana/mpps.json "$share/mpps/grafana/mpps.json"
for file in packaging/prometheus/*.yml; do
    put 644 "$file" "$share/mpps/prometheus/${file##*/}"
done
put 644 packaging/logrotate/mpps "$share/mpps/logrotate/mpps"
for file in docs/*.schema.json; do
    put 644 "$file" "$share/mpps/schema/${file##*/}"
done

put 644 README.md "$doc/README.md"
for file in docs/*.md docs/*/*.md docs/images/*; do
    put 644 "$file" "$doc/$file"
done
packaging/licences.py "${linked[@]}" >"$made/THIRD-PARTY.txt" || fail "licences can't be collected"
gzip -9n "$made/THIRD-PARTY.txt"
put 644 "$made/THIRD-PARTY.txt.gz" "$doc/THIRD-PARTY.txt.gz"
