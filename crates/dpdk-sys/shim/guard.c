/* Bursts of drivers whose other end can take their memory away.
 *
 * When the peer of a memif goes, the driver's interrupt thread unmaps the rings while a lane may be in the middle of a
 * burst over them: the driver has no lock between the two (so in every release up to 24.11), and the lane is killed by
 * SIGSEGV. Bursts of memif.c need none of this: it is for drivers that are not linked in, and for zero-copy. The memory
 * that is lost is the peer's and holds nothing of ours but packets under way, so the burst is given up instead: the
 * lane lands where it entered, and the driver then says that the link is down.
 *
 * What is not caught: memory that is mapped anew at the same address in between. What is caught and was no
 * disconnection (a defect of the driver) would be caught for ever: after some hundred landings the signal takes its
 * course.
 *
 * What a burst that was given up held is not freed: it is not known how far the driver had come. At most one burst a
 * lane and disconnection is lost to the mempool. */
#include <setjmp.h>
#include <signal.h>
#include <string.h>

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "mpps_dpdk.h"

/* A disconnection takes one or two per lane. */
#define MOST_LANDINGS 256

static __thread sigjmp_buf *volatile landing;
static __thread unsigned int landings;
static struct sigaction before_segv, before_bus;

static void
caught(int signal, siginfo_t *info, void *context)
{
	(void)info;
	(void)context;
	sigjmp_buf *where = landing;
	if (where != NULL && landings < MOST_LANDINGS) {
		landings++;
		landing = NULL;
		siglongjmp(*where, 1);
	}
	/* Not in a burst: whoever had the signal before gets it, as the instruction is tried again. */
	sigaction(signal, signal == SIGBUS ? &before_bus : &before_segv, NULL);
}

int
mpps_guard_install(void)
{
	static int installed;
	struct sigaction action;

	if (installed)
		return 0;
	memset(&action, 0, sizeof(action));
	action.sa_sigaction = caught;
	/* Not blocked while it is handled: the way out is a jump, not a return. */
	action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
	/* SIGBUS: the file of the memory was cut short. */
	installed = sigaction(SIGSEGV, &action, &before_segv) == 0 && sigaction(SIGBUS, &action, &before_bus) == 0;
	return installed ? 0 : -1;
}

uint16_t
mpps_rx_burst_guarded(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
	sigjmp_buf here;
	uint16_t got;

	if (sigsetjmp(here, 0) != 0)
		return 0;
	landing = &here;
	got = mpps_rx_burst(port, queue, mbufs, n);
	landing = NULL;
	return got;
}

uint16_t
mpps_tx_burst_guarded(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n, uint64_t *refused)
{
	sigjmp_buf here;
	uint16_t taken;

	if (sigsetjmp(here, 0) != 0) {
		/* Some may be freed already: none is ours any more, and none is known to have gone. */
		*refused += n;
		return n;
	}
	landing = &here;
	taken = rte_eth_tx_burst(port, queue, mbufs, n);
	landing = NULL;
	return taken;
}
