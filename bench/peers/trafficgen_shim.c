/* Lets Debian's xdp-trafficgen 1.3.1 run on newer kernels (6.18 here), as LD_PRELOAD:
 *
 *   cc -shared -fPIC -O2 -o trafficgen_shim.so trafficgen_shim.c -ldl
 *
 * Two things there stop it:
 * - it loads programs for tracepoints that the kernel no longer has (xdp_redirect_map, xdp_redirect_map_err), which
 *   fails the whole object: they are not loaded;
 * - it probes for BPF_F_TEST_XDP_LIVE_FRAMES with a packet of 4 bytes, which the kernel now refuses (it wants an
 *   Ethernet header): the probe gets a longer one (xdp-tools issue 505, mended upstream in 1.5.4).
 * And one thing in what it sends: its packets have a hop limit of 1, with which nothing that routes, or lowers it as a
 * router does, sends them on. They get HOP_LIMIT. IPv6 has no checksum over it. All else is untouched.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

enum { ETHERNET_HEADER = 14, PADDED = 64, IPV6_HEADER = 40, HOP_LIMIT_AT = 21, HOP_LIMIT = 64 };

/* A copy of an IPv6 frame with a hop limit of 1, with HOP_LIMIT in its place; NULL for any other frame. */
static unsigned char *with_hop_limit(const unsigned char *data, __u32 size) {
    if (size < ETHERNET_HEADER + IPV6_HEADER || data[12] != 0x86 || data[13] != 0xdd || data[HOP_LIMIT_AT] != 1)
        return NULL;
    unsigned char *frame = malloc(size);
    if (frame) {
        memcpy(frame, data, size);
        frame[HOP_LIMIT_AT] = HOP_LIMIT;
    }
    return frame;
}

static void leave_out_missing_tracepoints(struct bpf_object *object) {
    struct bpf_program *program;
    bpf_object__for_each_program(program, object) {
        const char *section = bpf_program__section_name(program);
        if (section && strstr(section, "xdp_redirect_map"))
            bpf_program__set_autoload(program, false);
    }
}

int bpf_object__load_skeleton(struct bpf_object_skeleton *skeleton) {
    int (*load)(struct bpf_object_skeleton *) = dlsym(RTLD_NEXT, "bpf_object__load_skeleton");
    leave_out_missing_tracepoints(*skeleton->obj);
    return load(skeleton);
}

int bpf_object__load(struct bpf_object *object) {
    int (*load)(struct bpf_object *) = dlsym(RTLD_NEXT, "bpf_object__load");
    leave_out_missing_tracepoints(object);
    return load(object);
}

int bpf_prog_test_run_opts(int fd, struct bpf_test_run_opts *given) {
    static char packet[PADDED];
    int (*test_run)(int, struct bpf_test_run_opts *) = dlsym(RTLD_NEXT, "bpf_prog_test_run_opts");
    if (!given || !given->data_size_in)
        return test_run(fd, given);
    if (given->data_size_in >= ETHERNET_HEADER) {
        const void *data = given->data_in;
        unsigned char *frame = with_hop_limit(data, given->data_size_in);
        if (frame)
            given->data_in = frame;
        int result = test_run(fd, given);
        given->data_in = data;
        free(frame);
        return result;
    }
    struct bpf_test_run_opts options = *given;
    struct xdp_md context;
    options.data_in = packet;
    options.data_size_in = PADDED;
    if (given->ctx_in && given->ctx_size_in == sizeof context) {
        memcpy(&context, given->ctx_in, sizeof context);
        context.data_end = context.data + PADDED;
        options.ctx_in = &context;
    }
    return test_run(fd, &options);
}
