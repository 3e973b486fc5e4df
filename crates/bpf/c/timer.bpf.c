/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * What soft timers stand beside: a bpf_timer for each event and no wheel. Its function touches what the experiments' handlers
 * touch, and starts the timer again: nothing that an author without softtimer.bpf.h would not have.
 */
#include "kernel.bpf.h"
#include "footprint.bpf.h"

char _license[] SEC("license") = "Dual MIT/GPL";

/* What a processor's timer does: written by who runs the experiment. */
struct orders {
	u64 period;  /* ns after it went off last */
	u64 run;     /* its number; 0: it does not go on */
	u64 touches; /* whether it touches fifty cache lines */
	u64 begun;   /* the run whose timer is started */
	u64 pad[4];  /* a cache line for each processor */
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ST_MAX_CPUS);
	__type(key, u32);
	__type(value, struct orders);
} orders SEC(".maps");

struct plain {
	struct bpf_timer timer;
	u64 due;
	u64 fired;
	u64 late_sum; /* ns after the due time */
	u64 late_max;
	u64 up; /* initialised */
	u64 pad;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ST_MAX_CPUS);
	__type(key, u32);
	__type(value, struct plain);
} timers SEC(".maps");

static __always_inline void start(struct plain *p, u64 at)
{
	p->due = at;
	bpf_timer_start(&p->timer, at, 1 /* absolute */ | 2 /* pinned to this processor */);
}

static int went_off(void *map, u32 *key, struct plain *p)
{
	u32 cpu = *key;
	u64 now = bpf_ktime_get_ns();
	u64 late = now > p->due ? now - p->due : 0;
	p->fired++;
	p->late_sum += late;
	if (late > p->late_max)
		p->late_max = late;
	struct orders *o = bpf_map_lookup_elem(&orders, &cpu);
	if (!o || !o->run)
		return 0;
	if (o->touches)
		touch();
	start(p, now + o->period);
	return 0;
}

/* Starts the timer of a run, when the processor next begins a system call. Detached when all are. */
SEC("tp_btf/sys_enter")
int st_init_cpu(u64 *context)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct orders *o = bpf_map_lookup_elem(&orders, &cpu);
	struct plain *p = bpf_map_lookup_elem(&timers, &cpu);
	if (!o || !p || !o->run || o->begun == o->run)
		return 0;
	if (!p->up) {
		if (bpf_timer_init(&p->timer, &timers, 1 /* CLOCK_MONOTONIC */) ||
		    bpf_timer_set_callback(&p->timer, went_off))
			return 0;
		p->up = 1;
	}
	start(p, bpf_ktime_get_ns() + 1000000);
	o->begun = o->run;
	return 0;
}
