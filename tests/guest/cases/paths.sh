# Every path of the kernel's: 1,000 packets there and back, or the refusal that names what it wants.
# quick: 5.10 6.1
# amd64: all
# arm64: all
# limit: 420
. "$LIB"

two_hosts
wrong=
for path in udp io_uring af_packet af_xdp xdp; do
    case $KERNEL/$path in
        # Ubuntu's 6.8 answers as those before 5.19 do.
        5.10/io_uring | 5.14/io_uring | 5.15/io_uring | 6.8/io_uring)
            want="*refuses provided buffer rings (Linux 5.19 has them): Invalid argument (os error 22): use udp" ;;
        5.10/xdp | 5.14/xdp | 5.15/xdp) want="*helpers for frames in several buffers (Linux 5.18): use af_xdp or af_packet" ;;
        *) want=works ;;
    esac
    judge $path "$want"
done
[ -z "$wrong" ] || failed "not as it should be:$wrong"
echo ok
