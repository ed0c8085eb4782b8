/* The plain way to measure a UDP round trip by io_uring, as a first program over it does: requests of one packet each
 * (recvmsg, sendmsg), a fixed number of them under way, a ring without any flag. An echo's request becomes the send of
 * what it received, and then receives again. Raw system calls, no library.
 *
 *   uring_echo echo IP PORT             until SIGINT or SIGTERM
 *   uring_echo send IP PORT SECONDS SIZE
 *
 * Both print one JSON line at their end. `received` of the sender counts until 200 ms after the last packet was sent.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/io_uring.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LARGEST = 2048, DEPTH = 256, ENTRIES = 512 };

struct request {
    struct msghdr message;
    struct iovec vector;
    struct sockaddr_in peer;
    int sends;
    char data[LARGEST];
};

static struct request requests[2 * DEPTH];
static volatile sig_atomic_t stop;
static int ring, sock;
static unsigned *sq_tail, *cq_head, *cq_tail, *sq_array, sq_mask, cq_mask, pending;
static struct io_uring_sqe *sqes;
static struct io_uring_cqe *cqes;

static void on_signal(int sig) {
    (void)sig;
    stop = 1;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const char *what) {
    fprintf(stderr, "uring_echo: %s: %s\n", what, strerror(errno));
    exit(1);
}

static char *map(size_t size, off_t what) {
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, what);
    if (at == MAP_FAILED)
        die("mmap");
    return at;
}

static void set_up(void) {
    struct io_uring_params p = {0};
    ring = (int)syscall(SYS_io_uring_setup, ENTRIES, &p);
    if (ring < 0)
        die("io_uring_setup");
    char *sq = map(p.sq_off.array + p.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
    char *cq = map(p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
    sqes = (void *)map(p.sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
    sq_tail = (void *)(sq + p.sq_off.tail);
    sq_mask = *(unsigned *)(sq + p.sq_off.ring_mask);
    sq_array = (void *)(sq + p.sq_off.array);
    cq_head = (void *)(cq + p.cq_off.head);
    cq_tail = (void *)(cq + p.cq_off.tail);
    cq_mask = *(unsigned *)(cq + p.cq_off.ring_mask);
    cqes = (void *)(cq + p.cq_off.cqes);
}

/* No more requests are under way than there are entries, so there is always room. */
static void request(struct request *r, int sends, size_t length) {
    unsigned tail = *sq_tail, at = tail & sq_mask;
    r->sends = sends;
    r->vector = (struct iovec){r->data, length};
    r->message.msg_iov = &r->vector;
    r->message.msg_iovlen = 1;
    r->message.msg_name = &r->peer;
    r->message.msg_namelen = sizeof r->peer;
    memset(&sqes[at], 0, sizeof sqes[at]);
    sqes[at].opcode = sends ? IORING_OP_SENDMSG : IORING_OP_RECVMSG;
    sqes[at].fd = sock;
    sqes[at].addr = (unsigned long)&r->message;
    sqes[at].len = 1;
    sqes[at].user_data = (unsigned long)r;
    sq_array[at] = at;
    atomic_store_explicit((_Atomic unsigned *)sq_tail, tail + 1, memory_order_release);
    pending++;
}

/* Hands over what is written, and waits for one completion, 100 ms at the most. */
static void enter(void) {
    struct __kernel_timespec time = {0, 100000000};
    struct io_uring_getevents_arg arg = {.ts = (unsigned long)&time};
    long n = syscall(SYS_io_uring_enter, ring, pending, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &arg,
                     sizeof arg);
    if (n >= 0)
        pending -= (unsigned)n < pending ? (unsigned)n : pending;
    else if (errno == ETIME)
        pending = 0;
    else if (errno != EINTR && errno != EBUSY && errno != EAGAIN)
        die("io_uring_enter");
}

static struct io_uring_cqe *next(void) {
    static unsigned seen;
    unsigned head = *cq_head;
    if (seen)
        atomic_store_explicit((_Atomic unsigned *)cq_head, ++head, memory_order_release);
    seen = head != atomic_load_explicit((_Atomic unsigned *)cq_tail, memory_order_acquire);
    return seen ? &cqes[head & cq_mask] : NULL;
}

static int run_echo(void) {
    unsigned long received = 0, echoed = 0;
    for (int i = 0; i < DEPTH; i++)
        request(&requests[i], 0, LARGEST);
    while (!stop) {
        enter();
        for (struct io_uring_cqe *done; (done = next());) {
            struct request *r = (void *)(unsigned long)done->user_data;
            int result = done->res;
            if (!r->sends && result >= 0) {
                received++;
                request(r, 1, (size_t)result);
            } else {
                echoed += r->sends && result >= 0;
                request(r, 0, LARGEST);
            }
        }
    }
    printf("{\"received\": %lu, \"echoed\": %lu}\n", received, echoed);
    return 0;
}

static int run_send(const struct sockaddr_in *to, double seconds, size_t size) {
    unsigned long sent = 0, received = 0, number = 0;
    double start = now(), end = start + seconds, took = 0;
    for (int i = 0; i < 2 * DEPTH; i++) {
        requests[i].peer = *to;
        request(&requests[i], i >= DEPTH, i >= DEPTH ? size : LARGEST);
    }
    while (!stop && now() < end + 0.2) {
        enter();
        for (struct io_uring_cqe *done; (done = next());) {
            struct request *r = (void *)(unsigned long)done->user_data;
            if (!r->sends) {
                received += done->res >= 0;
                request(r, 0, LARGEST);
                continue;
            }
            sent += done->res >= 0;
            took = now() - start;
            if (took < seconds) {
                memcpy(r->data, &number, size < sizeof number ? size : sizeof number);
                number++;
                r->peer = *to;
                request(r, 1, size);
            }
        }
    }
    printf("{\"sent\": %lu, \"received\": %lu, \"seconds\": %.6f}\n", sent, received, took);
    return 0;
}

int main(int argc, char **argv) {
    int echo = argc == 4 && !strcmp(argv[1], "echo");
    struct sockaddr_in address = {.sin_family = AF_INET};
    if ((!echo && !(argc == 6 && !strcmp(argv[1], "send"))) || inet_pton(AF_INET, argv[2], &address.sin_addr) != 1) {
        fprintf(stderr, "usage: uring_echo echo IP PORT | send IP PORT SECONDS SIZE\n");
        return 2;
    }
    address.sin_port = htons((unsigned short)atoi(argv[3]));
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sock = socket(AF_INET, SOCK_DGRAM, 0);
    if (sock < 0)
        die("socket");
    if (echo && bind(sock, (const struct sockaddr *)&address, sizeof address))
        die("bind");
    set_up();
    if (echo)
        return run_echo();
    size_t size = strtoul(argv[5], NULL, 10);
    return run_send(&address, atof(argv[4]), size > LARGEST ? LARGEST : size);
}
