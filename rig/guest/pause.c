// SPDX-License-Identifier: GPL-2.0
/*
 * Executes `pause` now and then, at which QEMU lets the other CPUs run. Each time costs the host a microsecond, so there
 * is a microsecond of the guest's between them, too. There is no C library.
 */
void _start(void)
{
	for (;;) {
		int turns = 500;

		while (turns--)
			__asm__ volatile("");
		__builtin_ia32_pause();
	}
}
