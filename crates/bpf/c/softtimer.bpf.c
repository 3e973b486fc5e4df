/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * The paper's experiments in the kernel (soft timers sections 5.1 to 5.4 and 5.9): events that do nothing, or touch
 * fifty cache lines, so long after the one before, at every trigger state, with a deadline or without.
 */
#include "kernel.bpf.h"
#include "softtimer.bpf.h"
#include "footprint.bpf.h"

char _license[] SEC("license") = "Dual MIT/GPL";

/* What a processor's events do: written by who runs the experiment, so that one verification serves many. */
struct orders {
	u64 period;  /* ns after the event before; 0: at every trigger state */
	u64 slack;
	u64 run;     /* its number; 0: no event goes on */
	u64 events;  /* 0: only the gate */
	u64 touches; /* whether a handler touches fifty cache lines */
	u64 begun;   /* the run whose events are scheduled */
	u64 pad[2];  /* a cache line for each processor */
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ST_MAX_CPUS);
	__type(key, u32);
	__type(value, struct orders);
} orders SEC(".maps");

static __always_inline struct orders *these_orders(void)
{
	u32 cpu = bpf_get_smp_processor_id();
	return bpf_map_lookup_elem(&orders, &cpu);
}

static __always_inline void st_fire(struct st_cpu *c, u32 id, struct st_event *e, u64 now, u32 source)
{
	struct orders *o = these_orders();
	if (!o || !o->run || id > o->events)
		return;
	if (o->touches)
		touch();
	st_again(c, id, now + o->period, o->slack);
}

ST_EVERY_TRACEPOINT(ST_ATTACH)
ST_ATTACH(cpu_idle)

/* A function of its own, verified once and not for each of the events. */
__noinline int schedule(u32 id, u64 due, u64 slack)
{
	return st_schedule(id, due, slack, ST_ANYWHERE);
}

/* Sets a processor up and schedules the events of a run, when it next begins a system call. Detached when all are:
 * a program here takes every system call off the kernel's fast path. */
SEC("tp_btf/sys_enter")
int st_init_cpu(u64 *context)
{
	struct orders *o = these_orders();
	struct st_cpu *c = st_this_cpu();
	if (!o || !c || !o->run || o->begun == o->run)
		return 0;
	st_init();
	int said = c->up ? 0 : ST_EBUSY;
	u64 due = st_now() + 1000000;
	for (u32 id = 1; id < ST_EVENTS && id <= o->events; id++)
		said |= schedule(id, due + id * 1000, o->slack);
	/* The wheel was taken: at the next system call. */
	if (!said)
		o->begun = o->run;
	return 0;
}
