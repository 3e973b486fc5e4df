/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * A program of another author, with the kernel's own types or ours: as docs/kernel.md has it. */
#ifdef VMLINUX
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#else
#include "kernel.bpf.h"
#define XDP_PASS 2
struct xdp_md;
#endif
#include "softtimer.bpf.h"

char _license[] SEC("license") = "GPL";

#define FLUSH 1
static u64 held, flushed;

static __always_inline void st_fire(struct st_cpu *c, u32 id, struct st_event *e, u64 now, u32 source)
{
	flushed += held;
	held = 0;
}

ST_ATTACH_DEFAULT
ST_INIT(sys_enter)

SEC("xdp")
int batch(struct xdp_md *packet)
{
	if (held++ == 0)
		st_schedule(FLUSH, st_now() + 100000, 1000000, ST_IN(softirq_exit) | ST_IN(poll) | ST_IN(backup));
	if (held == 64)
		st_cancel(FLUSH);
	st_poll();
	return XDP_PASS;
}
