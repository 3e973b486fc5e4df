/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * A worked use of softtimer.bpf.h: an XDP program that collects packets into a batch for each CPU, and hands a batch
 * on when it is full, or 100 us after its first packet. Here handing on is counting; yours may be a redirect, or a record in
 * a ring buffer.
 *
 *      packet ──▶ first of its batch? ──▶ st_schedule(100 us)
 *             ──▶ the last?           ──▶ hand on, st_cancel
 *             ──▶ st_poll()           ──▶ due? hand on
 *
 * Beside it, what it stands beside: the same with a bpf_timer for each CPU and none of the header's (collect_by_timer).
 */
#include "kernel.bpf.h"
#include "softtimer.bpf.h"

char _license[] SEC("license") = "Dual MIT/GPL";

#define FLUSH 1
#define XDP_PASS 2

const volatile u64 slack = 1000000;
const volatile u32 full = 64;
const volatile u64 longest = 100000;

struct batch {
	u64 held;    /* packets in it */
	u64 first;   /* when its first came */
	u64 packets; /* handed on, of all batches */
	u64 batches;
	u64 by_time; /* batches that the event handed on */
	u64 wait_max;
	u64 interrupts; /* of the bpf_timer */
	u64 pad;        /* a cache line for each CPU */
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ST_MAX_CPUS);
	__type(key, u32);
	__type(value, struct batch);
} batches SEC(".maps");

static __always_inline struct batch *this_batch(void)
{
	u32 cpu = bpf_get_smp_processor_id();
	return bpf_map_lookup_elem(&batches, &cpu);
}

static __always_inline void hand_on(struct batch *b, u64 now)
{
	u64 wait = now - b->first;
	if (wait > b->wait_max)
		b->wait_max = wait;
	b->packets += b->held;
	b->batches++;
	b->held = 0;
}

static __always_inline void st_fire(struct st_cpu *c, u32 id, struct st_event *e, u64 now, u32 source)
{
	struct batch *b = this_batch();
	if (b && b->held) {
		hand_on(b, now);
		b->by_time++;
	}
}

ST_INIT(sys_enter)

SEC("xdp")
int collect(void *packet)
{
	struct batch *b = this_batch();
	struct st_cpu *c = st_this_cpu();
	if (!b || !c)
		return XDP_PASS;
	b->interrupts = c->stats.backups;
	/* Soft interrupts do not interrupt each other, and all that touches a batch runs in one: no packet is lost. */
	if (b->held++ == 0) {
		b->first = st_now();
		st_schedule(FLUSH, b->first + longest, slack, ST_IN(poll) | ST_IN(backup));
	} else if (b->held >= full) {
		hand_on(b, st_now());
		st_cancel(FLUSH);
	}
	st_poll();
	return XDP_PASS;
}

struct flusher {
	struct bpf_timer timer;
	u64 up;    /* initialised */
	u64 armed; /* for this batch, or for one that was handed on before its time */
	u64 pad[4];
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ST_MAX_CPUS);
	__type(key, u32);
	__type(value, struct flusher);
} flushers SEC(".maps");

/* A timer that is not postponed for each batch, for that would cost more than to go off in vain: it looks what it is for. */
static __always_inline void flush_at(struct flusher *f, u64 at)
{
	f->armed = 1;
	bpf_timer_start(&f->timer, at, 1 /* absolute */ | 2 /* pinned to this CPU */);
}

static int flush(void *map, u32 *key, struct flusher *f)
{
	struct batch *b = this_batch();
	f->armed = 0;
	if (!b)
		return 0;
	b->interrupts++;
	if (!b->held)
		return 0;
	u64 now = bpf_ktime_get_ns();
	if (now < b->first + longest) {
		flush_at(f, b->first + longest);
		return 0;
	}
	hand_on(b, now);
	b->by_time++;
	return 0;
}

SEC("xdp")
int collect_by_timer(void *packet)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct batch *b = this_batch();
	struct flusher *f = bpf_map_lookup_elem(&flushers, &cpu);
	if (!b || !f)
		return XDP_PASS;
	if (!f->up) {
		if (bpf_timer_init(&f->timer, &flushers, 1 /* CLOCK_MONOTONIC */) ||
		    bpf_timer_set_callback(&f->timer, flush))
			return XDP_PASS;
		f->up = 1;
	}
	if (b->held++ == 0) {
		b->first = bpf_ktime_get_ns();
		if (!f->armed)
			flush_at(f, b->first + longest);
	} else if (b->held >= full) {
		hand_on(b, bpf_ktime_get_ns());
	}
	return XDP_PASS;
}
