/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The few kernel types that the programs read, with only the fields that they read. Where these fields really are is
 * looked up in the running kernel's type information when the programs are loaded (CO-RE), so neither order nor size
 * matters here.
 */
#ifndef WAKEPATH_KERNEL_H
#define WAKEPATH_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;

/* From the kernel's interface to user space, linux/bpf.h. */
#define BPF_MAP_TYPE_HASH 1
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_MAP_TYPE_PERF_EVENT_ARRAY 4
#define BPF_MAP_TYPE_PERCPU_ARRAY 6
#define BPF_MAP_TYPE_LRU_HASH 9
#define BPF_MAP_TYPE_ARRAY_OF_MAPS 12
#define BPF_MAP_TYPE_RINGBUF 27
#define BPF_RB_NO_WAKEUP 1
#define BPF_ANY 0
#define BPF_F_CURRENT_CPU 0xffffffffULL

struct bpf_perf_event_value {
	__u64 counter;
	__u64 enabled;
	__u64 running;
};

/* What a program sees of it; the kernel keeps its own timer elsewhere. */
struct bpf_timer {
	__u64 unused[2];
} __attribute__((aligned(8)));

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct gendisk {
	int major;
	int first_minor;
};

struct block_device {
	__u64 bd_start_sect;
	struct gendisk *bd_disk;
	__u32 bd_dev;
};

struct bvec_iter {
	__u64 bi_sector;
	__u32 bi_size;
};

struct bio {
	struct block_device *bi_bdev;
	__u32 bi_opf;
	struct bvec_iter bi_iter;
};

struct request_queue {
	struct gendisk *disk;
};

struct request {
	struct request_queue *q;
	__u32 cmd_flags;
	__u32 __data_len;
	__u64 __sector;
};

struct thread_info {
	__u32 cpu;
};

struct kernfs_node {
	__u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct task_struct {
	__u32 flags;
	struct thread_info thread_info;
	__u64 nivcsw;
	struct css_set *cgroups;
	int pid;
	char comm[16];
	__u32 in_iowait : 1;
};

struct hrtimer {
	void *function;
};

/* Only their names matter; the values are those of the running kernel. */
enum req_flag_bits {
	__REQ_SYNC,
	__REQ_RAHEAD,
	__REQ_FUA,
	__REQ_PREFLUSH,
};

struct cpuidle_driver;

struct cpuidle_device {
	__u32 poll_time_limit : 1;
	__u32 cpu;
	__u64 last_residency_ns;
};

#pragma clang attribute pop

#endif
