/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Known capacity for TCP: what tcp.bpf.c (at a cgroup) and flight.bpf.c (a congestion control) share.
 *
 *      setting   from the program in user space: rate, window, whom it holds for
 *      counts    to it; how many connections are active is also what the rate and the window are divided by
 *      flows     of each connection, kept with its socket: gone when it is
 */
#ifndef SOFTTIMERS_TCP_BPF_H
#define SOFTTIMERS_TCP_BPF_H

#include "kernel.bpf.h"

#define BPF_MAP_TYPE_SK_STORAGE 24
#define BPF_F_NO_PREALLOC 1
#define BPF_SK_STORAGE_GET_F_CREATE 1
#define SOL_SOCKET 1
#define SO_MAX_PACING_RATE 47
#define SOL_TCP 6
#define TCP_CONGESTION 13
#define TCP_BPF_IW 1001

/* Networks that --to may name. */
#define NETWORKS 8
/* The kernel's own initial window: less is no use of a known capacity. */
#define INITIAL_WINDOW 10
/* With many active connections a share may be less, but not so little that each packet waits for an acknowledgement. */
#define LEAST_WINDOW 2

/* How long a smaller path is remembered, ns. */
#define MEMORY (60 * 1000000000ull)

/* The part of its share that a connection takes, of this: less where others were in its way (tcp.bpf.c). */
#define WHOLE 64
/* Of its share a connection leaves this part, as BBR does: what a queue holds goes away, instead of staying. */
#define SPARED 100

struct network {
	u32 address[4]; /* in the network's order; IPv4 as ::ffff:a.b.c.d */
	u32 mask[4];
};
struct setting {
	u64 rate;   /* bytes a second on the wire, of all connections together */
	u64 window; /* bytes of all connections together; 0: rate * round trip * scale / 1024 */
	u32 scale;
	u32 version;	  /* counts the changes */
	u32 networks;	  /* 0: everybody but this machine */
	u32 has_control;  /* 0: none of that name; 2: it limits trains */
	char control[16]; /* of flight.bpf.c */
	struct network to[NETWORKS];
};
struct counts {
	u64 connections; /* that were given rate and window */
	u64 active;	 /* now */
	u64 most_active;
	u64 restored;	   /* flights after a pause that began with the whole window again */
	u64 retransmitted; /* segments */
	u64 timeouts;
	u64 given_back;	     /* connections left to the congestion control's own judgement */
	u64 other_control;   /* connections whose congestion control is not CUBIC, which keeps its own window after a pause */
	u64 without_round_trip; /* connections whose handshake was repeated, so that it did not tell the round trip */
	u64 refused;	     /* settings that the kernel refused */
	u64 last_refusal;    /* errno */
	u64 remembered;	     /* connections to a destination whose path carried less a moment ago: left alone from the start */
	u64 made_room;	     /* times that losses showed others on the path */
	u64 udp;	     /* sockets that were given the rate */
	u32 udp_to[4];	     /* the first destination of one */
};
struct flow {
	u64 round_trip; /* us; 0: not known yet */
	u32 mss;
	u32 beside;  /* bytes of headers of each packet */
	u32 among;   /* connections that its rate was divided among */
	u32 version; /* of the setting that it has */
	u32 lost;    /* segments sent again */
	u32 behind;  /* round trips in a row in which less arrived than was sent, and the queue grew */
	u32 minded;  /* of lost: those that have lowered its part */
	u32 part;    /* of its share; WHOLE: all */
	u8 ours;     /* has the congestion control of flight.bpf.c */
	u8 active;
	u8 begun; /* has sent */
	u32 held; /* the window, while less of it is lent; 0: it has it */
	u32 before; /* the window, when CUBIC was last asked how far to reduce it */
	u64 unheard; /* until when no acknowledgement is near, ns */
	u64 given_back; /* when, ns of CLOCK_MONOTONIC; 0: it has the capacity */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct setting);
} settings SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct counts);
} totals SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flow);
} flows SEC(".maps");

static long (*bpf_setsockopt)(void *socket, int level, int name, void *value, int length) = (void *)49;
static void *(*bpf_sk_storage_get)(void *map, void *socket, void *value, u64 flags) = (void *)107;

/* Whether it was left to its congestion control, less than a minute ago: paths change. */
static __always_inline int is_given_back(const struct flow *flow)
{
	return flow->given_back && bpf_ktime_get_ns() - flow->given_back < MEMORY;
}

static __always_inline struct setting *the_setting(void)
{
	u32 only = 0;

	return bpf_map_lookup_elem(&settings, &only);
}

static __always_inline struct counts *the_counts(void)
{
	u32 only = 0;

	return bpf_map_lookup_elem(&totals, &only);
}

static __always_inline void count(u64 *number)
{
	__sync_fetch_and_add(number, 1);
}

static __always_inline void check(struct counts *counts, long error)
{
	if (error) {
		count(&counts->refused);
		counts->last_refusal = -error;
	}
}

static __always_inline u64 active(const struct counts *counts)
{
	/* A connection of a moment ago may not be counted any more. */
	return (s64)counts->active > 1 ? counts->active : 1;
}

/* Bytes of data a second, without a division among connections: the kernel does not count headers when it paces. */
static __always_inline u64 goodput(const struct setting *set, const struct flow *flow)
{
	u64 packet = flow->mss + flow->beside;
	u64 data = packet ? set->rate * flow->mss / packet : set->rate;

	return data * flow->part / WHOLE;
}

/* Its share of the pace. BPF takes exactly four bytes, and all ones mean no limit. */
static __always_inline u32 share_of_rate(const struct setting *set, const struct flow *flow, u64 among)
{
	u64 rate = goodput(set, flow) / among;

	rate -= rate / SPARED;
	return rate < 0xfffffffe ? rate : 0xfffffffe;
}

/* Its share of the window, in packets; 0 if the round trip is not known. */
static __always_inline u32 share_of_window(const struct setting *set, const struct flow *flow, u64 among)
{
	u64 all, share;

	if (!flow->mss || (!set->window && !flow->round_trip))
		return 0;
	if (set->window)
		all = set->window / flow->mss * flow->part / WHOLE;
	else
		all = goodput(set, flow) / flow->mss * flow->round_trip / 1000000 * set->scale >> 10;
	if (all < INITIAL_WINDOW)
		all = INITIAL_WINDOW;
	share = all / among;
	if (share < LEAST_WINDOW)
		share = LEAST_WINDOW;
	return share < 1 << 20 ? share : 1 << 20;
}

static __always_inline void begin_flight(struct counts *counts, struct flow *flow)
{
	if (flow->active)
		return;
	flow->active = 1;
	count(&counts->active);
	if (counts->active > counts->most_active)
		counts->most_active = counts->active;
}

static __always_inline void end_flight(struct counts *counts, struct flow *flow)
{
	if (!flow->active)
		return;
	flow->active = 0;
	__sync_fetch_and_sub(&counts->active, 1);
}

#endif
