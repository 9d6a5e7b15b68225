// SPDX-License-Identifier: GPL-2.0
/*
 * Serves questions with the governor that it is linked with. There is no C library: launcher.c maps both and jumps to
 * wp_serve().
 *
 * One process serves many CPUs. Each has its own copy of all that can be written, the governor's variables included.
 */
#include "governor_device.h"
#include "launcher.h"

void *memset(void *to, int byte, size_t size)
{
	char *at = to;

	while (size--)
		*at++ = byte;
	return to;
}

void *memcpy(void *to, const void *from, size_t size)
{
	const char *source = from;
	char *at = to;

	while (size--)
		*at++ = *source++;
	return to;
}

void *memmove(void *to, const void *from, size_t size)
{
	const char *source = from;
	char *at = to;

	if (at < source)
		return memcpy(to, from, size);
	while (size--)
		at[size] = source[size];
	return to;
}

int memcmp(const void *a, const void *b, size_t size)
{
	const unsigned char *x = a, *y = b;

	for (; size; size--, x++, y++)
		if (*x != *y)
			return *x - *y;
	return 0;
}

size_t strlen(const char *text)
{
	size_t length = 0;

	while (text[length])
		length++;
	return length;
}

int strcmp(const char *a, const char *b)
{
	for (; *a && *a == *b; a++, b++)
		;
	return (unsigned char)*a - (unsigned char)*b;
}

int strncmp(const char *a, const char *b, size_t size)
{
	for (; size; size--, a++, b++)
		if (*a != *b || !*a)
			return (unsigned char)*a - (unsigned char)*b;
	return 0;
}

static const struct launcher_calls *calls_to_end;

void wp_die(const char *message)
{
	calls_to_end->write(2, "error: ", 7);
	calls_to_end->write(2, message, strlen(message));
	calls_to_end->write(2, "\n", 1);
	calls_to_end->end(1);
	__builtin_unreachable();
}

/* Copies whole words: both sides are aligned to pages or to the rest of one. */
static void copy(char *to, const char *from, size_t size)
{
	size_t i;

	for (i = 0; i + sizeof(u64) <= size; i += sizeof(u64))
		*(u64 *)(to + i) = *(const u64 *)(from + i);
	for (; i < size; i++)
		to[i] = from[i];
}

/* Reads one record; ends the program at the end of the input. */
static void take(const struct launcher_calls *calls, void *record, size_t size)
{
	char *at = record;

	while (size) {
		long got = calls->read(0, at, size);

		if (got <= 0)
			calls->end(0);
		at += got;
		size -= got;
	}
}

/* Where the next function's variables will lie: what an earlier one left there must not decide anything. */
static noinline void clear_stack(void)
{
	volatile u64 area[1024];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(area); i++)
		area[i] = 0;
}

/* A CPU in the current slot that was just booted. */
static void boot(const struct launcher_calls *calls)
{
	struct state_record states[CPUIDLE_STATE_MAX];
	struct case_record c;

	copy(calls->data, calls->pristine, calls->data_size);
	calls_to_end = calls;
	take(calls, &c, sizeof(c));
	if (c.magic != CASE_MAGIC || !c.state_count || c.state_count > CPUIDLE_STATE_MAX)
		wp_die("broken case record");
	take(calls, states, c.state_count * sizeof(states[0]));
	if (wp_initcall() || !governor)
		wp_die("the governor did not register itself: it needs cpuidle_register_governor() of one with .select");
	start(&c, states);
}

void wp_serve(const struct launcher_calls *calls)
{
	size_t size = calls->data_size;
	u32 slot = calls->slot_count;

	for (;;) {
		struct answer_record answer = { 0 };
		struct question_record question;
		const struct call_record *call = &question.call;
		bool stop_tick;

		take(calls, &question, sizeof(question));
		if (question.slot >= calls->slot_count)
			calls->end(1);
		if (question.slot != slot) {
			if (slot < calls->slot_count)
				copy(calls->slots + slot * size, calls->data, size);
			slot = question.slot;
			copy(calls->data, calls->slots + slot * size, size);
		}
		clear_stack();
		if (question.ask & ASK_START) {
			boot(calls);
			continue;
		}
		if (question.ask & ASK_TOGGLE) {
			device.states_usage[TOGGLE_STATE(call->toggle)].disable = TOGGLE_OFF(call->toggle);
			continue;
		}
		if (question.ask & ASK_REFLECT)
			tell(call, question.entered);
		wp_now.utilisation = question.utilisation;
		answer.state = choose(call, &stop_tick);
		answer.stop_tick = stop_tick;
		answer.poll_limit = device.poll_limit_ns;
		++*calls->answered;
		if (calls->write(1, &answer, sizeof(answer)) != sizeof(answer))
			wp_die("cannot write");
	}
}
