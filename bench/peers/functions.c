/*
 * Counts the calls of a program that was built with -finstrument-functions: for each thread a tree of functions, with
 * calls, total and self time. `bench/tap_study.sh` has it loaded first (LD_PRELOAD), and names the functions.
 *
 *   gcc -O2 -shared -fPIC functions.c -o functions.so
 *   FUNCTIONS=calls.tsv LD_PRELOAD=./functions.so PROGRAM
 *
 * At the program's end FUNCTIONS has a line for each place in a tree: number and name of the thread, depth, calls,
 * total and self time, longest call and standard deviation (all ns), file and offset of the function. A call contains
 * the two readings of the clock of each call within it. A function that has not returned by then has 0 calls.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define PLACES 16384
#define DEEPEST 512

struct place {
	void *function;
	struct place *called, *next;
	uint64_t calls, clocks, within, longest;
	double squares;
};

struct thread {
	struct thread *next;
	int tid;
	char name[16];
	uint32_t used, depth;
	/* In one of the two functions below; calls of a handler that came then, and have not returned. */
	volatile uint32_t busy, ignored;
	struct place *at[DEEPEST + 1];
	uint64_t since[DEEPEST + 1];
	struct place places[PLACES];
};

static struct thread *threads;
static __thread struct thread *self __attribute__((tls_model("initial-exec")));
static struct timespec began;
static uint64_t began_clocks;
static int over;
/* The file of the program, which the loader names as it was called. */
static char program[4096];

static struct thread *new_thread(void)
{
	struct thread *t = mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (t == MAP_FAILED)
		abort();
	t->tid = syscall(SYS_gettid);
	/* What it is called at the end, if it lives then. */
	prctl(PR_GET_NAME, t->name);
	t->used = 1;
	t->at[0] = &t->places[0];
	t->next = __atomic_load_n(&threads, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&threads, &t->next, t, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
	return self = t;
}

/* The last place is for all functions that there is no more room for. */
static struct place *new_place(struct thread *t, struct place *above, void *function)
{
	struct place *p = &t->places[t->used < PLACES - 1 ? t->used++ : PLACES - 1];
	p->function = p == &t->places[PLACES - 1] ? NULL : function;
	p->next = above->called;
	if (p->function)
		above->called = p;
	return p;
}

/* A signal's handler that comes between two steps of these: its calls, all of which return before the next step, are
 * not counted. */
void __cyg_profile_func_enter(void *function, void *caller)
{
	struct thread *t = self ? self : new_thread();
	(void)caller;
	if (t->busy) {
		t->ignored++;
		return;
	}
	t->busy = 1;
	uint32_t depth = t->depth;
	if (depth < DEEPEST) {
		struct place *above = t->at[depth], *p = above->called;
		while (p && p->function != function)
			p = p->next;
		t->at[depth + 1] = p ? p : new_place(t, above, function);
	}
	t->depth = depth + 1;
	if (depth < DEEPEST)
		t->since[depth + 1] = __rdtsc();
	t->busy = 0;
}

void __cyg_profile_func_exit(void *function, void *caller)
{
	uint64_t now = __rdtsc();
	struct thread *t = self;
	(void)function;
	(void)caller;
	/* A function that was entered before this was loaded. */
	if (!t || !t->depth)
		return;
	if (t->ignored) {
		t->ignored--;
		return;
	}
	t->busy = 1;
	uint32_t depth = t->depth--;
	if (depth <= DEEPEST && !over) {
		struct place *p = t->at[depth];
		uint64_t clocks = now - t->since[depth];
		p->calls++;
		p->clocks += clocks;
		p->squares += (double)clocks * clocks;
		if (clocks > p->longest)
			p->longest = clocks;
		t->at[depth - 1]->within += clocks;
	}
	t->busy = 0;
}

static void show(FILE *out, const struct thread *t, const struct place *p, int depth, double ns)
{
	Dl_info info = { 0 };
	double mean = p->calls ? (double)p->clocks / p->calls : 0;
	double variance = p->calls ? p->squares / p->calls - mean * mean : 0;
	/* One that has not returned took at least what its calls took. */
	uint64_t total = p->clocks > p->within ? p->clocks : p->within, own = total - p->within;
	if (p->function)
		dladdr(p->function, &info);
	if (total)
		fprintf(out, "%d\t%s\t%d\t%lu\t%.0f\t%.0f\t%.0f\t%.0f\t%s\t%lx\n", t->tid, t->name, depth, p->calls,
			total * ns, own * ns, p->longest * ns, sqrt(variance > 0 ? variance : 0) * ns,
			info.dli_fname && strchr(info.dli_fname, '/') ? info.dli_fname : program,
			(uintptr_t)p->function - (uintptr_t)info.dli_fbase);
	for (const struct place *c = p->called; c; c = c->next)
		show(out, t, c, depth + 1, ns);
}

static void name_threads(void)
{
	for (struct thread *t = threads; t; t = t->next) {
		char path[64];
		snprintf(path, sizeof(path), "/proc/self/task/%d/comm", t->tid);
		FILE *file = fopen(path, "re");
		if (!file)
			continue;
		(void)!fscanf(file, "%15[^\n]", t->name);
		fclose(file);
	}
}

__attribute__((constructor)) static void load(void)
{
	clock_gettime(CLOCK_MONOTONIC, &began);
	began_clocks = __rdtsc();
}

__attribute__((destructor)) static void unload(void)
{
	const char *path = getenv("FUNCTIONS");
	FILE *out = path ? fopen(path, "we") : NULL;
	if (!out)
		return;
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	double ns = (now.tv_sec - began.tv_sec) * 1e9 + (now.tv_nsec - began.tv_nsec);
	ns /= __rdtsc() - began_clocks;
	/* What other threads still do is in no place any more. */
	over = 1;
	if (readlink("/proc/self/exe", program, sizeof(program) - 1) < 0)
		program[0] = '-';
	name_threads();
	for (struct thread *t = threads; t; t = t->next)
		for (const struct place *p = t->places[0].called; p; p = p->next)
			show(out, t, p, 0, ns);
	fclose(out);
}
