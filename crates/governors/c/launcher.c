// SPDX-License-Identifier: GPL-2.0
/*
 * Maps a linked governor, gives up all but reading, writing and ending, and then jumps into it.
 *
 *   launcher FILE-DESCRIPTOR [anyway]	the image; "anyway": go on where the kernel has no seccomp
 *
 * It is linked on its own: no byte and no symbol of the governor takes part until it is confined.
 */
#define _GNU_SOURCE
#include <linux/seccomp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "launcher.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE	0x100000
#endif
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset	444
#define SYS_landlock_restrict_self	446
#endif
#ifndef SYS_close_range
#define SYS_close_range	436
#endif

static volatile unsigned long long answered;

static void end(int status)
{
	syscall(SYS_exit, status);
	__builtin_unreachable();
}

static void fail(const char *message)
{
	if (write(2, message, strlen(message)) < 0)
		end(2);
	end(1);
}

static long read_some(int file, void *to, unsigned long size)
{
	return syscall(SYS_read, file, to, size);
}

static long write_some(int file, const void *from, unsigned long size)
{
	return syscall(SYS_write, file, from, size);
}

/* Every second of processor time: the governor must have answered something since the last. */
static void look(int signal)
{
	static unsigned long long last = -1ULL;

	(void)signal;
	if (answered == last)
		end(EXIT_ENDLESS);
	last = answered;
}

static void fill(int file, char *to, size_t size, off_t from)
{
	while (size) {
		ssize_t got = pread(file, to, size, from);

		if (got <= 0)
			fail("the image is cut off\n");
		to += got;
		from += got;
		size -= got;
	}
}

static char *reserve(void *at, size_t size, int flags)
{
	char *got = mmap(at, size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	/* Kernels before 4.17 take the address for a wish. */
	if (got == MAP_FAILED || (at && got != at))
		fail("no memory at the addresses of the image\n");
	return got;
}

static void map(int file, const struct image_segment *s)
{
	char *at = reserve((void *)(uintptr_t)s->address, s->size, MAP_FIXED_NOREPLACE);
	int protection = PROT_READ;

	fill(file, at, s->filled, s->offset);
	if (s->flags & SEGMENT_WRITE)
		protection |= PROT_WRITE;
	if (s->flags & SEGMENT_EXECUTE)
		protection |= PROT_EXEC;
	if (mprotect(at, s->size, protection))
		fail("the image cannot be protected\n");
}

/* Nothing of the file system, as far as this kernel has Landlock. */
static void deny_files(void)
{
	/* What Linux 5.13 knows: all to do with the content and the names of files. */
	uint64_t handled = (1ULL << 13) - 1;
	long rules = syscall(SYS_landlock_create_ruleset, &handled, sizeof(handled), 0);

	if (rules >= 0) {
		syscall(SYS_landlock_restrict_self, rules, 0);
		close(rules);
	}
}

int main(int argc, char **argv)
{
	struct itimerval second = { { 1, 0 }, { 1, 0 } };
	void (*enter)(const struct launcher_calls *calls);
	struct launcher_calls calls = { read_some, write_some, end, &answered, 0, 0, 0, 0, 0 };
	struct image_header header;
	struct image_segment segments[8];
	int file = argc > 1 ? atoi(argv[1]) : -1;
	unsigned int i;

	fill(file, (char *)&header, sizeof(header), 0);
	if (header.magic != IMAGE_MAGIC || header.segment_count > 8)
		fail("no image\n");
	fill(file, (char *)segments, header.segment_count * sizeof(segments[0]), sizeof(header));
	for (i = 0; i < header.segment_count; i++)
		map(file, &segments[i]);
	calls.data = (char *)(uintptr_t)header.data;
	calls.data_size = header.data_size;
	calls.slot_count = header.slot_count;
	calls.slots = reserve(NULL, header.data_size * (header.slot_count + 1) + 1, MAP_NORESERVE);
	calls.pristine = calls.slots + header.data_size * header.slot_count;
	memcpy(calls.pristine, calls.data, header.data_size);
	close(file);
	if (syscall(SYS_close_range, 3, ~0U, 0))
		for (file = 3; file < 1024; file++)
			close(file);

	signal(SIGVTALRM, look);
	setitimer(ITIMER_VIRTUAL, &second, NULL);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	deny_files();
	/* From here on it can read, write and end. */
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) && argc < 3)
		end(EXIT_UNCONFINED);
	enter = (void (*)(const struct launcher_calls *))(uintptr_t)header.entry;
	enter(&calls);
	end(0);
}
