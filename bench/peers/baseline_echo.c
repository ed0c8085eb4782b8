/* The plain way to measure a UDP round trip, as published tools do it: the sender has one thread that sends flat out
 * and one that receives, the echo one thread that receives and sends back, all spinning on non-blocking sockets, one
 * system call a packet.
 *
 *   baseline_echo echo IP PORT             until SIGINT or SIGTERM
 *   baseline_echo send IP PORT SECONDS SIZE
 *
 * Both print one JSON line at their end. `received` of the sender counts until 200 ms after the last packet was sent.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { LARGEST = 65507 };

static atomic_int stop;
static int sock;
static unsigned long received;

static void on_signal(int sig) {
    (void)sig;
    atomic_store_explicit(&stop, 1, memory_order_relaxed);
}

static int stopped(void) { return atomic_load_explicit(&stop, memory_order_relaxed); }

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const char *what) {
    fprintf(stderr, "baseline_echo: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int again(void) {
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOBUFS || errno == ECONNREFUSED;
}

static void *receive(void *unused) {
    static char data[LARGEST];
    while (!stopped()) {
        if (recvfrom(sock, data, sizeof data, MSG_DONTWAIT, NULL, NULL) >= 0)
            received++;
        else if (!again())
            die("recvfrom");
    }
    return unused;
}

static int run_send(const struct sockaddr_in *to, double seconds, size_t size) {
    static char data[LARGEST];
    unsigned long sent = 0;
    pthread_t receiver;
    if (pthread_create(&receiver, NULL, receive, NULL))
        die("pthread_create");
    double start = now(), end = start + seconds;
    while (!stopped() && now() < end) {
        memcpy(data, &sent, size < sizeof sent ? size : sizeof sent);
        if (sendto(sock, data, size, MSG_DONTWAIT, (const struct sockaddr *)to, sizeof *to) >= 0)
            sent++;
        else if (!again())
            die("sendto");
    }
    double took = now() - start;
    struct timespec settle = {0, 200000000};
    nanosleep(&settle, NULL);
    atomic_store(&stop, 1);
    pthread_join(receiver, NULL);
    printf("{\"sent\": %lu, \"received\": %lu, \"seconds\": %.6f}\n", sent, received, took);
    return 0;
}

static int run_echo(const struct sockaddr_in *at) {
    static char data[LARGEST];
    unsigned long echoed = 0;
    if (bind(sock, (const struct sockaddr *)at, sizeof *at))
        die("bind");
    while (!stopped()) {
        struct sockaddr_in from;
        socklen_t length = sizeof from;
        ssize_t n = recvfrom(sock, data, sizeof data, MSG_DONTWAIT, (struct sockaddr *)&from, &length);
        if (n < 0) {
            if (!again())
                die("recvfrom");
            continue;
        }
        received++;
        if (sendto(sock, data, (size_t)n, MSG_DONTWAIT, (struct sockaddr *)&from, length) >= 0)
            echoed++;
    }
    printf("{\"received\": %lu, \"echoed\": %lu}\n", received, echoed);
    return 0;
}

int main(int argc, char **argv) {
    int echo = argc == 4 && !strcmp(argv[1], "echo");
    struct sockaddr_in address = {.sin_family = AF_INET};
    if ((!echo && !(argc == 6 && !strcmp(argv[1], "send"))) || inet_pton(AF_INET, argv[2], &address.sin_addr) != 1) {
        fprintf(stderr, "usage: baseline_echo echo IP PORT | send IP PORT SECONDS SIZE\n");
        return 2;
    }
    address.sin_port = htons((unsigned short)atoi(argv[3]));
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sock = socket(AF_INET, SOCK_DGRAM, 0);
    if (sock < 0)
        die("socket");
    if (echo)
        return run_echo(&address);
    size_t size = strtoul(argv[5], NULL, 10);
    return run_send(&address, atof(argv[4]), size > LARGEST ? LARGEST : size);
}
