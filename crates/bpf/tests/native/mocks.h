/* The helpers of the kernel for a build of softtimer.bpf.h that runs as an ordinary program: one CPU, a
 * clock that moves when the test says so, a bpf_timer that is a number. */
#ifndef SOFTTIMERS_MOCKS_H
#define SOFTTIMERS_MOCKS_H

#include <stdbool.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef unsigned long long u64;

#define SEC(name)
#define __uint(name, value) int(*name)[value]
#define __type(name, value) __typeof__(value) *name
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define barrier() __asm__ volatile("" ::: "memory")
#define barrier_var(value) __asm__ volatile("" : "+r"(value))
enum { BPF_MAP_TYPE_ARRAY = 2 };

struct bpf_timer {
	u64 at;
	bool armed;
};

static u64 mock_now;
static struct bpf_timer *mock_timer;
static u64 mock_started; /* times that it was set */

static void *mock_lookup(void *map, const u32 *key);
#define bpf_map_lookup_elem mock_lookup

static u64 bpf_ktime_get_ns(void)
{
	return mock_now;
}

static u32 bpf_get_smp_processor_id(void)
{
	return 0;
}

static long bpf_timer_init(struct bpf_timer *timer, void *map, u64 flags)
{
	(void)map, (void)flags;
	timer->armed = false;
	mock_timer = timer;
	return 0;
}

#define bpf_timer_set_callback(timer, callback) 0

static long bpf_timer_start(struct bpf_timer *timer, u64 at, u64 flags)
{
	(void)flags;
	timer->at = at;
	timer->armed = true;
	mock_started++;
	return 0;
}

#endif
