/* Descriptors that another program has passed: what may be asked of them without waiting for that program.
 *
 * A file of FUSE is served by a program. Whoever calls fstat, mmap or close on one waits until it answers, and no
 * signal ends that, not even SIGKILL. Only what the kernel knows by itself is asked here. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memif.h"

/* ---- what it is */

/* Memory with a name or without: tmpfs and hugetlbfs alone have seals, and the kernel looks at no more than the
 * inode. */
static bool
is_memory(int fd)
{
	return fcntl(fd, F_GET_SEALS) >= 0;
}

const char *
memif_memory_of(int fd, struct memif_region *region)
{
	struct stat file;
	struct statfs system;

	if (fd < 0)
		return "a region without a file";
	if (!is_memory(fd))
		return "a region that is no memory (memfd, tmpfs, hugetlbfs)";
	if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode) || fstatfs(fd, &system) != 0)
		return "a region without a file";
	if (region->size == 0 || region->size > (uint64_t)file.st_size)
		return "a region larger than its file";
	region->huge = system.f_type == HUGETLBFS_MAGIC;
	/* Of hugetlbfs whole pages are mapped, and only whole ones can be unmapped or replaced. */
	uint64_t page = system.f_bsize > 0 ? (uint64_t)system.f_bsize : 1;
	if (region->size > UINT64_MAX - page)
		return "a region larger than its file";
	region->mapped = (region->size + page - 1) / page * page;
	return NULL;
}

bool
memif_is_event(int fd)
{
	char name[32], what[32] = "";

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	return readlink(name, what, sizeof(what) - 1) >= 0 && strcmp(what, "anon_inode:[eventfd]") == 0;
}

/* ---- woken */

/* Completions of an AIO context that nobody has fetched yet. */
enum { WAKES = 64 };

/* Where requests for wakes go: nothing is written to where nothing is kept. */
static int null = -1;

/* Whose flags and count an eventfd has is the other end's, too: a write could wait for ever, whatever was asked before.
 * The kernel itself adds to an eventfd without waiting when an asynchronous request is done, and refuses what is
 * none. */
int
memif_wake_begin(unsigned long *context)
{
	*context = 0;
	if (null < 0)
		null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (null < 0 || syscall(SYS_io_setup, WAKES, context) != 0) {
		*context = 0;
		return -errno;
	}
	return 0;
}

void
memif_wake(unsigned long context, int event)
{
	struct io_event done[WAKES];
	struct timespec none = { 0, 0 };

	if (context == 0)
		return;
	struct iocb request = {
		.aio_lio_opcode = IOCB_CMD_PWRITE, .aio_fildes = (uint32_t)null,
		.aio_flags = IOCB_FLAG_RESFD, .aio_resfd = (uint32_t)event,
	};
	struct iocb *requests[] = { &request };
	if (syscall(SYS_io_submit, context, 1, requests) < 0 && errno == EAGAIN) {
		(void)syscall(SYS_io_getevents, context, 0, WAKES, done, &none);
		(void)syscall(SYS_io_submit, context, 1, requests);
	}
}

void
memif_wake_end(unsigned long context)
{
	if (context != 0)
		(void)syscall(SYS_io_destroy, context);
}

int
memif_spare(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* ---- closed */

/* Processes that close descriptors; one that waits for a file's program stays, and so does its descriptor. */
enum { CLOSERS = 8, STACK = 4096 };

static struct closer {
	int fd;
	_Atomic pid_t pid;	/* 0: free */
	char stack[STACK] __attribute__((aligned(16)));
} closers[CLOSERS];

/* No process could be had to close one: it stays open, and none is taken any more. */
static bool stuck;

/* close(2) alone. It shares the thread-local variables of the thread that began it, so it must not set errno. */
static int
close_it(void *arg)
{
	const struct closer *own = arg;
#if defined(__x86_64__)
	long result = SYS_close;

	__asm__ volatile("syscall" : "+a"(result) : "D"((long)own->fd) : "rcx", "r11", "memory");
#elif defined(__aarch64__)
	register long number __asm__("x8") = SYS_close;
	register long first __asm__("x0") = own->fd;

	__asm__ volatile("svc 0" : "+r"(first) : "r"(number) : "memory");
#else
	(void)syscall(SYS_close, own->fd);
#endif
	return 0;
}

bool
memif_reap(void)
{
	bool waits = false;

	for (unsigned int i = 0; i < CLOSERS; i++) {
		pid_t pid = atomic_load(&closers[i].pid);
		if (pid > 0 && waitpid(pid, NULL, __WALL | WNOHANG) != 0)
			atomic_store(&closers[i].pid, 0);
		waits = waits || atomic_load(&closers[i].pid) > 0;
	}
	return waits;
}

/* One that nobody is in; NULL: none. By the interrupt thread alone. */
static struct closer *
free_closer(void)
{
	(void)memif_reap();
	for (unsigned int i = 0; i < CLOSERS; i++)
		if (atomic_load(&closers[i].pid) == 0)
			return &closers[i];
	return NULL;
}

/* As the program ends, after all that it writes is written. A closer that still waits shares the table of descriptors,
 * which would last as long as it does, with pipes whose readers wait for their end, locks and listening sockets; so the
 * table is emptied. What stays with it is the process's memory, huge pages too, and the namespaces that it is in. */
static void
leave_nothing_open(void)
{
	if (!memif_reap())
		return;
	fflush(NULL);
#ifdef SYS_close_range
	(void)syscall(SYS_close_range, 0u, ~0u, 0u);
#endif
}

bool
memif_can_discard(void)
{
	return !stuck && free_closer() != NULL;
}

bool
memif_discard(int fd)
{
	static bool leaves;

	if (is_memory(fd) || memif_is_event(fd)) {
		close(fd);
		return true;
	}
	struct closer *closer = stuck ? NULL : free_closer();
	if (closer == NULL)
		return false;
	if (!leaves)
		leaves = atexit(leave_nothing_open) == 0;
	closer->fd = fd;
	/* With this memory and these descriptors, but a process of its own: ours need not wait for it, and can end. No signal
	 * tells of its end, and none that is meant for us finds its short stack. */
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid_t pid = clone(close_it, closer->stack + STACK, CLONE_VM | CLONE_FILES, closer);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	stuck = pid <= 0;
	if (pid > 0)
		atomic_store(&closer->pid, pid);
	return !stuck;
}
