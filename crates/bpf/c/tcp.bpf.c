/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Gives each TCP connection of a cgroup's programs, when it is established, the window and the pace that a known capacity
 * allows, instead of slow start: rate-based clocking (soft timers, 4.1 and 5.7) by the kernel's own pacing.
 *
 *      established ─▶ window = rate * round trip of the handshake, pace = rate, both divided by those active
 *                 └─▶ CUBIC? then the congestion control of flight.bpf.c, which keeps both, also after a pause
 *      round trip, loss, time-out ─▶ does the path carry it? if not, the connection is left to its congestion control
 *
 * A window without a pace loses packets by the hundred at a short queue, so the pace is set first, and a connection whose
 * pace is refused gets no window.
 */
#include "tcp.bpf.h"

char _license[] SEC("license") = "Dual MIT/GPL";

#define AF_INET 2
/* Ethernet, IP and TCP with time stamps, where the kernel takes the last out of the MSS. */
#define BESIDE_V4 66
#define BESIDE_V6 86

/* Segments sent again that show that a path is smaller than was said: this many, and this share of those sent. */
#define LOST 10
#define LOST_SHARE 32
/* As many round trips in a row with less than 3/4 of the rate arriving and a round trip 1/4 longer than the shortest. */
#define BEHIND 4

/* struct bpf_sock_ops of include/uapi/linux/bpf.h, as far as it is needed. */
struct bpf_sock_ops {
	u32 op;
	u32 args[4];
	u32 family;
	u32 remote_ip4;
	u32 local_ip4;
	u32 remote_ip6[4];
	u32 local_ip6[4];
	u32 remote_port;
	u32 local_port;
	u32 is_fullsock;
	u32 snd_cwnd;
	u32 srtt_us; /* eighths */
	u32 bpf_sock_ops_cb_flags;
	u32 state;
	u32 rtt_min;
	u32 snd_ssthresh;
	u32 rcv_nxt;
	u32 snd_nxt;
	u32 snd_una;
	u32 mss_cache;
	u32 ecn_flags;
	u32 rate_delivered;
	u32 rate_interval_us;
	u32 packets_out;
	u32 retrans_out;
	u32 total_retrans;
	u32 segs_in;
	u32 data_segs_in;
	u32 segs_out;
	u32 data_segs_out;
	u32 lost_out;
	u32 sacked_out;
	u32 sk_txhash;
	u64 bytes_received;
	u64 bytes_acked;
	void *sk;
};
enum {
	ACTIVE_ESTABLISHED = 4,
	PASSIVE_ESTABLISHED = 5,
	TIMEOUT = 8,
	RETRANSMITTED = 9,
	STATE = 10,
	ROUND_TRIP = 12,
};
/* The calls that have to be asked for. */
enum { ASK_TIMEOUT = 1, ASK_RETRANSMITTED = 2, ASK_STATE = 4, ASK_ROUND_TRIP = 8 };
#define TCP_CLOSE 7

static long (*bpf_getsockopt)(void *socket, int level, int name, void *value, int length) = (void *)57;
static long (*bpf_sock_ops_cb_flags_set)(struct bpf_sock_ops *socket, int flags) = (void *)59;

static __always_inline int is_in(const u32 *address, const struct network *network)
{
	u32 other = 0;

#pragma unroll
	for (int word = 0; word < 4; word++)
		other |= (address[word] ^ network->address[word]) & network->mask[word];
	return !other;
}

/* Whether the known capacity is that of the path to the other end. */
static __always_inline int is_meant(struct bpf_sock_ops *socket, const struct setting *set)
{
	/* In the order of the network, on machines of either order. */
	const u32 mapped = __builtin_bswap32(0xffff), one = __builtin_bswap32(1), loopback = __builtin_bswap32(0x7f000000);
	u32 address[4] = { 0, 0, mapped, socket->remote_ip4 };

	/* Or both last words would be read by one load at a computed address, which the verifier refuses in a context. */
	barrier_var(address[3]);
	if (socket->family != AF_INET) {
		address[0] = socket->remote_ip6[0];
		address[1] = socket->remote_ip6[1];
		address[2] = socket->remote_ip6[2];
		address[3] = socket->remote_ip6[3];
	}
	if (!set->networks) {
		if (address[0] | address[1])
			return 1;
		if (address[2] == mapped)
			return (address[3] & __builtin_bswap32(0xff000000)) != loopback;
		return address[2] || address[3] != one;
	}
#pragma unroll
	for (u32 network = 0; network < NETWORKS; network++)
		if (network < set->networks && is_in(address, &set->to[network]))
			return 1;
	return 0;
}

static __always_inline int is_cubic(struct bpf_sock_ops *socket)
{
	char name[16] = {};

	if (bpf_getsockopt(socket, SOL_TCP, TCP_CONGESTION, name, sizeof name))
		return 0;
	return name[0] == 'c' && name[1] == 'u' && name[2] == 'b' && name[3] == 'i' && name[4] == 'c' && !name[5];
}

/* Sets the pace to the connection's share, if that has changed; returns whether it has a pace. */
static __always_inline int keep_pace(struct bpf_sock_ops *socket, const struct setting *set, struct counts *counts,
				     struct flow *flow)
{
	u64 among = active(counts);
	u32 rate;
	long error;

	if (flow->among == among && flow->version == set->version)
		return 1;
	rate = share_of_rate(set, flow, among);
	error = bpf_setsockopt(socket, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate);
	check(counts, error);
	flow->among = among;
	flow->version = set->version;
	flow->behind = 0;
	return !error;
}

static __always_inline void establish(struct bpf_sock_ops *socket, struct setting *set, struct counts *counts,
				      struct flow *flow)
{
	int window;

	count(&counts->connections);
	flow->mss = socket->mss_cache;
	flow->beside = socket->family == AF_INET ? BESIDE_V4 : BESIDE_V6;
	flow->round_trip = socket->srtt_us >> 3;
	if (!flow->round_trip)
		count(&counts->without_round_trip);
	if (set->has_control && is_cubic(socket)) {
		long error = bpf_setsockopt(socket, SOL_TCP, TCP_CONGESTION, set->control, sizeof set->control);

		check(counts, error);
		flow->ours = !error;
	} else {
		count(&counts->other_control);
	}
	/* Where nobody tells when a flight begins and ends, it may be at any time. */
	if (!flow->ours)
		begin_flight(counts, flow);
	if (!keep_pace(socket, set, counts, flow))
		return;
	window = share_of_window(set, flow, active(counts));
	if (window > INITIAL_WINDOW)
		check(counts, bpf_setsockopt(socket, SOL_TCP, TCP_BPF_IW, &window, sizeof window));
	bpf_sock_ops_cb_flags_set(socket, ASK_TIMEOUT | ASK_RETRANSMITTED | ASK_STATE | ASK_ROUND_TRIP);
}

static __always_inline void give_back(struct counts *counts, struct flow *flow)
{
	if (flow->given_back)
		return;
	flow->given_back = 1;
	count(&counts->given_back);
}

/* Whether clearly less arrives than is sent, while the round trip grows: a queue fills at a smaller path. */
static __always_inline int is_behind(struct bpf_sock_ops *socket, const struct setting *set, const struct flow *flow)
{
	u64 interval = socket->rate_interval_us, rate;
	u32 round_trip = socket->srtt_us >> 3;

	if (!interval || !flow->among)
		return 0;
	rate = (u64)socket->rate_delivered * flow->mss * 1000000 / interval;
	return rate < goodput(set, flow) / flow->among * 3 / 4 && round_trip > socket->rtt_min + socket->rtt_min / 4;
}

SEC("sockops") int on_tcp(struct bpf_sock_ops *socket)
{
	struct setting *set = the_setting();
	struct counts *counts = the_counts();
	/* One variable, tested once: the verifier wants the same. */
	void *sk = socket->sk;
	struct flow *flow;
	int begins = socket->op == ACTIVE_ESTABLISHED || socket->op == PASSIVE_ESTABLISHED;

	if (!set || !counts || !sk || (begins && !is_meant(socket, set)))
		return 1;
	flow = bpf_sk_storage_get(&flows, sk, 0, begins ? BPF_SK_STORAGE_GET_F_CREATE : 0);
	if (!flow)
		return 1;
	switch (socket->op) {
	case ACTIVE_ESTABLISHED:
	case PASSIVE_ESTABLISHED:
		establish(socket, set, counts, flow);
		break;
	case ROUND_TRIP:
		if (!flow->round_trip)
			flow->round_trip = socket->rtt_min;
		keep_pace(socket, set, counts, flow);
		flow->behind = is_behind(socket, set, flow) ? flow->behind + 1 : 0;
		if (flow->behind >= BEHIND)
			give_back(counts, flow);
		break;
	case TIMEOUT:
		count(&counts->timeouts);
		give_back(counts, flow);
		break;
	case RETRANSMITTED:
		__sync_fetch_and_add(&counts->retransmitted, socket->args[1]);
		flow->lost += socket->args[1];
		if (flow->lost >= LOST && (u64)flow->lost * LOST_SHARE > socket->data_segs_out)
			give_back(counts, flow);
		break;
	case STATE:
		if (socket->args[1] == TCP_CLOSE)
			end_flight(counts, flow);
		break;
	}
	return 1;
}
