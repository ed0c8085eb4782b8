# Lines "kernel TAB release TAB path TAB what was found TAB processor TAB page size in KiB", the path with " on NIC" if
# there was one, as the tables of docs/use/building.md.
BEGIN { FS = "\t" }
{
    what = $4
    sub(/^port '[^']*': /, "", what)
    sub(/^open io_uring: /, "", what)
    sub(/^load XDP programs for eth1: /, "", what)
    sub(/^send from the kernel on eth1: /, "", what)
    gsub(/ \([0-9][^)]*\)/, "", what)
    if (what != "works") {
        if (!(what in number)) {
            number[what] = ++refusals
            refusal[refusals] = what
        }
        what = "no (" number[what] ")"
    }
    if (split($3, of, " on ") == 2) {
        split(of[1], path, ",")
        if (path[2]) what = what " (`" path[2] "`)"
        if (!(of[2] in nic)) nics[++m] = of[2]
        nic[of[2]] = 1
        what = what " [" $1 "]"
        at = of[2] SUBSEP path[1]
        # Some awks make the entry before they look for it.
        before = (at in on) ? on[at] ", " : ""
        on[at] = before what
        next
    }
    if (!($1 in release)) kernels[++n] = $1
    release[$1] = $2 " | " ($5 ? $5 : "x86_64") " | " ($6 ? $6 : 4) " KiB"
    cell[$1, $3] = what
}
function rank(kernel, part) {
    sub(/^arm64-/, "1000", kernel)
    split(kernel, part, ".")
    return part[1] * 1000 + part[2]
}
function or_not(what) {
    return what ? what : "not tried"
}
END {
    split("udp io_uring af_packet af_xdp xdp dpdk", paths, " ")
    for (i = 1; i <= n; i++)
        for (j = i + 1; j <= n; j++)
            if (rank(kernels[i]) > rank(kernels[j])) {
                t = kernels[i]
                kernels[i] = kernels[j]
                kernels[j] = t
            }
    print "| kernel | processor | pages | udp | io_uring | af_packet | af_xdp | xdp |"
    print "|---|---|---|---|---|---|---|---|"
    for (i = 1; i <= n; i++) {
        line = "| " release[kernels[i]]
        for (p = 1; p <= 5; p++) line = line " | " or_not(cell[kernels[i], paths[p]])
        print line " |"
    }
    print "\n| NIC [kernel] | udp | io_uring | af_packet | af_xdp | xdp | dpdk by vfio-pci |\n|---|---|---|---|---|---|---|"
    for (i = 1; i <= m; i++) {
        line = "| " nics[i]
        for (p = 1; p <= 6; p++) line = line " | " or_not(on[nics[i], paths[p]])
        print line " |"
    }
    print ""
    for (i = 1; i <= refusals; i++) print i ". " refusal[i]
}
