/* A memif's other end is another program, and nothing that it writes is believed (memif.c, memif_control.c).
 *
 * The driver of DPDK makes and ends connections; what it is sent passes by memif_control.c first. Its burst functions
 * are not used: they take region, offset and length of a packet from memory that the other end writes, as they are. */
#ifndef MPPS_MEMIF_H
#define MPPS_MEMIF_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rte_mempool;

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "descriptors are read as little-endian words"
#endif

/* The protocol, version 2.0: libmemif's memif.h, and drivers/net/memif/memif.h of DPDK. */
enum { MEMIF_ACK = 1, MEMIF_HELLO, MEMIF_INIT, MEMIF_ADD_REGION, MEMIF_ADD_RING, MEMIF_CONNECT, MEMIF_CONNECTED,
       MEMIF_DISCONNECT };
enum { MEMIF_MESSAGE_BYTES = 128, MEMIF_REGIONS = 256, MEMIF_RINGS = 256, MEMIF_LOG2_MOST = 14, MEMIF_PATH = 108 };
/* Bytes of buffers that a client may have for each of its rings, if more than what the ring and `bsize` come to. */
#define MEMIF_BUFFERS_LEAST ((uint64_t)16 << 20)
#define MEMIF_NEXT 1		/* flag of a descriptor: the packet goes on in the next */
#define MEMIF_MASK_INT 1	/* flag of a ring: its reader polls */

struct memif_shared_ring {
	uint32_t cookie;
	_Atomic uint16_t flags;
	_Atomic uint16_t head;
	uint8_t pad0[56];
	_Atomic uint16_t tail;
	uint8_t pad1[62];
	/* Two words a descriptor: flags, region, length; offset, metadata. */
	_Atomic uint64_t desc[][2];
};
_Static_assert(offsetof(struct memif_shared_ring, head) == 6, "memif ring: head");
_Static_assert(offsetof(struct memif_shared_ring, tail) == 64, "memif ring: tail");
_Static_assert(offsetof(struct memif_shared_ring, desc) == 128, "memif ring: descriptors");

/* The client's packets come in one kind of ring, the server's in the other. */
enum { MEMIF_C2S, MEMIF_S2C };

struct memif_region {
	uint8_t *base;
	uint64_t size;		/* bytes; the file had as many when it was mapped */
	uint64_t mapped;	/* whole pages, which may be huge */
	bool huge;		/* of hugetlbfs: an administrator has set aside what there is of it */
};

struct memif_ring_place {
	uint32_t offset;
	uint16_t region;
	uint8_t log2;
	bool set;
	int event;		/* an eventfd that wakes a reader which does not poll; -1: none, or not ours to wake */
};

/* One connection: constant once lanes can see it. Each lane that uses it holds it, so its memory stays while a lane is
 * in the middle of a burst, whatever the driver's interrupt thread does meanwhile. */
struct memif_link {
	unsigned int holders;	/* under memif_lock */
	unsigned int regions;
	struct memif_region region[MEMIF_REGIONS];
	struct memif_ring_place ring[2][MEMIF_RINGS];
};

/* A direction of a queue; one lane's alone. */
struct memif_lane {
	struct memif_link *held;
	struct memif_shared_ring *ring;		/* NULL: the other end has no such queue */
	uint16_t size, mask;
	uint16_t at;				/* the next descriptor, counted on; ours alone, never read back */
	int event;
	unsigned long wakes;			/* an AIO context, by which readers are woken; 0: there is none */
	struct rte_mempool *pool;
} __attribute__((aligned(128)));

struct memif_port {
	struct memif_link *_Atomic link;	/* NULL: nobody is connected */
	_Atomic(const char *) fault;		/* what the other end did; after that, nothing moves */
	_Atomic uint64_t refused;		/* connections that were refused */
	_Atomic(const char *) refusal;		/* why the last was */
	char path[MEMIF_PATH];
	uint32_t id;
	bool server;
	uint64_t (*memory_left)(void);		/* bytes that the memory limit of this process leaves */
	uint64_t memory_first;			/* the same as the port was opened */
	uint64_t memory_shared;			/* bytes that clients have shared so far, whether they still do or not */
	uint16_t buffer;			/* bytes of our own buffers, as a client */
	uint16_t rx_queues, tx_queues;
	struct memif_lane *rx, *tx;
};

extern pthread_mutex_t memif_lock;

/* Whether there is a server at this socket. Under memif_lock. */
bool memif_serves(const char *path);
/* The port of this socket and number; NULL where there is none, or its driver is left alone. */
struct memif_port *memif_port_of(const char *path, uint32_t id, bool server);
/* The first of them stands. */
void memif_fault(struct memif_port *port, const char *what);
struct memif_link *memif_link_new(void);
/* Under memif_lock. */
void memif_link_release(struct memif_link *link);

/* Ends the sockets that the driver leaves behind with a server: nobody listens for any port that there is. Not under
 * memif_lock; the interrupt thread is aside. */
void memif_end_sources(void);

/* Under memif_lock: the driver has a region, too, and lets go of it (false: it is none of ours). */
void *memif_lend(struct memif_link *link, unsigned int region);
bool memif_lent_back(void *base);

/* Descriptors that another program has passed (memif_fd.c): none of these waits for what the file of one does. */

/* Looks whether a descriptor is of memory, and its file large enough for the region, and says how much to map. What is
 * wrong; NULL: nothing. */
const char *memif_memory_of(int fd, struct memif_region *region);
bool memif_is_event(int fd);
/* The means to wake readers; a negative errno where this host has none left, and then nobody is woken. */
int memif_wake_begin(unsigned long *context);
/* Adds one to an eventfd, if it is one. */
void memif_wake(unsigned long context, int event);
void memif_wake_end(unsigned long context);
/* Closes it (false: it stays open, as no process can be had for that); whether that can be done with any that comes
 * next. By the interrupt thread. */
bool memif_discard(int fd);
bool memif_can_discard(void);
/* Lets go of processes that have closed theirs; true: there are others. */
bool memif_reap(void);
/* A descriptor to be closed where there are no others left; -1: none. */
int memif_spare(void);

/* Memory of files that another process can cut short: a SIGBUS there replaces it by memory of our own. False: no
 * room. */
bool memif_watch(struct memif_port *port, void *base, uint64_t size);
void memif_unwatch(void *base);

#endif
