#!/usr/bin/env bash
# Prints what CHANGELOG.md says of one version: the notes of its release.
#
#   packaging/release-notes.sh VERSION [CHANGELOG]
#
# VERSION as in "## [0.2.0] - 2027-01-31"; "## [Unreleased] – 0.2.0" is that of 0.2.0 as well. A version of which
# nothing is said is an error, so that no release goes out without notes.
set -euo pipefail
version=${1:?release-notes: the version is missing}
version=${version#v}
changelog=${2:-$(dirname "$0")/../CHANGELOG.md}

# Links to pages of the repository lead nowhere from a release: the words stay.
notes=$(awk -v version="$version" '
    /^## / {
        line = $0
        on = index(line, "## [" version "]") == 1 || line ~ ("^## \\[Unreleased\\].* " quoted(version) "$")
        next
    }
    on { print }
    function quoted(text) { gsub(/[.+]/, "[&]", text); return text }
' "$changelog" | sed -zE 's/\[([^]]*)\]\([^):]*\)/\1/g' | sed -e '/./,$!d')
if [ -z "$notes" ]; then
    echo "release-notes: $changelog says nothing of $version: want a section \"## [$version] - DATE\" with text" >&2
    exit 1
fi
printf '%s\n' "$notes"
