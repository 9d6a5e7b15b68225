/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the stand-ins take from the C library, for code that is compiled and linked without one.
 */
#ifndef WAKEPATH_NO_LIBC_H
#define WAKEPATH_NO_LIBC_H

/* Warnings are for what the governor says itself. */
#pragma GCC system_header

typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ssize_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __UINTPTR_TYPE__ uintptr_t;
typedef __INTPTR_TYPE__ intptr_t;

#define bool	_Bool
#define true	1
#define false	0
#define NULL	((void *)0)
#define offsetof(type, member)	__builtin_offsetof(type, member)

#define INT_MAX		__INT_MAX__
#define INT_MIN		(-INT_MAX - 1)
#define UINT_MAX	(INT_MAX * 2U + 1U)
#define LONG_MAX	__LONG_MAX__
#define LONG_MIN	(-LONG_MAX - 1L)
#define ULONG_MAX	(LONG_MAX * 2UL + 1UL)
#define LLONG_MAX	__LONG_LONG_MAX__
#define LLONG_MIN	(-LLONG_MAX - 1LL)
#define ULLONG_MAX	(LLONG_MAX * 2ULL + 1ULL)

#define EINVAL	22
#define ENODEV	19
#define ENOMEM	12

void *memset(void *to, int byte, size_t size);
void *memcpy(void *to, const void *from, size_t size);
void *memmove(void *to, const void *from, size_t size);
int memcmp(const void *a, const void *b, size_t size);
size_t strlen(const char *text);
int strcmp(const char *a, const char *b);
int strncmp(const char *a, const char *b, size_t size);

#endif
