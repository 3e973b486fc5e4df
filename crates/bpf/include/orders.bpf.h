/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * What a CPU is to do in a run of an experiment: written by who runs it, so that one verification serves many runs.
 * Events of soft timers and a plain bpf_timer obey the same orders.
 */
#ifndef SOFTTIMERS_ORDERS_BPF_H
#define SOFTTIMERS_ORDERS_BPF_H

#include "footprint.bpf.h"

struct orders {
	u64 period;  /* ns after the one before; of events 0: at every trigger state */
	u64 slack;   /* of events */
	u64 run;     /* its number; 0: none goes on */
	u64 events;  /* 0: only the gate */
	u64 touches; /* whether a handler touches fifty cache lines */
	u64 begun;   /* the run that the CPU has begun; written by the program */
	u64 pad[2];  /* a cache line for each CPU */
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ST_MAX_CPUS);
	__type(key, u32);
	__type(value, struct orders);
} orders SEC(".maps");

static __always_inline struct orders *orders_of(u32 cpu)
{
	return bpf_map_lookup_elem(&orders, &cpu);
}

/* Whether a run was ordered that the CPU has not begun. */
static __always_inline int to_begin(struct orders *o)
{
	return o->run && o->begun != o->run;
}

#endif
