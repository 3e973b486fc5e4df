/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * What these programs need of the kernel, in place of a generated vmlinux.h: types, four kinds of map, and the
 * helpers they call, by their numbers in the kernel's interface (include/uapi/linux/bpf.h), which do not change.
 * Nothing here depends on the layout of a kernel structure, so an object built once loads on all kernels.
 */
#ifndef SOFTTIMERS_KERNEL_BPF_H
#define SOFTTIMERS_KERNEL_BPF_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif
#define __noinline __attribute__((noinline))
#define barrier() asm volatile("" ::: "memory")
#define barrier_var(value) asm volatile("" : "+r"(value))

enum { BPF_MAP_TYPE_ARRAY = 2 };

struct bpf_timer {
	u64 opaque[2];
} __attribute__((aligned(8)));

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static u32 (*bpf_get_smp_processor_id)(void) = (void *)8;
static long (*bpf_timer_init)(struct bpf_timer *timer, void *map, u64 flags) = (void *)169;
static long (*bpf_timer_set_callback)(struct bpf_timer *timer, void *callback) = (void *)170;
static long (*bpf_timer_start)(struct bpf_timer *timer, u64 nanoseconds, u64 flags) = (void *)171;

#endif
