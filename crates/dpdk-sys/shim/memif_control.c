/* What the driver of net_memif is told by the other end, looked at before the driver sees it.
 *
 * The archive of the driver is linked with these functions in place of the system's (build.rs). The driver checks
 * little: it takes any ring at any offset of any region, as often as it is sent one, at any time. Here messages come in
 * the order of the protocol, each ring once, within a region, and a region within its file. Another message ends the
 * connection, as the driver ends one that has failed.
 *
 * The same messages say where the rings are, so lanes have them for themselves (memif.c): the driver unmaps its own
 * while a lane may be in the middle of a burst.
 *
 * A descriptor that another program passes may be of a file whose every call waits for that program (FUSE), even the
 * call that closes it, and then for ever. So the kernel is asked for one with the messages that take one, and for none
 * with the others; it is looked at without its file system being asked; and it is closed by a process that can be left
 * to wait (memif_fd.c). The driver gets a number in its place: it would close some of them twice, and others never. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <sys/un.h>
#include <unistd.h>

#include <rte_alarm.h>
#include <rte_interrupts.h>

#include "memif.h"

/* Connections that have a file descriptor; two or three are usual. Of those that a server has not connected yet, so
 * many may be there at once, each so long: a client takes milliseconds. */
enum { CONTROLS = 64, WATCHED = CONTROLS * MEMIF_REGIONS, UNCONNECTED = 16, PATIENCE_SECONDS = 3 };

/* What the driver gets in place of a descriptor that was passed: no descriptor has so large a number. Which connection
 * and which region, or a ring's. */
enum { STAND_IN = 1 << 30, STAND_IN_RING = 1 << 20 };

static struct control {
	int fd;			/* 0: free. Standard input is no socket of the driver's */
	bool server;
	bool begun;		/* INIT (server) or HELLO (client) was received */
	bool asked;		/* CONNECT was sent or received */
	bool connected;
	bool ended;		/* both ways are shut: the driver is about to close it */
	time_t since;		/* seconds; monotonic */
	uint64_t number;	/* in the order in which they came */
	char path[MEMIF_PATH];
	struct memif_port *port;
	struct memif_link *link;
} controls[CONTROLS];

/* What the driver has the interrupt thread listen to: the connections, and the sockets of servers. */
static struct source {
	int fd;			/* 0: free */
	rte_intr_callback_fn callback;
	void *arg;
} sources[2 * CONTROLS];

/* ---- memory that may be cut short */

static struct watched {
	_Atomic(uint8_t *) base;
	_Atomic uint64_t size;
	_Atomic(struct memif_port *) port;
} watched[WATCHED];

static struct sigaction before;

static void
cut_short(int number, siginfo_t *info, void *context)
{
	uint8_t *at = info->si_addr;

	(void)context;
	for (unsigned int i = 0; i < WATCHED; i++) {
		uint8_t *base = atomic_load(&watched[i].base);
		uint64_t size = atomic_load(&watched[i].size);
		if (base == NULL || at < base || at >= base + size)
			continue;
		/* Zeros in its place, for us alone: whoever was about to read or write goes on, and finds the fault after. */
		if (mmap(base, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) ==
		    MAP_FAILED)
			break;
		struct memif_port *port = atomic_load(&watched[i].port);
		if (port != NULL)
			memif_fault(port, "it cut short the file of its memory");
		return;
	}
	/* Nothing of ours: whoever had the signal before gets it, as the instruction is tried again. */
	sigaction(number, &before, NULL);
}

bool
memif_watch(struct memif_port *port, void *base, uint64_t size)
{
	static bool installed;

	if (!installed) {
		struct sigaction action;
		memset(&action, 0, sizeof(action));
		action.sa_sigaction = cut_short;
		action.sa_flags = SA_SIGINFO | SA_ONSTACK;
		installed = sigaction(SIGBUS, &action, &before) == 0;
	}
	for (unsigned int i = 0; installed && i < WATCHED; i++)
		if (atomic_load(&watched[i].base) == NULL) {
			atomic_store(&watched[i].size, size);
			atomic_store(&watched[i].port, port);
			atomic_store(&watched[i].base, base);
			return true;
		}
	return false;
}

void
memif_unwatch(void *base)
{
	for (unsigned int i = 0; i < WATCHED; i++)
		if (atomic_load(&watched[i].base) == base) {
			atomic_store(&watched[i].base, NULL);
			return;
		}
}

/* ---- connections */

static struct control *
control_of(int fd)
{
	for (unsigned int i = 0; fd > 0 && i < CONTROLS; i++)
		if (controls[i].fd == fd)
			return &controls[i];
	return NULL;
}

static void
forget(struct control *c)
{
	if (c->port != NULL && c->link != NULL && atomic_load(&c->port->link) == c->link) {
		atomic_store(&c->port->link, NULL);
		memif_link_release(c->link);
	}
	memif_link_release(c->link);
	memset(c, 0, sizeof(*c));
}

static void
socket_name(char path[MEMIF_PATH], const struct sockaddr_un *at)
{
	/* A name without a file begins with a zero. */
	const char *name = at->sun_path[0] != '\0' ? at->sun_path : at->sun_path + 1;

	snprintf(path, MEMIF_PATH, "%.*s", (int)sizeof(at->sun_path) - 1, name);
}

static time_t
now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec;
}

/* A client that a server has not connected yet. */
static bool
waits(const struct control *c)
{
	return c->fd != 0 && c->server && !c->connected && !c->ended;
}

/* The driver reads the end, and closes the socket. */
static void
end(struct control *c)
{
	c->ended = true;
	(void)shutdown(c->fd, SHUT_RDWR);
}

/* Ends connections that have taken too long, and the closing of what they passed. In the interrupt thread, as long as
 * there are any. */
static void
look_after(void *arg)
{
	bool more = memif_reap();

	(void)arg;
	pthread_mutex_lock(&memif_lock);
	for (unsigned int i = 0; i < CONTROLS; i++) {
		struct control *c = &controls[i];
		char unread;
		/* What it has said in time and we have not read yet is our own delay. */
		if (waits(c) && now() - c->since >= PATIENCE_SECONDS &&
		    recv(c->fd, &unread, sizeof(unread), MSG_PEEK | MSG_DONTWAIT) <= 0)
			end(c);
		more = more || waits(c);
	}
	pthread_mutex_unlock(&memif_lock);
	if (more)
		(void)rte_eal_alarm_set(1000000, look_after, NULL);
}

/* Where there are too many that say nothing, the one that came first goes. */
static void
make_room(void)
{
	struct control *first = NULL;
	unsigned int count = 0;

	for (unsigned int i = 0; i < CONTROLS; i++) {
		struct control *c = &controls[i];
		if (!waits(c))
			continue;
		count++;
		if (first == NULL || c->number < first->number)
			first = c;
	}
	if (count >= UNCONNECTED)
		end(first);
}

static bool
remember(int fd, const struct sockaddr_un *at, bool server)
{
	static uint64_t number;

	struct control *c = control_of(fd);

	if (c != NULL)
		forget(c);
	for (unsigned int i = 0; i < CONTROLS; i++) {
		c = &controls[i];
		if (c->fd != 0)
			continue;
		c->link = memif_link_new();
		if (c->link == NULL)
			return false;
		c->fd = fd;
		c->server = server;
		c->since = now();
		c->number = number++;
		socket_name(c->path, at);
		return true;
	}
	return false;
}

/* Given up for a moment where there are no descriptors left. */
static int spare = -1;

int
mpps_memif_accept(int fd, struct sockaddr *address, socklen_t *length)
{
	struct sockaddr_un at = { 0 };
	socklen_t size = sizeof(at) - 1;
	int got = accept4(fd, address, length, SOCK_CLOEXEC), off = 0;

	/* One that waits to be accepted would wake the thread for ever. */
	if (got < 0 && (errno == EMFILE || errno == ENFILE) && spare >= 0) {
		close(spare);
		got = accept4(fd, address, length, SOCK_CLOEXEC);
		if (got >= 0)
			close(got);
		got = -1;
		spare = -1;
		errno = EMFILE;
	}
	if (spare < 0)
		spare = memif_spare();
	if (got < 0)
		return got;
	/* Who is there the driver does not ask, and it would take the room of a descriptor. */
	(void)setsockopt(got, SOL_SOCKET, SO_PASSCRED, &off, sizeof(off));
	pthread_mutex_lock(&memif_lock);
	make_room();
	bool kept = getsockname(fd, (struct sockaddr *)&at, &size) == 0 && remember(got, &at, true);
	pthread_mutex_unlock(&memif_lock);
	(void)rte_eal_alarm_cancel(look_after, NULL);
	if (kept)
		(void)rte_eal_alarm_set(1000000, look_after, NULL);
	if (!kept) {
		close(got);
		errno = ENOBUFS;
		return -1;
	}
	return got;
}

int
mpps_memif_connect(int fd, const struct sockaddr *address, socklen_t length)
{
	struct sockaddr_un at = { 0 };
	/* A server that is stopped does not accept: it is tried again, not waited for. */
	struct timeval patience = { .tv_usec = 200000 }, for_ever = { 0 };

	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	int result = connect(fd, address, length);
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &for_ever, sizeof(for_ever));

	if (result < 0)
		return result;
	memcpy(&at, address, length < sizeof(at) ? length : sizeof(at));
	pthread_mutex_lock(&memif_lock);
	bool kept = remember(fd, &at, false);
	pthread_mutex_unlock(&memif_lock);
	if (!kept) {
		errno = ENOBUFS;
		return -1;
	}
	return result;
}

static struct source *
source_of(int fd)
{
	for (unsigned int i = 0; i < 2 * CONTROLS; i++)
		if (sources[i].fd == fd)
			return &sources[i];
	return NULL;
}

int
mpps_memif_intr_register(const struct rte_intr_handle *handle, rte_intr_callback_fn callback, void *arg)
{
	int fd = rte_intr_fd_get(handle);

	pthread_mutex_lock(&memif_lock);
	if (spare < 0)
		spare = memif_spare();
	struct source *source = fd > 0 ? source_of(0) : NULL;
	/* Before the thread knows of it: it may close the socket at once. */
	if (source != NULL)
		*source = (struct source){ fd, callback, arg };
	pthread_mutex_unlock(&memif_lock);
	if (source == NULL)
		return -ENOSPC;
	/* Where this fails, the driver closes the socket. */
	return rte_intr_callback_register(handle, callback, arg);
}

/* The name of a server's socket, whether this listens or was accepted there. False: another. */
static bool
server_path(int fd, char path[MEMIF_PATH])
{
	struct sockaddr_un at = { 0 };
	socklen_t size = sizeof(at) - 1;
	struct control *c = control_of(fd);

	if (c != NULL) {
		memcpy(path, c->path, MEMIF_PATH);
		return c->server;
	}
	if (getsockname(fd, (struct sockaddr *)&at, &size) != 0)
		return false;
	socket_name(path, &at);
	return true;
}

int mpps_memif_close_fd(int fd);

void
memif_end_sources(void)
{
	struct rte_intr_handle *handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);

	(void)rte_eal_alarm_cancel(look_after, NULL);
	for (unsigned int i = 0; handle != NULL && i < 2 * CONTROLS; i++) {
		char path[MEMIF_PATH];
		pthread_mutex_lock(&memif_lock);
		struct source source = sources[i];
		bool ends = source.fd > 0 && server_path(source.fd, path) && !memif_serves(path);
		pthread_mutex_unlock(&memif_lock);
		/* By its number: the driver may have freed the handle. What it had for a connection that never said which port
		 * it wants stays with DPDK's memory: the port has ended. */
		if (ends && rte_intr_fd_set(handle, source.fd) == 0 &&
		    rte_intr_callback_unregister(handle, source.callback, source.arg) > 0)
			mpps_memif_close_fd(source.fd);
	}
	rte_intr_instance_free(handle);
}

int
mpps_memif_close_fd(int fd)
{
	if (fd >= STAND_IN)
		return 0;
	pthread_mutex_lock(&memif_lock);
	struct control *c = control_of(fd);
	if (c != NULL)
		forget(c);
	struct source *source = fd > 0 ? source_of(fd) : NULL;
	if (source != NULL)
		source->fd = 0;
	pthread_mutex_unlock(&memif_lock);
	return close(fd);
}

/* The driver's mapping of a region, by which it looks at the rings once, as it connects. A region that was passed is
 * mapped already, and is the driver's as long as it wants it. */
void *
mpps_memif_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
	void *base = MAP_FAILED;

	if (fd >= STAND_IN) {
		unsigned int slot = (unsigned int)(fd - STAND_IN) / MEMIF_REGIONS, index = (unsigned int)fd % MEMIF_REGIONS;
		pthread_mutex_lock(&memif_lock);
		struct memif_link *link = slot < CONTROLS ? controls[slot].link : NULL;
		if (link != NULL && index < link->regions && size <= link->region[index].size)
			base = memif_lend(link, index);
		pthread_mutex_unlock(&memif_lock);
		if (base == MAP_FAILED)
			errno = EINVAL;
		return base;
	}
	base = mmap(address, size, protection, flags, fd, offset);
	if (base != MAP_FAILED && !memif_watch(NULL, base, size)) {
		munmap(base, size);
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return base;
}

int
mpps_memif_munmap(void *base, size_t size)
{
	pthread_mutex_lock(&memif_lock);
	bool lent = memif_lent_back(base);
	pthread_mutex_unlock(&memif_lock);
	if (lent)
		return 0;
	memif_unwatch(base);
	return munmap(base, size);
}

/* ---- messages: bytes at offsets, as they are packed */

static uint64_t
field(const uint8_t *message, unsigned int at, unsigned int bytes)
{
	uint64_t value = 0;

	memcpy(&value, message + at, bytes);
	return value;
}

static const char *
add_region(struct control *c, const uint8_t *message, int fd)
{
	uint64_t index = field(message, 2, 2), size = field(message, 4, 8);
	struct memif_link *link = c->link;
	struct memif_region region = { .size = size };

	if (index != link->regions || index >= MEMIF_REGIONS)
		return "a region out of turn";
	const char *wrong = memif_memory_of(fd, &region);
	if (wrong != NULL)
		return wrong;
	region.base = mmap(NULL, region.mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (region.base == MAP_FAILED)
		return "a region that can't be mapped";
	if (!memif_watch(c->port, region.base, region.mapped)) {
		munmap(region.base, region.mapped);
		return "too many regions";
	}
	link->region[index] = region;
	link->regions++;
	return NULL;
}

static const char *
add_ring(struct control *c, const uint8_t *message, int fd)
{
	unsigned int kind = (field(message, 2, 2) & 1) ? MEMIF_C2S : MEMIF_S2C;
	uint64_t index = field(message, 4, 2), region = field(message, 6, 2), offset = field(message, 8, 4);
	unsigned int log2 = message[12];
	struct memif_link *link = c->link;

	if (index >= MEMIF_RINGS || link->ring[kind][index].set)
		return "a ring out of turn";
	if (log2 == 0 || log2 > MEMIF_LOG2_MOST)
		return "a ring of a length that no ring has";
	uint64_t bytes = sizeof(struct memif_shared_ring) + ((uint64_t)16 << log2);
	if (region >= link->regions || offset % 8 != 0 || offset + bytes > link->region[region].size)
		return "a ring outside its regions";
	if (c->server && !memif_is_event(fd))
		return "a ring whose descriptor is no eventfd";
	/* Only the reader of a ring is woken, and by a lane. */
	bool ours = kind == (c->server ? MEMIF_S2C : MEMIF_C2S) && c->port != NULL && index < c->port->tx_queues;
	link->ring[kind][index] = (struct memif_ring_place){
		.offset = (uint32_t)offset, .region = (uint16_t)region, .log2 = (uint8_t)log2, .set = true,
		.event = fd >= 0 && ours ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1,
	};
	return NULL;
}

/* Reason to refuse a client that shares more memory than its rings need, or than half of what the memory limit of this
 * process leaves, or that with those before it has shared three quarters of what there was, where less than a quarter
 * is left; NULL: none.
 *
 * A page of its file that nobody has touched yet is charged to whoever touches it first, and stays charged: a client
 * that moves its buffers about in a file of a TiB would fill this process's memory limit with pages that only the
 * client can free. One that connects again and again and keeps its files would do so as well, a little each time. Pages
 * of hugetlbfs are taken from a store of their own. */
static const char *
beyond_agreed(struct control *c)
{
	const struct memif_link *link = c->link;
	uint64_t left = 0, shared = 0;

	for (unsigned int kind = 0; kind < 2; kind++)
		for (unsigned int i = 0; i < (kind == MEMIF_C2S ? c->port->rx_queues : c->port->tx_queues); i++) {
			const struct memif_ring_place *ring = &link->ring[kind][i];
			if (!ring->set)
				continue;
			left += sizeof(struct memif_shared_ring) + ((uint64_t)16 << ring->log2);
			left += RTE_MAX((uint64_t)c->port->buffer << ring->log2, MEMIF_BUFFERS_LEAST);
		}
	for (unsigned int i = 0; i < link->regions; i++) {
		if (link->region[i].huge)
			continue;
		if (link->region[i].size > left)
			return "more memory than its rings need (set bsize= to the client's, or have the client copy)";
		left -= link->region[i].size;
		shared += link->region[i].size;
	}
	uint64_t rest = c->port->memory_left(), first = c->port->memory_first;
	/* Clients may have let go of what they shared, and others may have taken what is gone: both must hold. */
	bool taken = c->port->memory_shared + shared > first / 4 * 3 && rest < first / 4 + shared;
	if (shared > rest / 2 || taken)
		return "more memory than the memory limit of this process leaves for it";
	c->port->memory_shared += shared;
	return NULL;
}

/* Lanes take it up once the driver says that the link is up. */
static const char *
publish(struct control *c)
{
	if (atomic_load(&c->port->fault) != NULL)
		return "a connection after a fault";
	memif_link_release(atomic_load(&c->port->link));
	c->link->holders++;
	atomic_store(&c->port->link, c->link);
	c->connected = true;
	return NULL;
}

/* What is wrong with a message that was received; NULL: nothing. Texts in it end with a zero after. */
static const char *
received(struct control *c, uint8_t *message, int fd)
{
	uint64_t type = field(message, 0, 2);

	if (type == MEMIF_ACK)
		return NULL;
	if (type == MEMIF_DISCONNECT) {
		message[6 + 95] = '\0';
		return NULL;
	}
	if (!c->server) {
		if (type == MEMIF_HELLO && !c->begun) {
			message[2 + 31] = '\0';
			c->begun = true;
			return NULL;
		}
		if (type == MEMIF_CONNECTED && c->asked && !c->connected) {
			message[2 + 31] = '\0';
			return c->port != NULL ? publish(c) : NULL;
		}
		return "a message out of turn";
	}
	if (type == MEMIF_INIT && !c->begun) {
		message[9 + 24 + 31] = '\0';
		c->begun = true;
		c->port = memif_port_of(c->path, (uint32_t)field(message, 4, 4), true);
		/* With no port, or one that has a client, the driver refuses. */
		return NULL;
	}
	if (!c->begun || c->asked)
		return "a message out of turn";
	switch (type) {
	case MEMIF_ADD_REGION:
		return add_region(c, message, fd);
	case MEMIF_ADD_RING:
		return add_ring(c, message, fd);
	case MEMIF_CONNECT:
		message[2 + 31] = '\0';
		c->asked = true;
		if (c->port == NULL)
			return NULL;
		const char *wrong = beyond_agreed(c);
		return wrong != NULL ? wrong : publish(c);
	default:
		return "a message of no known kind";
	}
}

/* The descriptor that a message brought; -1: none. The kernel was asked for one. */
static int
descriptor_of(struct msghdr *header)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(header);
	int fd = -1;

	if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len >= CMSG_LEN(sizeof(fd)))
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

/* Whether the next message takes a descriptor; the kernel lets go of what others bring. */
static bool
takes_descriptor(const struct control *c)
{
	uint16_t type;

	if (!c->server || !c->begun || c->asked || c->port == NULL ||
	    recv(c->fd, &type, sizeof(type), MSG_PEEK | MSG_DONTWAIT) != sizeof(type))
		return false;
	return (type == MEMIF_ADD_REGION || type == MEMIF_ADD_RING) && memif_can_discard();
}

/* Has the driver find a number in place of a descriptor that was passed. */
static void
stand_in(struct msghdr *header, struct control *c, uint64_t type)
{
	struct cmsghdr *first = header->msg_control;
	int number = STAND_IN + (int)(c - controls) * MEMIF_REGIONS + (int)c->link->regions - 1;

	if (type == MEMIF_ADD_RING)
		number = STAND_IN + STAND_IN_RING;
	first->cmsg_len = CMSG_LEN(sizeof(number));
	first->cmsg_level = SOL_SOCKET;
	first->cmsg_type = SCM_RIGHTS;
	memcpy(CMSG_DATA(first), &number, sizeof(number));
	header->msg_controllen = CMSG_SPACE(sizeof(number));
}

ssize_t
mpps_memif_recvmsg(int fd, struct msghdr *header, int flags)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_LEN(sizeof(int))];
	} control;
	struct msghdr own = *header;
	const char *wrong = NULL;
	int passed = -1;
	ssize_t size;

	pthread_mutex_lock(&memif_lock);
	struct control *c = control_of(fd);
	struct memif_port *port = c != NULL ? c->port : NULL;
	bool takes = c != NULL && takes_descriptor(c) && header->msg_controllen >= CMSG_SPACE(sizeof(int));
	own.msg_control = takes ? control.bytes : NULL;
	own.msg_controllen = takes ? sizeof(control.bytes) : 0;
	header->msg_controllen = 0;
	/* The thread comes when there is something to read. */
	size = recvmsg(fd, &own, flags | MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	header->msg_flags = own.msg_flags;
	if (c != NULL && size > 0) {
		uint8_t *message = header->msg_iov[0].iov_base;
		if (takes)
			passed = descriptor_of(&own);
		wrong = size == MEMIF_MESSAGE_BYTES ? received(c, message, passed) : "a message of a length that none has";
		if (wrong == NULL && passed >= 0)
			stand_in(header, c, field(message, 0, 2));
		if (wrong != NULL && c->port != NULL) {
			atomic_fetch_add(&c->port->refused, 1);
			atomic_store(&c->port->refusal, wrong);
		}
	}
	pthread_mutex_unlock(&memif_lock);
	/* Where one is taken there is a port, which lasts as long as the process. */
	if (passed >= 0 && !memif_discard(passed))
		memif_fault(port, "it passed a descriptor that is no memory, and this host has no process left to close it");
	if (wrong != NULL) {
		/* As if it had gone. */
		errno = EPROTO;
		return -1;
	}
	return size;
}

ssize_t
mpps_memif_sendmsg(int fd, const struct msghdr *header, int flags)
{
	pthread_mutex_lock(&memif_lock);
	struct control *c = control_of(fd);
	/* What we offer ourselves says where the rings are, too. */
	if (c != NULL && !c->server && header->msg_iov[0].iov_len == MEMIF_MESSAGE_BYTES) {
		const uint8_t *message = header->msg_iov[0].iov_base;
		struct msghdr copy = *header;
		struct cmsghdr *first = CMSG_FIRSTHDR(&copy);
		const char *wrong = NULL;
		int passed = -1;
		if (first != NULL && first->cmsg_type == SCM_RIGHTS)
			memcpy(&passed, CMSG_DATA(first), sizeof(passed));
		switch (field(message, 0, 2)) {
		case MEMIF_INIT:
			c->port = memif_port_of(c->path, (uint32_t)field(message, 4, 4), false);
			break;
		case MEMIF_ADD_REGION:
			wrong = c->port != NULL ? add_region(c, message, passed) : NULL;
			break;
		case MEMIF_ADD_RING:
			wrong = c->port != NULL ? add_ring(c, message, passed) : NULL;
			break;
		case MEMIF_CONNECT:
			c->asked = true;
			break;
		default:
			break;
		}
		if (wrong != NULL && c->port != NULL)
			memif_fault(c->port, wrong);
	}
	pthread_mutex_unlock(&memif_lock);
	/* The driver's thread serves all connections: one that does not read has not to keep it waiting. */
	ssize_t sent = sendmsg(fd, header, flags | MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent < 0) {
		/* Where a server's first message fails, the driver closes the socket and leaves it with the EAL, which then
		 * aborts (22.11): whoever connects and goes at once could have it so. Taken for sent, and ended: the driver
		 * finds that when it reads. */
		(void)shutdown(fd, SHUT_RDWR);
		return MEMIF_MESSAGE_BYTES;
	}
	return sent;
}
