/*
 * Lets nvme-cli decode data of ours: preloaded into it, this answers the admin commands that it
 * sends, from files. Identify returns the file named by SHIM_IDENTIFY, Get Features the one named
 * by SHIM_FEATURE. With SHIM_STORE there is a whole drive: the file it names holds dword 11 and the
 * data of the APST feature, which Set Features changes and Get Features returns; with SHIM_DEAF it takes
 * Set Features and does nothing. Every other admin command fails, so nothing ever reaches a device.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/nvme_ioctl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { IDENTIFY = 0x06, SET_FEATURES = 0x09, GET_FEATURES = 0x0a };
enum { APST = 0x0c };

static int answer_from(const char *variable, struct nvme_passthru_cmd *command)
{
	const char *path = getenv(variable);
	FILE *file = path ? fopen(path, "rb") : NULL;
	size_t read;

	if (!file) {
		errno = ENODATA;
		return -1;
	}
	read = fread((void *)(uintptr_t)command->addr, 1, command->data_len, file);
	fclose(file);
	if (read != command->data_len) {
		errno = ENODATA;
		return -1;
	}
	return 0;
}

/* The feature as SHIM_STORE holds it; set: as the command gives it. */
static int stored(struct nvme_passthru_cmd *command, int set)
{
	FILE *file;
	size_t done;

	/* The feature alone: neither "save" nor another selection. */
	if (command->cdw10 != APST) {
		errno = EINVAL;
		return -1;
	}
	if (set && getenv("SHIM_DEAF"))
		return 0;
	file = fopen(getenv("SHIM_STORE"), set ? "wb" : "rb");
	if (!file)
		return -1;
	if (set) {
		done = fwrite(&command->cdw11, 4, 1, file);
		done += fwrite((void *)(uintptr_t)command->addr, command->data_len, 1, file);
	} else {
		done = fread(&command->result, 4, 1, file);
		done += fread((void *)(uintptr_t)command->addr, command->data_len, 1, file);
	}
	fclose(file);
	if (done != 2) {
		errno = ENODATA;
		return -1;
	}
	return 0;
}

int ioctl(int fd, unsigned long request, ...)
{
	struct nvme_passthru_cmd *command;
	va_list arguments;
	void *argument;

	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	/* The 64-bit variant differs only behind the fields that are used here. */
	if (request != NVME_IOCTL_ADMIN_CMD && request != NVME_IOCTL_ADMIN64_CMD)
		return syscall(SYS_ioctl, fd, request, argument);

	command = argument;
	switch (command->opcode) {
	case IDENTIFY:
		return answer_from("SHIM_IDENTIFY", command);
	case GET_FEATURES:
		if (getenv("SHIM_STORE"))
			return stored(command, 0);
		return answer_from("SHIM_FEATURE", command);
	case SET_FEATURES:
		if (getenv("SHIM_STORE"))
			return stored(command, 1);
		/* fall through */
	default:
		errno = EOPNOTSUPP;
		return -1;
	}
}
