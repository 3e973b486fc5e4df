/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * The paper's experiments in the kernel (soft timers sections 5.1 to 5.4 and 5.9): events that do nothing, or touch
 * fifty cache lines, so long after the one before, at every trigger state, with a deadline or without.
 */
#include "kernel.bpf.h"
#include "softtimer.bpf.h"

char _license[] SEC("license") = "Dual MIT/GPL";

const volatile u64 period = 0; /* ns after the event before; 0: at every trigger state */
const volatile u64 slack = ST_NEVER;
const volatile u32 events = 1; /* of each processor; 0: only the gate */
const volatile u64 processors = ~0ULL; /* which have them, by bit */
const volatile u32 touches = 0; /* cache lines a handler touches: 0 or 50 */

/* Four pages; the handler touches every fifth line or so of a page, another page each time. */
struct footprint {
	u64 turn;
	u64 pad[7];
	u64 words[4 * 512];
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ST_MAX_CPUS);
	__type(key, u32);
	__type(value, struct footprint);
} footprints SEC(".maps");

static __always_inline void touch(void)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct footprint *print = bpf_map_lookup_elem(&footprints, &cpu);
	if (!print)
		return;
	u32 page = (print->turn++ & 3) * 512;
	for (u32 line = 0; line < 50; line++)
		*(volatile u64 *)&print->words[(page + line * 8) & 2047] += 1;
}

static __always_inline void st_fire(struct st_cpu *c, u32 id, struct st_event *e, u64 now, u32 source)
{
	if (touches)
		touch();
	st_again(c, id, now + period, slack);
}

ST_EVERY_TRACEPOINT(ST_ATTACH)
ST_ATTACH(cpu_idle)

/* Sets a processor up and schedules its events, when it next begins a system call. */
SEC("tp_btf/sys_enter")
int st_init_cpu(u64 *context)
{
	struct st_cpu *c = st_this_cpu();
	u32 cpu = bpf_get_smp_processor_id();
	if (!c || c->up || cpu >= 64 || !(processors >> cpu & 1))
		return 0;
	if (st_init())
		return 0;
	for (u32 id = 1; id < ST_EVENTS && id <= events; id++)
		st_schedule(id, st_now() + 1000000 + id * 1000, slack, ST_ANYWHERE);
	return 0;
}
