/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * The trigger-state meter: how long each CPU goes without passing a trigger state, by the source that
 * ended the interval (soft timers section 5.5, tables IV and V, figures 2 to 4).
 *
 * Each CPU has a row of counters for each source, and one for intervals that began when it went idle: those
 * are long because nothing is to be done, not because nothing is passed. The first intervals are also kept one by
 * one, in order: windows (figure 3) and what would be if a source were missing (figure 4) are computed from these, by
 * the reader, and cost nothing here.
 */
#include "kernel.bpf.h"
#include "sources.bpf.h"

char _license[] SEC("license") = "Dual MIT/GPL";

/* A row: eight buckets an octave, so a value is known within an eighth. */
#define BUCKETS 320
#define ROWS 11 /* one for each source, and that of idleness */
#define IDLE_ROW 10
/* Samples of one map value, and values of one CPU. */
#define CHUNK 512

const volatile u32 log_chunks = 0; /* of each CPU that is measured; 0: none are kept */

struct row {
	u64 count, sum, max, over_100us, over_150us;
	u64 buckets[BUCKETS];
};

struct stamp {
	u64 last;
	u64 samples;
	u64 idle;
	u64 place; /* among those that are measured, from 1; 0: it is not. Written by the reader */
	u64 pad[4]; /* a cache line for each CPU */
};

struct samples {
	u32 of[CHUNK]; /* ns, at most 2^27 - 1 (134 ms), shifted by 5; the lowest five bits: source, 10 for idleness */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 64);
	__type(key, u32);
	__type(value, struct stamp);
} stamps SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 64 * ROWS);
	__type(key, u32);
	__type(value, struct row);
} rows SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct samples);
} kept SEC(".maps");

static __always_inline u32 log2_of(u64 value)
{
	u32 log = 0;
	if (value >> 32) { log += 32; value >>= 32; }
	if (value >> 16) { log += 16; value >>= 16; }
	if (value >> 8) { log += 8; value >>= 8; }
	if (value >> 4) { log += 4; value >>= 4; }
	if (value >> 2) { log += 2; value >>= 2; }
	return log + (value >> 1 ? 1 : 0);
}

static __always_inline u32 bucket_of(u64 value)
{
	u32 log = log2_of(value);
	u32 bucket = log < 3 ? (u32)value : ((log - 2) << 3) + ((value >> (log - 3)) & 7);
	return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

/* `idle`: the CPU has nothing to do from now on. */
__noinline int passed(u32 source, u32 idle)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct stamp *stamp = bpf_map_lookup_elem(&stamps, &cpu);
	if (!stamp || !stamp->place)
		return 0;
	u64 now = bpf_ktime_get_ns(), last = stamp->last;
	u64 was_idle = stamp->idle;
	/* Later than now: an interrupt has been here since the clock was read, and has counted this interval. */
	if (now < last)
		return 0;
	stamp->last = now;
	stamp->idle = idle;
	if (!last)
		return 0;
	u64 gap = now - last;
	u32 which = was_idle ? IDLE_ROW : source;
	u32 key = cpu * ROWS + which;
	struct row *row = bpf_map_lookup_elem(&rows, &key);
	if (!row)
		return 0;
	row->count++;
	row->sum += gap;
	if (gap > row->max)
		row->max = gap;
	if (gap > 100000) {
		row->over_100us++;
		if (gap > 150000)
			row->over_150us++;
	}
	u32 bucket = bucket_of(gap);
	if (bucket < BUCKETS)
		row->buckets[bucket]++;
	if (!log_chunks)
		return 0;
	u64 sample = stamp->samples;
	u32 chunk = sample / CHUNK;
	if (chunk >= log_chunks)
		return 0;
	chunk += (u32)(stamp->place - 1) * log_chunks;
	struct samples *samples = bpf_map_lookup_elem(&kept, &chunk);
	if (!samples)
		return 0;
	stamp->samples = sample + 1;
	samples->of[sample & (CHUNK - 1)] = (gap < (1 << 27) ? (u32)gap << 5 : ~31U) | which;
	return 0;
}

#define PASSED(name)                             \
	SEC("tp_btf/" #name)                     \
	int on_##name(u64 *context)              \
	{                                        \
		return passed(ST_SRC_##name, 0); \
	}
ST_EVERY_TRACEPOINT(PASSED)

/* (state, cpu): state is -1 when the CPU leaves idleness. */
SEC("tp_btf/cpu_idle")
int on_cpu_idle(u64 *context)
{
	return passed(ST_SRC_cpu_idle, (u32)context[0] != ~0U);
}
