/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * What soft timers stand beside: a bpf_timer for each event and no wheel. Its function touches what the experiments' handlers
 * touch, and starts the timer again: nothing that an author without softtimer.bpf.h would not have.
 */
#include "kernel.bpf.h"
#include "orders.bpf.h"

char _license[] SEC("license") = "Dual MIT/GPL";

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
	bpf_timer_start(&p->timer, at, 1 /* absolute */ | 2 /* pinned to this CPU */);
}

static int went_off(void *map, u32 *key, struct plain *p)
{
	u64 now = bpf_ktime_get_ns();
	u64 late = now > p->due ? now - p->due : 0;
	p->fired++;
	p->late_sum += late;
	if (late > p->late_max)
		p->late_max = late;
	struct orders *o = orders_of(*key);
	if (!o || !o->run)
		return 0;
	if (o->touches)
		touch();
	start(p, now + o->period);
	return 0;
}

/* Starts the timer of a run, when the CPU next begins a system call. Detached when all are. */
SEC("tp_btf/sys_enter")
int st_init_cpu(u64 *context)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct orders *o = orders_of(cpu);
	struct plain *p = bpf_map_lookup_elem(&timers, &cpu);
	if (!o || !p || !to_begin(o))
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
