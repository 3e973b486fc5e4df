/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Gives each TCP connection of a cgroup's programs, when it is established, the window and the pace that a known capacity
 * allows, instead of slow start: rate-based clocking (soft timers, 4.1 and 5.7) by the kernel's own pacing.
 *
 *      established ─▶ window = rate * round trip of the handshake, pace = rate, both divided by those active
 *                 └─▶ CUBIC? then the congestion control of flight.bpf.c, which keeps both, also after a pause
 *      round trip, loss, time-out ─▶ does the path carry it? if not, the connection is left to its congestion control
 *      few losses, alone ─▶ others are on the path: half as much from now on, also of those that follow to this address, and in
 *                    eight seconds all again, as CUBIC takes some
 *
 * A window without a pace loses packets by the hundred at a short queue, so the pace is set first, and a connection whose
 * pace is refused gets no window.
 */
#include "tcp.bpf.h"
#include "behind.bpf.h"

char _license[] SEC("license") = "Dual MIT/GPL";

#define AF_INET 2
/* The third word of ::ffff:0:0/96. */
#define MAPPED __builtin_bswap32(0xffff)
/* Ethernet, IP and TCP with time stamps, where the kernel takes the last out of the MSS. */
#define BESIDE_V4 66
#define BESIDE_V6 86

/* Segments sent again that show that a path is smaller than was said: this many, and this share of those sent. */
#define LOST 10
#define LOST_SHARE 32
/* So many show that others are on the path, which has its rate. */
#define CROWDED 3
/* How long it takes to have half of it again, ns; and the least that losses leave. */
#define REGAINED_IN (8 * 1000000000ull)
#define LEAST_PART (WHOLE / 8)
/* As many round trips in a row that are behind. */
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
	SENDS = 14, /* asks how long its options of the header are */
};
/* The calls that have to be asked for. */
enum { ASK_TIMEOUT = 1, ASK_RETRANSMITTED = 2, ASK_STATE = 4, ASK_ROUND_TRIP = 8, ASK_SENDS = 64 };
#define TCP_CLOSE 7

/* struct bpf_sock_addr, as far as it is needed. */
struct bpf_sock_addr {
	u32 user_family;
	u32 user_ip4;
	u32 user_ip6[4];
	u32 user_port;
	u32 family;
	u32 type;
	u32 protocol;
	u32 msg_src_ip4;
	u32 msg_src_ip6[4];
	void *sk __attribute__((aligned(8)));
};
#define SOCK_DGRAM 2
#define BPF_MAP_TYPE_LRU_HASH 9

/* Destinations whose path carried less, or has others on it: network order, IPv4 as ::ffff:a.b.c.d. */
struct address {
	u32 words[4];
};
struct memory {
	u64 given_back; /* when, as that of a flow */
	u64 lowered;	/* when, to this part, ns; 0: never */
	u64 part;
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct address);
	__type(value, struct memory);
} smaller SEC(".maps");

static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
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

/* The other end, in the order of the network, on machines of either order. */
static __always_inline void peer(struct bpf_sock_ops *socket, u32 *address)
{
	address[0] = 0;
	address[1] = 0;
	address[2] = MAPPED;
	address[3] = socket->remote_ip4;
	/* Or both last words would be read by one load at a computed address, which the verifier refuses in a context. */
	barrier_var(address[3]);
	if (socket->family != AF_INET) {
		address[0] = socket->remote_ip6[0];
		address[1] = socket->remote_ip6[1];
		address[2] = socket->remote_ip6[2];
		address[3] = socket->remote_ip6[3];
	}
}

/* Whether the known capacity is that of the path to an address. */
static __always_inline int is_meant(const u32 *address, const struct setting *set)
{
	const u32 mapped = MAPPED, one = __builtin_bswap32(1), loopback = __builtin_bswap32(0x7f000000);

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
	/* What a part regains begins no new comparison: it changes more often than four round trips take. */
	if (flow->among != among || (flow->version && flow->version != set->version))
		flow->behind = 0;
	flow->among = among;
	flow->version = set->version;
	return !error;
}

/* Returns what is known of the path to the other end, made if need be; NULL if there is nothing. */
static __always_inline struct memory *memory_of(struct bpf_sock_ops *socket, int make)
{
	struct memory fresh = { .part = WHOLE };
	struct memory *memory;
	struct address to;

	peer(socket, to.words);
	memory = bpf_map_lookup_elem(&smaller, &to);
	if (memory || !make)
		return memory;
	bpf_map_update_elem(&smaller, &to, &fresh, 0);
	return bpf_map_lookup_elem(&smaller, &to);
}

/* Returns the part that others leave now. */
static __always_inline u64 part_of(const struct memory *memory, u64 now)
{
	/* Another CPU may have lowered it a moment later. */
	u64 since = now > memory->lowered ? now - memory->lowered : 0;
	u64 part = memory->part + since / (REGAINED_IN / (WHOLE / 2));

	return part < WHOLE ? part : WHOLE;
}

/* Takes the part that others leave; pace and window follow. */
static __always_inline void take_part(struct flow *flow, const struct memory *memory)
{
	u64 part = part_of(memory, bpf_ktime_get_ns());

	if (flow->part == part)
		return;
	flow->part = part;
	flow->version = 0;
}

/* Makes room for others, once in a round trip. Losses among several of its own are of their making: they divide the rate. */
static __always_inline void make_room(struct counts *counts, struct flow *flow, struct memory *memory)
{
	u64 now = bpf_ktime_get_ns(), part = part_of(memory, now) / 2;

	flow->minded = flow->lost;
	if (active(counts) == 1 && now > memory->lowered && now - memory->lowered > flow->round_trip * 1000) {
		count(&counts->made_room);
		memory->part = part > LEAST_PART ? part : LEAST_PART;
		memory->lowered = now;
	}
	take_part(flow, memory);
}

static __always_inline void give_back(struct bpf_sock_ops *socket, struct counts *counts, struct flow *flow)
{
	struct memory *memory;

	if (is_given_back(flow))
		return;
	flow->given_back = bpf_ktime_get_ns();
	count(&counts->given_back);
	memory = memory_of(socket, 1);
	if (!memory)
		return;
	memory->given_back = flow->given_back;
	make_room(counts, flow, memory);
}

/* Leaves a connection alone whose path carried less a moment ago. */
static __always_inline void remember(struct bpf_sock_ops *socket, struct counts *counts, struct flow *flow)
{
	struct memory *memory = memory_of(socket, 0);

	if (!memory)
		return;
	flow->given_back = memory->given_back;
	if (is_given_back(flow))
		count(&counts->remembered);
	take_part(flow, memory);
}

static __always_inline void establish(struct bpf_sock_ops *socket, struct setting *set, struct counts *counts,
				      struct flow *flow)
{
	int window;

	count(&counts->connections);
	flow->part = WHOLE;
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
	remember(socket, counts, flow);
	bpf_sock_ops_cb_flags_set(socket, ASK_TIMEOUT | ASK_RETRANSMITTED | ASK_STATE | ASK_ROUND_TRIP | ASK_SENDS);
	if (!keep_pace(socket, set, counts, flow) || is_given_back(flow))
		return;
	window = share_of_window(set, flow, active(counts));
	if (window > INITIAL_WINDOW)
		check(counts, bpf_setsockopt(socket, SOL_TCP, TCP_BPF_IW, &window, sizeof window));
}

static __always_inline int is_behind(struct bpf_sock_ops *socket, const struct setting *set, const struct flow *flow)
{
	struct arrivals seen = {
		.packets = socket->rate_delivered,
		.in = socket->rate_interval_us,
		.round_trip = socket->srtt_us >> 3,
		.shortest = socket->rtt_min,
		.packet = flow->mss,
	};

	return flow->among && are_behind(&seen, goodput(set, flow) / flow->among);
}

SEC("sockops") int on_tcp(struct bpf_sock_ops *socket)
{
	struct setting *set = the_setting();
	struct counts *counts = the_counts();
	/* One variable, tested once: the verifier wants the same. */
	void *sk = socket->sk;
	struct memory *memory;
	struct flow *flow;
	u32 to[4];
	int begins = socket->op == ACTIVE_ESTABLISHED || socket->op == PASSIVE_ESTABLISHED;

	if (!set || !counts || !sk)
		return 1;
	if (begins) {
		peer(socket, to);
		if (!is_meant(to, set))
			return 1;
	}
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
		memory = memory_of(socket, 0);
		if (memory)
			take_part(flow, memory);
		keep_pace(socket, set, counts, flow);
		flow->behind = is_behind(socket, set, flow) ? flow->behind + 1 : 0;
		if (flow->behind >= BEHIND)
			give_back(socket, counts, flow);
		break;
	/* In the first round trip of many nothing is acknowledged, and the first would have all of the rate, the second half of
	 * it, the third a third, ten of them together three times the rate. */
	case SENDS:
		keep_pace(socket, set, counts, flow);
		break;
	case TIMEOUT:
		count(&counts->timeouts);
		give_back(socket, counts, flow);
		break;
	case RETRANSMITTED:
		__sync_fetch_and_add(&counts->retransmitted, socket->args[1]);
		flow->lost += socket->args[1];
		if (flow->lost >= LOST && (u64)flow->lost * LOST_SHARE > socket->data_segs_out)
			give_back(socket, counts, flow);
		if (flow->lost - flow->minded < CROWDED)
			break;
		memory = memory_of(socket, 1);
		if (memory)
			make_room(counts, flow, memory);
		break;
	case STATE:
		if (socket->args[1] == TCP_CLOSE)
			end_flight(counts, flow);
		break;
	}
	return 1;
}

/* Gives a UDP socket the rate, all of it: nobody tells when it sends. fq keeps packets of sockets at their pace. */
static __always_inline int pace_udp(struct bpf_sock_addr *socket, const u32 *to)
{
	struct setting *set = the_setting();
	struct counts *counts = the_counts();
	void *sk = socket->sk;
	struct flow *flow;
	u32 rate;

	if (socket->type != SOCK_DGRAM || !set || !counts || !sk || !is_meant(to, set))
		return 1;
	flow = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!flow || flow->version == set->version)
		return 1;
	if (!flow->version && !__sync_fetch_and_add(&counts->udp, 1))
		for (int word = 0; word < 4; word++)
			counts->udp_to[word] = to[word];
	/* fq counts headers, too. */
	rate = set->rate < 0xfffffffe ? set->rate : 0xfffffffe;
	check(counts, bpf_setsockopt(socket, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate));
	flow->version = set->version;
	return 1;
}

static __always_inline int pace_udp4(struct bpf_sock_addr *socket)
{
	u32 to[4] = { 0, 0, MAPPED, socket->user_ip4 };

	return pace_udp(socket, to);
}

static __always_inline int pace_udp6(struct bpf_sock_addr *socket)
{
	u32 to[4];

	to[0] = socket->user_ip6[0];
	to[1] = socket->user_ip6[1];
	to[2] = socket->user_ip6[2];
	to[3] = socket->user_ip6[3];
	return pace_udp(socket, to);
}

SEC("cgroup/connect4") int udp_connects4(struct bpf_sock_addr *socket)
{
	return pace_udp4(socket);
}

SEC("cgroup/connect6") int udp_connects6(struct bpf_sock_addr *socket)
{
	return pace_udp6(socket);
}

/* Of a socket that is not connected. */
SEC("cgroup/sendmsg4") int udp_sends4(struct bpf_sock_addr *socket)
{
	return pace_udp4(socket);
}

SEC("cgroup/sendmsg6") int udp_sends6(struct bpf_sock_addr *socket)
{
	return pace_udp6(socket);
}
