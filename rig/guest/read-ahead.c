// SPDX-License-Identifier: GPL-2.0
/*
 * Reads pages of a device, one read after another, and notes each in the kernel's trace: `read-ahead DEVICE HINT MARKER`, with a
 * first page and a number of pages in each line of the standard input.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define PAGE 4096UL
#define MOST_PAGES 1024UL

static int advice(const char *hint)
{
	if (!strcmp(hint, "sequential"))
		return POSIX_FADV_SEQUENTIAL;
	return !strcmp(hint, "random") ? POSIX_FADV_RANDOM : POSIX_FADV_NORMAL;
}

int main(int argc, char **argv)
{
	unsigned long first, count;
	void *buffer;
	int device, marker;

	if (argc != 4 || posix_memalign(&buffer, PAGE, MOST_PAGES * PAGE))
		return 1;
	device = open(argv[1], O_RDONLY);
	marker = open(argv[3], O_WRONLY);
	if (device < 0 || marker < 0 || ioctl(device, BLKFLSBUF, 0) || posix_fadvise(device, 0, 0, advice(argv[2])))
		return 2;
	while (scanf("%lu %lu", &first, &count) == 2) {
		char text[64];
		int length = snprintf(text, sizeof(text), "R%lu+%lu", first, count);

		if (count > MOST_PAGES || write(marker, text, length) != length ||
		    pread(device, buffer, count * PAGE, first * PAGE) < 0)
			return 3;
	}
	return 0;
}
