/* Forwards frames between two links as the kernel's sample xdpsock does on one: libxdp's rings and its XDP program, one
 * UMEM for both sockets, copy mode in the driver, need-wakeup, bursts of 64. A frame that came in by one link leaves by
 * the other untouched, and is filled into the first one's ring again once it has been sent: no list of free frames.
 *
 *   xsk_links DEVICE DEVICE [poll]      until SIGINT or SIGTERM
 *
 * Spins, or with `poll` sleeps while there is nothing to do. Says `ready`, and at its end prints one JSON line.
 */
#include <errno.h>
#include <linux/if_link.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <xdp/xsk.h>

enum {
    BURST = 64,
    RING = XSK_RING_CONS__DEFAULT_NUM_DESCS,
    FRAMES = 2 * RING, /* of each link, and as many fit into its fill ring */
    FRAME_SIZE = XSK_UMEM__DEFAULT_FRAME_SIZE,
    PATIENCE = 1000, /* ms */
};

struct link {
    struct xsk_ring_prod fill, tx;
    struct xsk_ring_cons completion, rx;
    struct xsk_socket *socket;
    unsigned outstanding; /* handed to the kernel to send and not yet given back */
    unsigned long received;
};

static volatile sig_atomic_t stop;

static void on_signal(int sig) {
    (void)sig;
    stop = 1;
}

static void die(const char *what, int error) {
    fprintf(stderr, "xsk_links: %s: %s\n", what, strerror(error));
    exit(1);
}

/* In copy mode the call itself sends; what it does not get to is left for the next one. */
static void kick(struct link *out) {
    if (sendto(xsk_socket__fd(out->socket), NULL, 0, MSG_DONTWAIT, NULL, 0) < 0 && errno != EAGAIN && errno != EBUSY &&
        errno != ENOBUFS && errno != ENETDOWN)
        die("send", errno);
}

/* Frames that have left by `out` go back to where they came from. */
static void recycle(struct link *out, struct link *in) {
    unsigned n, from, to;

    if (!out->outstanding)
        return;
    if (xsk_ring_prod__needs_wakeup(&out->tx))
        kick(out);
    n = xsk_ring_cons__peek(&out->completion, BURST, &from);
    if (!n)
        return;
    if (xsk_ring_prod__reserve(&in->fill, n, &to) != n)
        die("fill", ENOSPC);
    for (unsigned i = 0; i < n; i++)
        *xsk_ring_prod__fill_addr(&in->fill, to + i) = *xsk_ring_cons__comp_addr(&out->completion, from + i);
    xsk_ring_prod__submit(&in->fill, n);
    xsk_ring_cons__release(&out->completion, n);
    out->outstanding -= n;
}

/* Moves a burst; how many frames it had. */
static unsigned forward(struct link *in, struct link *out) {
    unsigned n, from, to;

    recycle(out, in);
    n = xsk_ring_cons__peek(&in->rx, BURST, &from);
    if (!n) {
        if (xsk_ring_prod__needs_wakeup(&in->fill))
            recvfrom(xsk_socket__fd(in->socket), NULL, 0, MSG_DONTWAIT, NULL, NULL);
        return 0;
    }
    while (xsk_ring_prod__reserve(&out->tx, n, &to) != n) {
        recycle(out, in);
        if (stop)
            return 0;
    }
    for (unsigned i = 0; i < n; i++) {
        const struct xdp_desc *frame = xsk_ring_cons__rx_desc(&in->rx, from + i);
        struct xdp_desc *sent = xsk_ring_prod__tx_desc(&out->tx, to + i);

        sent->addr = frame->addr;
        sent->len = frame->len;
        sent->options = 0;
    }
    xsk_ring_prod__submit(&out->tx, n);
    xsk_ring_cons__release(&in->rx, n);
    out->outstanding += n;
    in->received += n;
    return n;
}

static void supply(struct link *link, unsigned first) {
    unsigned to;

    if (xsk_ring_prod__reserve(&link->fill, FRAMES, &to) != FRAMES)
        die("fill", ENOSPC);
    for (unsigned i = 0; i < FRAMES; i++)
        *xsk_ring_prod__fill_addr(&link->fill, to + i) = (unsigned long long)(first + i) * FRAME_SIZE;
    xsk_ring_prod__submit(&link->fill, FRAMES);
}

int main(int argc, char **argv) {
    static struct link links[2];
    const struct xsk_umem_config memory = {
        .fill_size = FRAMES, .comp_size = RING, .frame_size = FRAME_SIZE, .frame_headroom = 0, .flags = 0};
    const struct xsk_socket_config config = {.rx_size = RING,
                                             .tx_size = RING,
                                             .xdp_flags = XDP_FLAGS_DRV_MODE,
                                             .bind_flags = XDP_COPY | XDP_USE_NEED_WAKEUP};
    const size_t size = 2UL * FRAMES * FRAME_SIZE;
    struct xsk_umem *umem;
    struct pollfd ports[2];
    int sleeps = argc == 4 && !strcmp(argv[3], "poll"), error;

    if (argc != 3 && !sleeps) {
        fputs("usage: xsk_links DEVICE DEVICE [poll]\n", stderr);
        return 2;
    }
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);

    void *area = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (area == MAP_FAILED)
        die("memory", errno);
    /* Fill and completion ring of the UMEM become those of the first socket; the second brings its own. */
    error = xsk_umem__create(&umem, area, size, &links[0].fill, &links[0].completion, &memory);
    if (error)
        die("umem", -error);
    for (int i = 0; i < 2; i++) {
        struct link *link = &links[i];

        error = xsk_socket__create_shared(&link->socket, argv[1 + i], 0, umem, &link->rx, &link->tx, &link->fill,
                                          &link->completion, &config);
        if (error)
            die(argv[1 + i], -error);
        supply(link, (unsigned)i * FRAMES);
        ports[i] = (struct pollfd){.fd = xsk_socket__fd(link->socket), .events = POLLIN};
    }
    puts("ready");
    fflush(stdout);

    while (!stop) {
        unsigned moved = forward(&links[0], &links[1]) + forward(&links[1], &links[0]);

        if (sleeps && !moved && !links[0].outstanding && !links[1].outstanding)
            poll(ports, 2, PATIENCE);
    }
    printf("{\"received\": [%lu, %lu]}\n", links[0].received, links[1].received);
    xsk_socket__delete(links[1].socket);
    xsk_socket__delete(links[0].socket);
    xsk_umem__delete(umem);
    return 0;
}
