// SPDX-License-Identifier: GPL-2.0
/* Input and output of the test programs. */
#include <stdio.h>
#include <stdlib.h>

#include "record.h"

void wp_die(const char *message)
{
	fprintf(stderr, "error: %s\n", message);
	exit(1);
}

void *wp_read_all(size_t *size)
{
	size_t capacity = 1 << 20, used = 0, got;
	char *data = malloc(capacity);

	if (!data)
		wp_die("out of memory");
	while ((got = fread(data + used, 1, capacity - used, stdin))) {
		used += got;
		if (used < capacity)
			continue;
		capacity *= 2;
		data = realloc(data, capacity);
		if (!data)
			wp_die("out of memory");
	}
	*size = used;
	return data;
}

void wp_write_all(const void *data, size_t size)
{
	if (fwrite(data, 1, size, stdout) != size)
		wp_die("cannot write to standard output");
}
