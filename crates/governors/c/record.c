// SPDX-License-Identifier: GPL-2.0
/* Input and output of the test programs. */
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "record.h"

void wp_die(const char *message)
{
	static const char before[] = "error: ", after[] = "\n";

	/* Only what seccomp's strict mode allows: a governor of one's own runs in it. */
	if (write(2, before, sizeof(before) - 1) < 0 || write(2, message, strlen(message)) < 0 ||
	    write(2, after, sizeof(after) - 1) < 0)
		syscall(SYS_exit, 2);
	syscall(SYS_exit, 1);
	__builtin_unreachable();
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
