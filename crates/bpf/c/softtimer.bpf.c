/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * The paper's experiments in the kernel (soft timers sections 5.1 to 5.4 and 5.9): events that do nothing, or touch
 * fifty cache lines, so long after the one before, at every trigger state, with a deadline or without.
 */
#include "kernel.bpf.h"
#include "softtimer.bpf.h"
#include "orders.bpf.h"

char _license[] SEC("license") = "Dual MIT/GPL";

static __always_inline void st_fire(struct st_cpu *c, u32 id, struct st_event *e, u64 now, u32 source)
{
	struct orders *o = orders_of(bpf_get_smp_processor_id());
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

/* Sets a CPU up and schedules the events of a run, when it next begins a system call. Detached when all are:
 * a program here takes every system call off the kernel's fast path. */
SEC("tp_btf/sys_enter")
int st_init_cpu(u64 *context)
{
	struct orders *o = orders_of(bpf_get_smp_processor_id());
	struct st_cpu *c = st_this_cpu();
	if (!o || !c || !to_begin(o))
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
