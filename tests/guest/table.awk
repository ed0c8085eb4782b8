# Lines "kernel TAB release TAB path TAB what was found" as the table of docs/building.md.
BEGIN { FS = "\t" }
!($1 in seen) { seen[$1] = 1; kernels[++n] = $1; release[$1] = $2 }
{
    if ($3 ~ /^dpdk on /) { sub(/^dpdk on /, "", $3); nics[$1] = nics[$1] (nics[$1] ? ", " : "") $3; next }
    what = $4
    sub(/^port '[^']*': /, "", what); sub(/^open io_uring: /, "", what); sub(/^load XDP programs for eth1: /, "", what)
    gsub(/ \([0-9][^)]*\)/, "", what)
    if (what != "works") {
        if (!(what in number)) { number[what] = ++refusals; refusal[refusals] = what }
        what = "no (" number[what] ")"
    }
    cell[$1, $3] = what
}
END {
    split("udp io_uring af_packet af_xdp xdp", paths, " ")
    print "| kernel | udp | io_uring | af_packet | af_xdp | xdp | dpdk by vfio-pci on |\n|---|---|---|---|---|---|---|"
    for (i = 1; i <= n; i++)
        for (j = i + 1; j <= n; j++) {
            split(kernels[i], a, "."); split(kernels[j], b, ".")
            if (a[1] * 1000 + a[2] > b[1] * 1000 + b[2]) { t = kernels[i]; kernels[i] = kernels[j]; kernels[j] = t }
        }
    for (i = 1; i <= n; i++) {
        k = kernels[i]
        line = "| " release[k]
        for (p = 1; p <= 5; p++) line = line " | " (cell[k, paths[p]] ? cell[k, paths[p]] : "not tried")
        print line " | " (nics[k] ? nics[k] : "not tried") " |"
    }
    print ""
    for (i = 1; i <= refusals; i++) print i ". " refusal[i]
}
