// SPDX-License-Identifier: GPL-2.0
/*
 * A request server for the laboratory: requests arrive at a rate, wait for a worker, and cost CPU work, a direct read if it has bytes,
 * and a record in a log if that has bytes. Workers share syncs of the log: the first one that waits writes the blocks of all records so
 * far and syncs. At its end it wakes those that are done, and the next one to sync.
 *
 * Each arrival is a timer of its own, set in advance on one of the CPUs. Its interrupt plays the network card's: it wakes a worker that
 * waits by epoll. A program that slept until each arrival would be late, because QEMU hands the turn on as soon as a CPU sets its timer.
 * Governors know these timers beforehand, which no card tells them: cells have one idle state.
 *
 * Work is a loop of so many instructions, each of which takes a nanosecond. Replies are reported as fio reports reads, so that results of
 * both are read alike.
 *
 * server CPUS WORKERS RATE SPACING SECONDS SEED WORK_NS REPLY_NS DEVICE BYTES LOG_BYTES
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define MOST_REPLIES (1 << 16)
/* Time to set the timer of an arrival, and to begin threads, with room to spare. */
#define SET_NS 50000
#define BEGIN_NS 20000000
/* Reads lie in the first GiB. */
#define READ_FROM (1ULL << 30)
/* The log begins behind them. */
#define LOG_BLOCK 4096ULL
#define MOST_WORKERS 64

static int requests, served_all, device;
static size_t bytes, log_bytes;
static long work_ns, reply_ns;
static uint64_t arrivals[MOST_REPLIES], latencies[MOST_REPLIES];
static uint64_t arrived, replies, seed, last_end;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static void fail(const char *what)
{
	fprintf(stderr, "server: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* Two instructions a turn. */
static void work(long ns)
{
	long turns = ns / 2;

	if (turns > 0)
		asm volatile("1: dec %0\n\tjnz 1b" : "+r"(turns));
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* The log: bytes that were appended and synced, whether a worker syncs, and those that wait. */
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t appended, synced, length_of[MOST_WORKERS];
static int syncs, waits[MOST_WORKERS], waiting;
static sem_t wake[MOST_WORKERS];

/* Writes and syncs the blocks of the log's records between two lengths. */
static void sync_log(uint64_t from, uint64_t to)
{
	static char blocks[(MOST_WORKERS + 2) * LOG_BLOCK] __attribute__((aligned(4096)));
	uint64_t begin = from / LOG_BLOCK * LOG_BLOCK;
	ssize_t size = (to + LOG_BLOCK - 1) / LOG_BLOCK * LOG_BLOCK - begin;

	if (pwrite(device, blocks, size, READ_FROM + begin) != size)
		fail("log");
	if (fdatasync(device))
		fail("sync");
}

static void commit(int number)
{
	int done = 0, woken[MOST_WORKERS];
	uint64_t from, to;

	pthread_mutex_lock(&log_lock);
	length_of[number] = appended += log_bytes;
	if (syncs) {
		waits[waiting++] = number;
		pthread_mutex_unlock(&log_lock);
		sem_wait(&wake[number]);
		pthread_mutex_lock(&log_lock);
		if (synced >= length_of[number]) {
			pthread_mutex_unlock(&log_lock);
			return;
		}
	}
	syncs = 1;
	from = synced;
	to = appended;
	pthread_mutex_unlock(&log_lock);
	sync_log(from, to);
	pthread_mutex_lock(&log_lock);
	synced = to;
	/* They wait in the order of their records. */
	while (done < waiting && length_of[waits[done]] <= to)
		done++;
	syncs = done < waiting;
	done += syncs;
	memcpy(woken, waits, done * sizeof(*waits));
	waiting -= done;
	memmove(waits, waits + done, waiting * sizeof(*waits));
	pthread_mutex_unlock(&log_lock);
	for (int i = 0; i < done; i++)
		sem_post(&wake[woken[i]]);
}

static void add_event(int file, uint64_t number, uint32_t edge)
{
	struct epoll_event event = { .events = EPOLLIN | edge, .data.u64 = number };

	if (epoll_ctl(requests, EPOLL_CTL_ADD, file, &event))
		fail("epoll_ctl");
}

static void *serve(void *number)
{
	uint64_t random = seed * 0x9e3779b97f4a7c15ULL + (uintptr_t)number + 1, one = 1;
	struct epoll_event request;
	void *buffer;

	if (posix_memalign(&buffer, 4096, bytes + 1))
		fail("memory");
	while (epoll_wait(requests, &request, 1, -1) == 1 && request.data.u64 < MOST_REPLIES) {
		uint64_t end, reply, place = bytes ? next_random(&random) % (READ_FROM / bytes) : 0;

		work(work_ns);
		if (bytes && pread(device, buffer, bytes, place * bytes) != (ssize_t)bytes)
			fail("read");
		if (log_bytes)
			commit((uintptr_t)number);
		work(reply_ns);
		end = now_ns();
		reply = __atomic_fetch_add(&replies, 1, __ATOMIC_RELAXED);
		latencies[reply] = end - arrivals[request.data.u64];
		__atomic_store_n(&last_end, end, __ATOMIC_RELAXED);
		if (reply + 1 == arrived && write(served_all, &one, sizeof(one)) != sizeof(one))
			fail("write");
	}
	return NULL;
}

/* Draws when requests arrive, in ns since the first one. */
static void draw_arrivals(uint64_t *random, double rate, int poisson, double seconds)
{
	double at = 0;

	while (at < seconds * 1e9 && arrived < MOST_REPLIES) {
		arrivals[arrived++] = at;
		at += (poisson ? -log((next_random(random) >> 11) * 0x1p-53 + 0x1p-54) : 1) * 1e9 / rate;
	}
	if (at < seconds * 1e9) {
		fprintf(stderr, "server: more than %d requests; give it fewer seconds, or a lower rate\n", MOST_REPLIES);
		exit(1);
	}
}

/* Sets the timers of the arrivals, each on the CPU that it is to interrupt. Returns when the first one arrives. */
static uint64_t set_timers(uint64_t *random, int cpus)
{
	struct rlimit files = { arrived + 100, arrived + 100 };
	uint64_t begin = now_ns() + arrived * SET_NS + BEGIN_NS;
	static unsigned char cpu_of[MOST_REPLIES];
	cpu_set_t only, all;

	if (setrlimit(RLIMIT_NOFILE, &files))
		fail("files");
	if (sched_getaffinity(0, sizeof(all), &all))
		fail("affinity");
	for (uint64_t i = 0; i < arrived; i++)
		cpu_of[i] = (next_random(random) >> 11) % cpus;
	for (int cpu = 0; cpu < cpus; cpu++) {
		CPU_ZERO(&only);
		CPU_SET(cpu, &only);
		if (sched_setaffinity(0, sizeof(only), &only))
			fail("affinity");
		for (uint64_t i = 0; i < arrived; i++) {
			int timer;

			if (cpu_of[i] != cpu)
				continue;
			arrivals[i] += begin;
			struct itimerspec at = { .it_value = { arrivals[i] / 1000000000, arrivals[i] % 1000000000 } };

			timer = timerfd_create(CLOCK_MONOTONIC, 0);
			if (timer < 0)
				fail("timer");
			add_event(timer, i, EPOLLET);
			if (timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL))
				fail("timer");
		}
	}
	if (sched_setaffinity(0, sizeof(all), &all))
		fail("affinity");
	return begin;
}

static int compare(const void *a, const void *b)
{
	uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;

	return one < other ? -1 : one > other;
}

static uint64_t percentile(double percent)
{
	uint64_t rank = ceil(replies * percent / 100);

	return latencies[rank ? rank - 1 : 0];
}

/* The middle of fio's bin with a latency: 64 bins for each power of two. */
static uint64_t bin(uint64_t ns)
{
	int bits = ns ? 63 - __builtin_clzll(ns) - 6 : 0;

	return bits > 0 ? (ns >> bits << bits) + (1ULL << (bits - 1)) : ns;
}

static void report_latency(const char *name, double mean)
{
	printf("\"%s\":{\"max\":%llu,\"mean\":%f,\"N\":%llu,\"percentile\":{\"50.000000\":%llu,\"90.000000\":%llu,"
	       "\"99.000000\":%llu,\"99.900000\":%llu}",
	       name, (unsigned long long)latencies[replies - 1], mean, (unsigned long long)replies,
	       (unsigned long long)percentile(50), (unsigned long long)percentile(90), (unsigned long long)percentile(99),
	       (unsigned long long)percentile(99.9));
}

static void report_bins(void)
{
	printf(",\"bins\":{");
	for (uint64_t i = 0, same; i < replies; i += same) {
		for (same = 1; i + same < replies && bin(latencies[i + same]) == bin(latencies[i]); same++)
			;
		printf("%s\"%llu\":%llu", i ? "," : "", (unsigned long long)bin(latencies[i]), (unsigned long long)same);
	}
	printf("}");
}

int main(int count, char **argument)
{
	uint64_t begin, random;
	double mean = 0;
	int workers;

	if (count != 12) {
		fprintf(stderr, "server: eleven arguments are wanted\n");
		return 1;
	}
	workers = atoi(argument[2]);
	seed = strtoull(argument[6], NULL, 10);
	work_ns = atol(argument[7]);
	reply_ns = atol(argument[8]);
	bytes = strtoul(argument[10], NULL, 10);
	log_bytes = strtoul(argument[11], NULL, 10);
	if (workers > MOST_WORKERS || log_bytes > LOG_BLOCK) {
		fprintf(stderr, "server: at most %d workers, and %llu bytes of a record\n", MOST_WORKERS, LOG_BLOCK);
		return 1;
	}
	for (int i = 0; i < workers; i++)
		sem_init(&wake[i], 0, 0);
	device = open(argument[9], (log_bytes ? O_RDWR : O_RDONLY) | O_DIRECT);
	if (device < 0)
		fail(argument[9]);
	requests = epoll_create1(0);
	served_all = eventfd(0, 0);
	if (requests < 0 || served_all < 0)
		fail("epoll");
	add_event(served_all, MOST_REPLIES, 0);
	random = seed * 0xd1342543de82ef95ULL + 1;
	draw_arrivals(&random, atof(argument[3]), !strcmp(argument[4], "poisson"), atof(argument[5]));
	/* Before there are threads: with them, a table of files that grows waits for RCU. */
	begin = set_timers(&random, atoi(argument[1]));
	pthread_t threads[workers];
	for (uintptr_t i = 0; i < (uintptr_t)workers; i++)
		if (pthread_create(&threads[i], NULL, serve, (void *)i))
			fail("thread");
	if (now_ns() > begin) {
		fprintf(stderr, "server: setting %llu timers took too long\n", (unsigned long long)arrived);
		return 1;
	}
	for (int i = 0; i < workers; i++)
		pthread_join(threads[i], NULL);
	qsort(latencies, replies, sizeof(*latencies), compare);
	for (uint64_t i = 0; i < replies; i++)
		mean += (double)latencies[i] / replies;
	printf("{\"fio version\":\"rig/guest/server.c\",\"jobs\":[{\"jobname\":\"server\",\"groupid\":0,\"error\":0,\"read\":{"
	       "\"io_bytes\":%llu,\"runtime\":%llu,\"total_ios\":%llu,",
	       (unsigned long long)(replies * (bytes + log_bytes)), (unsigned long long)((last_end - begin) / 1000000), (unsigned long long)replies);
	report_latency("lat_ns", mean);
	printf("},");
	report_latency("clat_ns", mean);
	report_bins();
	printf("}},\"write\":{\"total_ios\":0}}]}\n");
	return 0;
}
