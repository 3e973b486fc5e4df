/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * A congestion control (struct_ops) that leaves everything to the kernel's CUBIC, but for three moments:
 *
 *      a flight begins    first packet after all were acknowledged: the window is the connection's share of the known
 *                         capacity at least, where CUBIC would have cut it for the pause (RFC 9293's restart)
 *      packets acked      its pace and window follow the number of active connections, and a flight ends with its last packet
 *      packets may leave  in the first round trip of a flight, no more than a train that a short queue holds (min_tso_segs)
 *
 * At the first two the window counts as used: the kernel halves one that is not used at once (RFC 2861), as a paced one is not.
 *
 * A fast connection's train is up to 64 KB, and only its window makes one shorter: so until acknowledgements come, the window
 * is what is on the way and one train more, while the pace, which the kernel looks at first, says when. CUBIC never sees that:
 * it is called with the window put back. Where acknowledgements are near, the kernel would wait for them instead of sending
 * less than a whole train (tcp_tso_should_defer), so from then on trains are its own.
 *
 * The loader leaves min_tso_segs out where trains are short anyway, and where fq is the default queue: fq paces in the place of
 * the kernel's timer, and nothing would open the window. Under an fq set by hand a connection's first flight waits a round trip.
 * Where a kernel skips a program, its result is whatever the stack held.
 *
 * The kernel's functions have no number of their own: here each has one that no helper has, and the loader
 * (src/tcp/flight.rs) puts the kernel's in its place. So the object needs no declaration of them that would tie it to a
 * kernel.
 */
#include "tcp.bpf.h"

char _license[] SEC("license") = "Dual MIT/GPL";

struct sock;
struct ack_sample;
#define PRESERVED __attribute__((preserve_access_index))
struct minmax_sample {
	u32 t;
	u32 v;
} PRESERVED;
struct minmax {
	struct minmax_sample s[3];
} PRESERVED;
struct tcp_sock {
	u32 snd_cwnd;
	u32 snd_cwnd_stamp;
	u32 snd_ssthresh;
	u32 packets_out;
	u32 sacked_out;
	u32 lost_out;
	u32 retrans_out;
	u32 max_packets_out;
	u32 srtt_us; /* eighths */
	u32 write_seq;
	u32 snd_nxt;
	u64 tcp_clock_cache;
	struct minmax rtt_min;
} PRESERVED;
struct sock {
	unsigned long sk_pacing_rate;
	u32 sk_pacing_status;
} PRESERVED;

#define CA_EVENT_TX_START 0
#define NO_LOSS_YET 0x7fffffff
/* The kernel keeps the pace itself, not fq. */
#define SK_PACING_NEEDED 1
/* The kernel's own min_tso_segs. */
#define LEAST_TRAIN 2
/* Packets of a train: a queue of 30 holds it and some of one that left late. */
#define TRAIN 16
/* So near an acknowledgement trains are the kernel's again, ns: it waits for one that is 1 ms away. */
#define NEAR 2000000

static u64 (*bpf_jiffies64)(void) = (void *)118;

/* As KERNEL_FUNCTIONS of the loader. */
static void (*cubictcp_init)(struct sock *sk) = (void *)0x7f000000;
static u32 (*cubictcp_recalc_ssthresh)(struct sock *sk) = (void *)0x7f000001;
static void (*cubictcp_cong_avoid)(struct sock *sk, u32 ack, u32 acked) = (void *)0x7f000002;
static void (*cubictcp_state)(struct sock *sk, u8 state) = (void *)0x7f000003;
static void (*cubictcp_cwnd_event)(struct sock *sk, u32 event) = (void *)0x7f000004;
static void (*cubictcp_acked)(struct sock *sk, const struct ack_sample *sample) = (void *)0x7f000005;
static u32 (*tcp_reno_undo_cwnd)(struct sock *sk) = (void *)0x7f000006;

/* Leaves of the window what is on the way and a train. */
static __always_inline void hold(struct sock *sk, struct flow *flow)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	u32 window = tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out + TRAIN;

	if (sk->sk_pacing_status != SK_PACING_NEEDED || sk->sk_pacing_rate >> 10 <= TRAIN * flow->mss || tp->snd_cwnd <= window)
		return;
	flow->held = tp->snd_cwnd;
	tp->snd_cwnd = window;
}

/* Puts the window back. */
static __always_inline void let_go(struct sock *sk, struct flow *flow)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	if (tp->snd_cwnd < flow->held)
		tp->snd_cwnd = flow->held;
	flow->held = 0;
}

/* When the first acknowledgement of a flight that begins now is near. */
static __always_inline u64 until(const struct tcp_sock *tp)
{
	return tp->tcp_clock_cache + (u64)tp->srtt_us * 125 - NEAR;
}

/* Sets the pace to the connection's share, if that has changed. */
static __always_inline void keep_pace(struct sock *sk, const struct setting *set, struct counts *counts, struct flow *flow)
{
	u64 among = active(counts);
	u32 rate;

	if (flow->among == among && flow->version == set->version)
		return;
	rate = share_of_rate(set, flow, among);
	check(counts, bpf_setsockopt(sk, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate));
	/* The limit alone would hold from the next acknowledgement on, a round trip later at the beginning of a flight. */
	sk->sk_pacing_rate = rate;
	if (flow->among != among || (flow->version && flow->version != set->version))
		flow->behind = 0;
	flow->among = among;
	flow->version = set->version;
}

static __always_inline void start(struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct setting *set = the_setting();
	struct counts *counts = the_counts();
	struct flow *flow = bpf_sk_storage_get(&flows, sk, 0, 0);
	u32 window;

	if (!set || !counts || !flow)
		return;
	let_go(sk, flow);
	begin_flight(counts, flow);
	keep_pace(sk, set, counts, flow);
	flow->unheard = 0;
	if (is_given_back(flow))
		return;
	flow->round_trip = flow->round_trip ? flow->round_trip : tp->rtt_min.s[0].v;
	window = share_of_window(set, flow, active(counts));
	/* At first it has the window of when it was established, which others may share by now. */
	if (window && (!flow->begun || tp->snd_cwnd < window)) {
		if (flow->begun)
			count(&counts->restored);
		tp->snd_cwnd = window;
	}
	flow->begun = 1;
	flow->unheard = until(tp);
	/* Without min_tso_segs nothing opens it again before an acknowledgement. */
	if (set->has_control > 1 && tp->tcp_clock_cache < flow->unheard)
		hold(sk, flow);
	tp->snd_cwnd_stamp = bpf_jiffies64();
}

static __always_inline void acked(struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct setting *set = the_setting();
	struct counts *counts = the_counts();
	struct flow *flow = bpf_sk_storage_get(&flows, sk, 0, 0);
	u32 window;

	if (!set || !counts || !flow)
		return;
	if (!is_given_back(flow))
		tp->snd_cwnd_stamp = bpf_jiffies64();
	if (!tp->packets_out && tp->write_seq == tp->snd_nxt) {
		end_flight(counts, flow);
		return;
	}
	keep_pace(sk, set, counts, flow);
	window = share_of_window(set, flow, active(counts));
	if (!is_given_back(flow) && tp->snd_ssthresh >= NO_LOSS_YET && tp->snd_cwnd < window)
		tp->snd_cwnd = window;
}

/* Sections that the loader's parser knows; the arguments are those of the operation, one in each word. */
SEC("fentry/init") int flight_init(u64 *arguments)
{
	cubictcp_init((struct sock *)arguments[0]);
	return 0;
}

SEC("fentry/ssthresh") int flight_ssthresh(u64 *arguments)
{
	struct sock *sk = (struct sock *)arguments[0];
	struct flow *flow = bpf_sk_storage_get(&flows, sk, 0, 0);

	if (flow) {
		let_go(sk, flow);
		flow->unheard = 0;
		flow->before = ((struct tcp_sock *)sk)->snd_cwnd;
	}
	return cubictcp_recalc_ssthresh(sk);
}

SEC("fentry/cong_avoid") int flight_cong_avoid(u64 *arguments)
{
	struct sock *sk = (struct sock *)arguments[0];
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	/* A window that was held looks used, and would grow with each answer. */
	if (tp->snd_cwnd < 2 * tp->max_packets_out)
		cubictcp_cong_avoid(sk, arguments[1], arguments[2]);
	return 0;
}

SEC("fentry/min_tso_segs") int flight_min_tso_segs(u64 *arguments)
{
	struct sock *sk = (struct sock *)arguments[0];
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct flow *flow = bpf_sk_storage_get(&flows, sk, 0, 0);
	u64 end;

	if (!flow)
		return LEAST_TRAIN;
	let_go(sk, flow);
	end = tp->packets_out ? flow->unheard : until(tp);
	if (tp->tcp_clock_cache < end && !is_given_back(flow))
		hold(sk, flow);
	return LEAST_TRAIN;
}

SEC("fentry/set_state") int flight_set_state(u64 *arguments)
{
	cubictcp_state((struct sock *)arguments[0], arguments[1]);
	return 0;
}

SEC("fentry/cwnd_event") int flight_cwnd_event(u64 *arguments)
{
	struct sock *sk = (struct sock *)arguments[0];
	u32 event = arguments[1];

	cubictcp_cwnd_event(sk, event);
	if (event == CA_EVENT_TX_START)
		start(sk);
	return 0;
}

SEC("fentry/pkts_acked") int flight_pkts_acked(u64 *arguments)
{
	struct sock *sk = (struct sock *)arguments[0];

	struct flow *flow = bpf_sk_storage_get(&flows, sk, 0, 0);

	if (flow)
		let_go(sk, flow);
	cubictcp_acked(sk, (const struct ack_sample *)arguments[1]);
	acked(sk);
	return 0;
}

SEC("fentry/undo_cwnd") int flight_undo_cwnd(u64 *arguments)
{
	struct sock *sk = (struct sock *)arguments[0];
	struct flow *flow = bpf_sk_storage_get(&flows, sk, 0, 0);
	u32 window = tcp_reno_undo_cwnd(sk);

	/* What the kernel saved before it asked for ssthresh may be the window that was held. */
	return flow && window < flow->before ? flow->before : window;
}
