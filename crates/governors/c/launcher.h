/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the launcher is given, and what it gives to a governor's image.
 */
#ifndef WAKEPATH_LAUNCHER_H
#define WAKEPATH_LAUNCHER_H

#define IMAGE_MAGIC	0x67616d69u	/* "imag" */

/* At the beginning of an image; the segments follow, then their bytes. As src/image.rs writes it. */
struct image_header {
	unsigned int magic;
	unsigned int segment_count;
	unsigned long long entry;
	/* What can be written, as each CPU has it for itself. */
	unsigned long long data;
	unsigned long long data_size;
	/* How many CPUs are served. */
	unsigned long long slot_count;
};

#define SEGMENT_WRITE	2u
#define SEGMENT_EXECUTE	1u

struct image_segment {
	unsigned long long address;
	unsigned long long size;
	unsigned long long offset;
	unsigned long long filled;
	unsigned long long flags;
};

/* What an image can ask for once it runs: the only system calls that are left. */
struct launcher_calls {
	long (*read)(int file, void *to, unsigned long size);
	long (*write)(int file, const void *from, unsigned long size);
	void (*end)(int status);
	/* Counts the answers: the launcher looks whether there are any. */
	volatile unsigned long long *answered;
	/* Its own data, as they were before it ran, and room for those of each CPU. */
	char *data;
	char *pristine;
	char *slots;
	unsigned long data_size;
	unsigned long slot_count;
};

/* What the exit status says: no answer within a second of processor time; the kernel confines nothing. */
#define EXIT_ENDLESS	86
#define EXIT_UNCONFINED	87

#endif
