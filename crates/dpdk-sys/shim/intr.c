/* Keeping the EAL's interrupt thread out of what is taken down.
 *
 * Control channels of drivers live in that thread: it calls their callbacks, and for each event it walks over all
 * sources that are registered, whose handles may lie in DPDK's memory. Two things go wrong there (22.11 to 24.11):
 *
 * - net_memif never unregisters the socket that a server listens on. Its handle is still in the thread's list when
 *   rte_eal_cleanup unmaps DPDK's memory; whatever wakes the thread then (the last unregistering does, by a pipe) has
 *   it walk over the handle, and the process dies of SIGSEGV after all is done.
 * - It has no lock between its callbacks and the calls that stop and close a port: both may disconnect at once.
 *
 * So the thread is put aside: it waits in a callback of ours, which holds no lock of the EAL's and is on no source of a
 * driver's, so that every source can be unregistered at once meanwhile. It is let go after a port's end, and never
 * after the EAL's. A thread that does not come within a time is in the middle of something: then nothing is taken down
 * any more, and what there is lasts as long as the process. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <rte_interrupts.h>

#include "mpps_dpdk.h"

/* The thread is idle but for a connection now and then. */
enum { PATIENCE_SECONDS = 5 };

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;	/* from the pause to its end */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct rte_intr_handle *handle;
	int event;
	bool wanted, aside;
	bool lost;		/* it did not come, or is never let go */
} state = { .lock = PTHREAD_MUTEX_INITIALIZER, .event = -1 };

static void
wait_aside(void *arg)
{
	uint64_t count;

	(void)arg;
	(void)!read(state.event, &count, sizeof(count));
	pthread_mutex_lock(&state.lock);
	state.aside = state.wanted;
	pthread_cond_broadcast(&state.changed);
	while (state.wanted)
		pthread_cond_wait(&state.changed, &state.lock);
	state.aside = false;
	pthread_cond_broadcast(&state.changed);
	pthread_mutex_unlock(&state.lock);
}

/* Once a process; the handle is no memory of DPDK's, and stays. */
static bool
prepare(void)
{
	pthread_condattr_t attributes;

	if (state.handle != NULL)
		return true;
	state.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (state.event < 0)
		return false;
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&state.changed, &attributes);
	pthread_condattr_destroy(&attributes);
	struct rte_intr_handle *handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
	if (handle != NULL && rte_intr_fd_set(handle, state.event) == 0 &&
	    rte_intr_type_set(handle, RTE_INTR_HANDLE_EXT) == 0 &&
	    rte_intr_callback_register(handle, wait_aside, NULL) == 0) {
		state.handle = handle;
		return true;
	}
	rte_intr_instance_free(handle);
	close(state.event);
	return false;
}

bool
mpps_intr_pause(void)
{
	const uint64_t one = 1;
	struct timespec until;

	pthread_mutex_lock(&turn);
	if (state.lost || !prepare())
		goto lost;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += PATIENCE_SECONDS;
	pthread_mutex_lock(&state.lock);
	state.wanted = true;
	(void)!write(state.event, &one, sizeof(one));
	while (!state.aside && pthread_cond_timedwait(&state.changed, &state.lock, &until) == 0)
		;
	state.wanted = state.aside;
	pthread_mutex_unlock(&state.lock);
	if (state.wanted)
		return true;
lost:
	state.lost = true;
	pthread_mutex_unlock(&turn);
	return false;
}

void
mpps_intr_resume(void)
{
	pthread_mutex_lock(&state.lock);
	state.wanted = false;
	pthread_cond_broadcast(&state.changed);
	while (state.aside)
		pthread_cond_wait(&state.changed, &state.lock);
	pthread_mutex_unlock(&state.lock);
	pthread_mutex_unlock(&turn);
}

bool
mpps_intr_end(void)
{
	if (!mpps_intr_pause())
		return false;
	state.lost = true;
	pthread_mutex_unlock(&turn);
	return true;
}

bool
mpps_intr_lost(void)
{
	pthread_mutex_lock(&turn);
	bool lost = state.lost;
	pthread_mutex_unlock(&turn);
	return lost;
}
