#!/usr/bin/env bash
# Rebuilds the BPF programs in xdp/ and crates/watch/bpf/ and compares them with the objects in the repository.
#
#   scripts/xdp.sh            compare; exit 1 where an object is not what its source gives
#   scripts/xdp.sh --update   rebuild those objects in the repository
#
# The crates embed the objects as they lie there, so that no C compiler is needed to build them. An object depends on
# its source and on the compiler's version, and on nothing of this host: no headers but those of these folders, no
# paths.
set -euo pipefail
cd "$(dirname "$0")/.."

# The version that the objects were built with: another one gives other bytes, which says nothing.
WANTED=14

skip() {
    echo "SKIPPED: $*"
    exit 0
}

clang=
for name in clang-$WANTED clang; do
    if command -v $name >/dev/null 2>&1 && $name --version | grep -q "clang version $WANTED\."; then
        clang=$name
        break
    fi
done
[ -n "$clang" ] ||
    skip "the XDP objects were built by clang $WANTED, which is not installed" \
        "(apt-get install clang-$WANTED llvm-$WANTED)"
# llc and strip: with another version of llc than clang's the objects would differ.
llc=llc-$WANTED
command -v $llc >/dev/null 2>&1 || skip "$llc is not installed (apt-get install llvm-$WANTED)"
strip=
for name in llvm-strip-$WANTED llvm-strip; do
    command -v $name >/dev/null 2>&1 && strip=$name && break
done
[ -n "$strip" ] || skip "llvm-strip is not installed (apt-get install llvm-$WANTED)"

built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT

failed=0
# A folder, and its programs. Each is compiled in its folder, so that the folder's own place is not in the object.
build() {
    local folder=$1 source object
    cd "$folder"
    for source in *.bpf.c; do
        object=${source%.c}.o
        # -g makes the BTF that the loader reads; the DWARF beside it goes. The compilation directory would be in both.
        $clang -target bpf -mcpu=v3 -O2 -g -Wall -Wextra -Werror -fdebug-compilation-dir=. -S -emit-llvm "$source" \
            -o "$built/program.ll"
        # BTF also has a line of source for each instruction: more than half of an object, and the program embeds all
        # objects. They are gone once instructions have no place in the source. Calls keep theirs: LLVM insists on it.
        sed -E -e '/@llvm\.dbg\./d' -e '/^ /{/ call /!s/, !dbg ![0-9]+//}' "$built/program.ll" >"$built/lean.ll"
        $llc -march=bpf -mcpu=v3 -filetype=obj "$built/lean.ll" -o "$built/$object"
        $strip -g "$built/$object"
        if cmp -s "$built/$object" "$object"; then
            # Not written again: its crate would be built again.
            echo "$folder/$object: is what $folder/$source gives"
        elif [ "$update" ]; then
            cp "$built/$object" "$object"
            echo "$folder/$object: built by $($clang --version | head -n 1)"
        else
            echo "$folder/$object: is NOT what $folder/$source gives (scripts/xdp.sh --update rebuilds it)"
            failed=1
        fi
    done
    cd - >/dev/null
}
update=
[ "${1:-}" = --update ] && update=yes
build xdp
build crates/watch/bpf
exit $failed
