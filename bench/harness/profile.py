"""Where the time goes: samples of both cores by `perf`, grouped by what the kernel or the program was doing."""

import re
import threading
from collections import Counter

from harness.proc import BenchError, run, until

WINDOW = 2.0  # s of samples
FREQUENCY = 1999  # Hz; not in step with the timer
CALLS = ("sendto", "recvfrom", "poll")
USER = 1 << 47  # addresses below it are the program's own

# Each sample belongs to the first group that knows its innermost function; if none does, its caller is asked, and so
# on.
OWN, OTHER, ELSEWHERE = "our own code", "other", "other programs, and idle"
GROUPS = tuple((name, re.compile(pattern)) for name, pattern in (
    ("copy", r"^(__)?(memcpy|memmove|copy_)|^skb_(copy_bits|store_bits|pp_cow_data)"),
    ("skb: allocate, release", r"alloc_skb|^sock_(alloc_send|wfree)|"
                               r"^_*(kmem_cache|kmalloc|kfree|slab|memcg|get_partial|put_cpu)|"
                               r"slab|page_(frag|pool)|^napi_(pp_put|skb_cache|alloc)|^_*(napi_)?build_skb|"
                               r"^consume_skb|^_*skb_(release|defer|set_owner|copy_header|headers|put|unref|free)|"
                               r"^__copy_skb|^xsk_destruct|^skb_attempt|^kfree_skb|netmem"),
    ("XDP program, redirect", r"^bpf_|^xdp_do_|^_*xsk_map_|^dev_map|^xdp_test_run"),
    ("AF_XDP socket", r"^_*xsk|^_*xp_|^sock_def_readable"),
    ("veth, device layer", r"^veth|^_*dev_|^_*netif|^eth_type|^validate_xmit|^passthru|"
                           r"^skb_(scrub|network_protocol)|^enqueue_to|^is_skb_forwardable"),
    ("softirq, NAPI", r"softirq|^_*napi|^net_rx_action|^process_backlog|^_*local_bh"),
    ("host's stack", r"^(ip|ip6|ipv6|udp|udpv6|icmp|icmpv6)_|^_*netif_receive"),
    ("system call entry", r"SYSCALL|syscall|^_*(x64_)?sys_|^sock_(sendmsg|recvmsg|poll)|fdget|sockfd|security_socket|"
                          r"^(__libc_)?(send|sendto|recv|recvfrom|poll|ppoll|clock_nanosleep)\b|^entry_"),
    ("sleep, scheduler", r"schedul|^finish_task|^pick_|nanosleep|hrtimer|^futex|^try_to_wake|^do_idle|^update_"),
))
OURS = re.compile(r"^(lane|mpps|ksoftirqd|napi/)")
MEASURED = re.compile(r"^(lane|mpps|ksoftirqd|napi/|xdp-)")


def parse(text):
    """Samples of `perf script -F comm,cpu,ip,sym`: (thread, core, [(address, symbol), innermost first])."""
    head, stack = None, []
    for line in [*text.splitlines(), ""]:
        if not line.strip():
            if head:
                yield (*head, stack)
            head, stack = None, []
        elif match := re.match(r"(\S.*?)\s+\[(\d+)\]\s*$", line):
            head = match[1], int(match[2])
        elif match := re.match(r"\s+([0-9a-f]+) (.+)$", line):
            stack.append((int(match[1], 16), match[2].strip()))


def group(stack):
    """The group of one sample."""
    for place, (address, symbol) in enumerate(stack):
        if address < USER:
            # The library's stub of a system call is part of its entry.
            called = next((name for name, pattern in GROUPS if name.startswith("system") and pattern.search(symbol)),
                          None)
            return called or (OTHER if place else OWN)
        for name, pattern in GROUPS:
            if pattern.search(symbol):
                return name
    return OTHER


def shares(samples, cores):
    """(group → [share on each of `cores`], [most frequent symbols of each core with their shares])."""
    total, groups = Counter(), {core: Counter() for core in cores}
    symbols = {core: Counter() for core in cores}
    for thread, core, stack in samples:
        if core not in groups or not stack:
            continue
        total[core] += 1
        if not OURS.match(thread):
            groups[core][ELSEWHERE] += 1
            continue
        groups[core][group(stack)] += 1
        symbols[core][stack[0][1]] += 1
    if not all(total[core] for core in cores):
        raise BenchError("perf: no samples")
    names = [OWN, *(name for name, _ in GROUPS), OTHER, ELSEWHERE]
    table = {name: [groups[core][name] / total[core] for core in cores] for name in names}
    top = [[(name, count / total[core]) for name, count in symbols[core].most_common(12)] for core in cores]
    return table, top


def _record(ctx):
    data = ctx.file(".perf")
    command = ["perf", "record", "-e", "cpu-clock", "-F", FREQUENCY, "-a", "-g", "-o", data, "--", "sleep", WINDOW]
    ctx.section.command("perf", command)
    run(command, WINDOW + 30)
    return data


def symbols(data):
    """Innermost function → its share of the samples of a recording without call chains; of other programs' all in
    one."""
    text = run(["sh", "-c", f"perf script -i {data} -F comm,ip,sym 2>/dev/null"], 120)
    found = Counter(_short(match[2].strip()) if MEASURED.match(match[1]) else ELSEWHERE
                    for match in re.finditer(r"^\s*(\S.*?)\s+[0-9a-f]{6,} (.+)$", text, re.M))
    if not found:
        raise BenchError("perf: no samples")
    return {name: count / sum(found.values()) for name, count in found.items()}


def _calls(cores):
    """System calls a second on each core: name → [calls], empty where the kernel's tracepoints can't be had."""
    events = ",".join(f"syscalls:sys_enter_{name}" for name in CALLS)
    try:
        text = run(["perf", "stat", "-x;", "-A", "-a", "-e", events, "--", "sleep", 1], 30)
    except BenchError:
        return {}
    found = {}
    for core, count, event in re.findall(r"^CPU(\d+);(\d+);[^;]*;syscalls:sys_enter_(\w+)", text, re.M):
        found.setdefault(event, {})[int(core)] = int(count)
    return {event: [counts.get(core, 0) for core in cores] for event, counts in found.items()}


def write(ctx, section, label, work):
    """Runs `work(seconds)`, which returns a round trip's metrics, and writes where its time went."""
    cores = [ctx.core_a, ctx.core_b]
    before = ctx.lab.received("a") if ctx.lab.is_up else 0
    result = []

    def job():
        try:
            result.append(work(WINDOW + 4))
        except BenchError as error:
            result.append(error)

    thread = threading.Thread(target=job)
    thread.start()
    try:
        until(lambda: result or (ctx.lab.resident.get("b") and ctx.lab.received("a") > before + 1000),
              "packets to come back", 20)
        data = _record(ctx)
        calls = _calls(cores)
    finally:
        thread.join()
    if isinstance(result[0], BenchError):
        raise result[0]
    # Symbols of the program's own file and of the kernel; standard error is full of what has none.
    text = run(["sh", "-c", f"perf script -i {data} -F comm,cpu,ip,sym 2>/dev/null"], 120)
    table, top = shares(parse(text), cores)
    metrics = result[0]
    section.text(f"`{label}`: {metrics['rate'] / 1e6:.3f} Mpps came back of {metrics['sent'] / 1e6:.3f} Mpps sent "
                 f"(while profiled).")
    head = [f"core {core}, {who}" for core, who in zip(cores, ("sendrecv", "reflect"))]
    section.table(["share of the core's time", *head],
                  [[name, *(f"{share * 100:.1f} %" for share in both)] for name, both in table.items() if any(both)])
    rows = [[f"{place + 1}"] + [f"`{_short(one[place][0])}` {one[place][1] * 100:.1f} %" if place < len(one) else "–"
                                for one in top] for place in range(max(map(len, top)))]
    section.table(["innermost function", *head], rows)
    if calls:
        section.table(["system calls a second", *head],
                      [[name, *map(str, counts)] for name, counts in calls.items() if any(counts)])


def _short(symbol):
    return re.sub(r"bpf_prog_[0-9a-f]+_", "bpf_prog_", symbol).replace("|", "\\|")
