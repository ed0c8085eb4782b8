#!/usr/bin/env bash
# Judges what tests have skipped: every skip that tests/skips does not allow is named, and is a failure.
#
#   scripts/skips.sh LOG…
set -euo pipefail
allowed=$(dirname "$0")/../tests/skips
awk -F '\t' '
    FNR == NR { if ($0 !~ /^#/ && NF) { if ($2 == "") exit bad = 2; reason[$1] = $2 }; next }
    !sub(/^ *SKIPPED: /, "") || seen[$0]++ { next }
    {
        for (start in reason) if (index($0, start) == 1) { skipped++; next }
        print "SKIPPED, and not on the list tests/skips: " $0
        bad = 1
    }
    END {
        if (bad == 2) print "tests/skips: a line without a reason"
        else if (!bad) print "skipped: " skipped + 0 ", all on the list tests/skips"
        exit bad
    }
' "$allowed" "$@"
