#!/usr/bin/env bash
# Makes an RPM of a program that was built without DPDK.
#
#   packaging/rpm.sh PROGRAM [--out FOLDER]
#
# mpps-VERSION-RELEASE.ARCH.rpm, into target/packages, or FOLDER. Wants rpmbuild (Fedora: rpm-build; Debian: rpm). What
# it needs to run is read off the program: the C library of the host that built it, or a newer one.
#
# RPM_RELEASE says which package of this version it is (1), RPM_PAYLOAD how it is compressed (w19.zstdio).
set -euo pipefail
# shellcheck source=packaging/lib.sh
. "$(dirname "$0")/lib.sh"

program=$(from_caller "${1:?rpm: the program to package is missing}")
shift
out=target/packages
while [ $# -gt 0 ]; do
    case "$1" in
        --out) out=$(from_caller "${2:?rpm: --out wants a folder}") && shift ;;
        *) fail "unknown argument '$1': must be --out" ;;
    esac
    shift
done
command -v rpmbuild >/dev/null ||
    fail "rpmbuild is missing (Debian: apt-get install rpm; Fedora: dnf install rpm-build)"
[ -x "$program" ] || fail "$program is not built"
if grep -q '^librte_' <<<"$(libraries "$program")"; then
    fail "$program is linked with DPDK, of which each distribution has a version of its own: build with MPPS_NO_DPDK=1"
fi

# They become macros, which rpm expands, and words of the shell that runs what the .spec file says.
for text in "$program" "$PWD" "$made" "${RPM_PAYLOAD:-}" "${RPM_RELEASE:-}"; do
    case "$text" in
        *[!A-Za-z0-9/._+~=@,:-]*)
            shown=$(printf '%s' "$text" | tr -c '[:print:]' '?')
            fail "'$shown': want a path or value of letters, digits and /._+~=@,:- alone"
            ;;
    esac
done

version=$(mpps_version)
rpmbuild -bb --quiet --nodeps --target "$(processor "$program")-linux" \
    --define "_topdir $made" --define "_rpmdir $made/rpms" --define "_buildhost localhost" \
    --define "_binary_payload ${RPM_PAYLOAD:-w19.zstdio}" \
    --define 'use_source_date_epoch_as_buildtime 1' --define 'clamp_mtime_to_source_date_epoch 1' \
    --define "mpps_program $program" --define "mpps_version ${version//-/\~}" \
    --define "mpps_release ${RPM_RELEASE:-1}" --define "mpps_source $PWD" \
    packaging/mpps.spec >"$made/said" 2>&1 || fail "rpmbuild failed:"$'\n'"$(cat "$made/said")"
mkdir -p "$out"
find "$made/rpms" -name '*.rpm' -print0 | while IFS= read -r -d '' file; do
    mv -f "$file" "$out/"
    echo "$out/${file##*/}"
done
