/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Paces what leaves an interface from one UDP port, or from the sockets of one cgroup: each packet gets the time at which it
 * may leave (EDT, earliest departure time), and the interface's queue keeps it until then.
 *
 *      sendmsg ──▶ TCX egress: another's ────────────────────────────────────────────▶ fq ──▶ device
 *                        └──▶ tstamp = max(now, last + its bytes / rate); last = tstamp ──▶ fq, until tstamp
 *
 * The queue has to be fq: no other of the kernel's looks at the time, and packets would leave at once. There is no timer here,
 * and none of softtimer.bpf.h: fq has one, and a program at an interface cannot hold a packet itself.
 *
 * Idle is not late: after a pause the next packet leaves at once, and nothing is made up. A packet that would have to wait
 * longer than the horizon is dropped, or a sender that asks for more than its rate would fill fq for everybody. So is one
 * behind too many of its flow: fq would drop it, when it has taken a place and is counted.
 */
#include "forward.bpf.h"

char _license[] SEC("license") = "Dual MIT/GPL";

#define V4 0x0800
#define V6 0x86dd
#define UDP 17
#define BPF_HDR_START_NET 1
#define BPF_SKB_TSTAMP_DELIVERY_MONO 1
/* Of a flow fq keeps 100 (flow_limit); the device may not have taken yet what is due. As EgressPace::WAITING. */
#define WAITING 90
/* fq knows the flows of sockets that are not connected by as many bits of the same hash. */
#define FLOWS 1024

struct bpf_spin_lock {
	u32 value;
};

static long (*bpf_skb_load_bytes_relative)(const void *skb, u32 offset, void *to, u32 len, u32 from) = (void *)68;
static u32 (*bpf_get_hash_recalc)(struct __sk_buff *skb) = (void *)34;
static u64 (*bpf_skb_cgroup_id)(struct __sk_buff *skb) = (void *)79;
static long (*bpf_spin_lock)(struct bpf_spin_lock *lock) = (void *)93;
static long (*bpf_spin_unlock)(struct bpf_spin_lock *lock) = (void *)94;
static long (*bpf_skb_set_tstamp)(struct __sk_buff *skb, u64 tstamp, u32 type) = (void *)192;

struct settings {
	u64 rate;    /* bytes a second; 0: nothing is paced */
	u64 horizon; /* ns */
	u64 cgroup;
	u64 port;
};
struct state {
	struct bpf_spin_lock lock; /* also of the flows */
	u64 last;		   /* the place of the last packet, ns of CLOCK_MONOTONIC */
	u64 owed;		   /* its bytes, for which the next one waits, at the rate that is then */
	u64 packets;
	u64 bytes;
	u64 delayed; /* packets among them that have to wait */
	u64 dropped;
};
struct flow {
	u32 oldest;
	u64 places[WAITING]; /* the last ones, round and round */
};
#define ARRAY(name, entries, of)                     \
	struct {                                     \
		__uint(type, BPF_MAP_TYPE_ARRAY);    \
		__uint(max_entries, entries);        \
		__type(key, u32);                    \
		__type(value, struct of);            \
	} name SEC(".maps")
ARRAY(settings, 1, settings);
ARRAY(states, 1, state);
ARRAY(flows, FLOWS, flow);

static __always_inline struct settings *the_settings(void)
{
	u32 only = 0;

	return bpf_map_lookup_elem(&settings, &only);
}

/* The UDP port that it comes from; -1: none, or it cannot be seen. The pieces behind the first of a datagram have none. */
static __always_inline int port_of(struct __sk_buff *skb)
{
	u8 header[10];
	u16 port;
	u32 at;

	if (bpf_skb_load_bytes_relative(skb, 0, header, sizeof(header), BPF_HDR_START_NET))
		return -1;
	if (skb->protocol == be16(V4)) {
		if (header[9] != UDP || (header[6] & 0x1f) || header[7])
			return -1;
		at = (header[0] & 15) * 4;
	} else if (skb->protocol == be16(V6) && header[6] == UDP) {
		at = 40;
	} else {
		return -1;
	}
	if (bpf_skb_load_bytes_relative(skb, at, &port, sizeof(port), BPF_HDR_START_NET))
		return -1;
	return be16(port);
}

static __always_inline int pace(struct __sk_buff *skb, struct settings *set)
{
	u32 only = 0, number = bpf_get_hash_recalc(skb) % FLOWS, oldest;
	struct state *state = bpf_map_lookup_elem(&states, &only);
	struct flow *flow = bpf_map_lookup_elem(&flows, &number);
	/* With the headers of each segment that the device will cut it into. */
	u64 bytes = skb->wire_len, rate = set->rate, now = bpf_ktime_get_ns(), place;

	if (!state || !flow || !rate)
		return TCX_NEXT;
	bpf_spin_lock(&state->lock);
	place = state->last + state->owed * 1000000000 / rate;
	if (place < now)
		place = now;
	oldest = flow->oldest < WAITING ? flow->oldest : 0;
	if (place - now > set->horizon || flow->places[oldest] > now) {
		state->dropped++;
		bpf_spin_unlock(&state->lock);
		return TCX_DROP;
	}
	flow->places[oldest] = place;
	flow->oldest = oldest + 1;
	state->last = place;
	state->owed = bytes;
	state->packets++;
	state->bytes += bytes;
	state->delayed += place > now;
	bpf_spin_unlock(&state->lock);
	/* A later time that its sender has set stays. */
	if (place > now && place > skb->tstamp)
		bpf_skb_set_tstamp(skb, place, BPF_SKB_TSTAMP_DELIVERY_MONO);
	return TCX_NEXT;
}

SEC("classifier") int pace_port(struct __sk_buff *skb)
{
	struct settings *set = the_settings();

	return set && port_of(skb) == (int)set->port ? pace(skb, set) : TCX_NEXT;
}

SEC("classifier") int pace_cgroup(struct __sk_buff *skb)
{
	struct settings *set = the_settings();

	return set && bpf_skb_cgroup_id(skb) == set->cgroup ? pace(skb, set) : TCX_NEXT;
}
