/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * What a handler of the experiments touches (soft timers section 5.1), at trigger states and in interrupts alike.
 */
#ifndef SOFTTIMERS_FOOTPRINT_BPF_H
#define SOFTTIMERS_FOOTPRINT_BPF_H

#ifndef ST_MAX_CPUS
#define ST_MAX_CPUS 64
#endif

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

#endif
