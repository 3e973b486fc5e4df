/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * What the programs of forward.bpf.c share: policies, counts, and how a frame is read and judged, wherever it is met.
 *
 * A frame is met as the kernel's (struct __sk_buff) or before there is one (struct xdp_md). AT_XDP is a constant in each
 * program, so each is left with the helpers that it may call.
 */
#ifndef SOFTTIMERS_ROUTER_BPF_H
#define SOFTTIMERS_ROUTER_BPF_H

#include "forward.bpf.h"

#define RULES 64
#define SIDES 2
/* By policy: counts of each rule, then of each side: came, left, rejected, held back. */
#define COUNTS 128
#define CAME RULES
#define LEFT (RULES + 2)
#define REJECTED (RULES + 4)
#define HELD (RULES + 6)
#define ETHERNET 14
#define V4 0x0800
#define V6 0x86dd
#define TCP 6
#define UDP 17
#define ICMP 1
#define ICMP6 58

/* All of them in the network's order, but the numbers that are compared. */
struct address {
	u32 words[4];
};
struct rule {
	u8 side;     /* 1, 2; 0: any */
	u8 screened; /* its rate is somebody else's to keep */
	u8 rejects;
	u8 from_family; /* 4, 6; 0: any */
	u8 to_family;
	u8 has_protocol;
	u8 protocol;
	u8 has_ports; /* 1: from, 2: to */
	u16 kind;     /* 0: any */
	u16 from_port[2];
	u16 to_port[2];
	u16 length[2];
	u16 pad;
	struct address from, from_mask, to, to_mask;
};
struct side {
	u32 interface;
	u32 mtu;
	u8 station[6];
	u16 takes; /* frames that a program redirects before the kernel has them */
	u8 next_hop[6];
	u16 pad;
};
struct policy {
	u32 rules; /* 0: all is accepted */
	u32 quota; /* of frames on each CPU, while others wait for a poller's turn */
	struct side sides[SIDES];
	struct rule rule[RULES];
};
struct count {
	u64 packets;
	u64 bytes;
};
struct own {
	u32 policy;
	struct address address;
};
/* What this CPU has forwarded since a poller's turn. */
struct spent {
	u64 turn;
	u64 frames;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct policy);
} policies SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} in_use SEC(".maps"); /* 0: none; else the policy's number and one */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2 * COUNTS);
	__type(key, u32);
	__type(value, struct count);
} counts SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct own);
	__type(value, u32);
} owned SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, u64);
} turns SEC(".maps"); /* when a poller's last turn began, and when a frame last came up to it */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct spent);
} quotas SEC(".maps");

struct seen {
	struct policy *policy;
	struct address from, to;
	u32 side;
	u32 found; /* 0: none; else the rule's index and one */
	u16 kind;
	u16 length;
	u16 ports[2];
	u16 sum; /* the transport's, in the network's order */
	u8 protocol;
	u8 has_ports;
	u8 family;
};
/* A frame, where it is met. */
struct frame {
	void *context;
	u32 length;
	u32 segment; /* of a joined one */
	u32 interface;
};

static __always_inline long load(const struct frame *frame, const int at_xdp, u32 offset, void *to, u32 length)
{
	if (at_xdp)
		return bpf_xdp_load_bytes(frame->context, offset, to, length);
	return bpf_skb_load_bytes(frame->context, offset, to, length);
}

static __always_inline void count(u32 policy, u32 at, u32 bytes)
{
	u32 key = policy * COUNTS + at;
	struct count *count = bpf_map_lookup_elem(&counts, &key);

	if (count) {
		count->packets++;
		count->bytes += bytes;
	}
}

static __always_inline int within(const struct address *address, const struct address *net,
				  const struct address *mask)
{
	return (((address->words[0] ^ net->words[0]) & mask->words[0]) |
		((address->words[1] ^ net->words[1]) & mask->words[1]) |
		((address->words[2] ^ net->words[2]) & mask->words[2]) |
		((address->words[3] ^ net->words[3]) & mask->words[3])) == 0;
}

static __always_inline int spans(const u16 *span, u16 number)
{
	return span[0] <= number && number <= span[1];
}

static long hold(u32 index, struct seen *seen)
{
	struct rule *rule = &seen->policy->rule[index & (RULES - 1)];

	if (rule->side && rule->side != seen->side + 1)
		return 0;
	if (rule->kind && rule->kind != seen->kind)
		return 0;
	if (rule->has_protocol && rule->protocol != seen->protocol)
		return 0;
	if (rule->has_ports && !seen->has_ports)
		return 0;
	if ((rule->has_ports & 1) && !spans(rule->from_port, seen->ports[0]))
		return 0;
	if ((rule->has_ports & 2) && !spans(rule->to_port, seen->ports[1]))
		return 0;
	if (!spans(rule->length, seen->length))
		return 0;
	if (rule->from_family && (rule->from_family != seen->family || !within(&seen->from, &rule->from, &rule->from_mask)))
		return 0;
	if (rule->to_family && (rule->to_family != seen->family || !within(&seen->to, &rule->to, &rule->to_mask)))
		return 0;
	seen->found = index + 1;
	return 1;
}

/* Whether a router passes it on (RFC 1812, section 5.3.7; RFC 4291, section 2.5). */
static __always_inline int v4_passes(u32 address)
{
	u8 first = address & 0xff, second = address >> 8 & 0xff;

	return first != 0 && first < 224 && first != 127 && !(first == 169 && second == 254);
}

static __always_inline int v6_passes(const struct address *address)
{
	u8 first = address->words[0] & 0xff, second = address->words[0] >> 8 & 0xff;

	if (first == 0xff || (first == 0xfe && (second & 0xc0) == 0x80))
		return 0;
	if ((address->words[0] | address->words[1] | address->words[2]) == 0)
		return address->words[3] != 0 && address->words[3] != __builtin_bswap32(1);
	return 1;
}

static __always_inline int same(const u8 *one, const u8 *other)
{
	return one[0] == other[0] && one[1] == other[1] && one[2] == other[2] && one[3] == other[3] &&
	       one[4] == other[4] && one[5] == other[5];
}

/* The offset of the transport's header, whose bytes are all there; 0: not for the fast path. */
static __always_inline u32 read_v4(const struct frame *frame, const int at_xdp, struct seen *seen, u32 *end)
{
	u16 words[10];
	u32 sum = 0, length;

	if (load(frame, at_xdp, ETHERNET, words, sizeof(words)))
		return 0;
	for (int at = 0; at < 10; at++)
		sum += words[at];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	length = be16(words[1]);
	/* Options, pieces, the last hop, wrong ones. */
	if ((words[0] & 0xff) != 0x45 || sum != 0xffff || (words[3] & be16(0x3fff)) || (words[4] & 0xff) <= 1 ||
	    length < 20 || length > frame->length - ETHERNET)
		return 0;
	seen->protocol = words[4] >> 8;
	seen->from.words[0] = (u32)words[7] << 16 | words[6];
	seen->to.words[0] = (u32)words[9] << 16 | words[8];
	if (!v4_passes(seen->from.words[0]) || !v4_passes(seen->to.words[0]))
		return 0;
	seen->family = 4;
	seen->length = length;
	*end = ETHERNET + length;
	return ETHERNET + 20;
}

static __always_inline u32 read_v6(const struct frame *frame, const int at_xdp, struct seen *seen, u32 *end)
{
	u32 words[10], length;
	u8 next;

	if (load(frame, at_xdp, ETHERNET, words, sizeof(words)))
		return 0;
	length = 40 + be16(words[1] & 0xffff);
	next = words[1] >> 16 & 0xff;
	if ((words[0] & 0xf0) != 0x60 || words[1] >> 24 <= 1 || length > frame->length - ETHERNET || length > 0xffff)
		return 0;
	/* Extensions. */
	if (next == 0 || next == 43 || next == 44 || next == 51 || next == 60)
		return 0;
	seen->protocol = next;
	__builtin_memcpy(&seen->from, &words[2], 16);
	__builtin_memcpy(&seen->to, &words[6], 16);
	if (!v6_passes(&seen->from) || !v6_passes(&seen->to))
		return 0;
	seen->family = 6;
	seen->length = length;
	*end = ETHERNET + length;
	return ETHERNET + 40;
}

/* Reads the ports, and says whether the packet is short enough for an interface of this MTU. */
static __always_inline int fits(const struct frame *frame, const int at_xdp, struct seen *seen, u32 transport,
				u32 end, u32 mtu)
{
	u32 own = 8, whole = frame->length - ETHERNET, segment = frame->segment;
	u8 tcp[18];

	if (seen->protocol == TCP) {
		if (transport + 20 > end || load(frame, at_xdp, transport, tcp, sizeof(tcp)))
			return 0;
		own = (tcp[12] >> 4) * 4;
		seen->sum = (u16)tcp[17] << 8 | tcp[16];
	} else if (seen->protocol == UDP) {
		if (transport + 8 > end || load(frame, at_xdp, transport, tcp, 8))
			return 0;
		seen->sum = (u16)tcp[7] << 8 | tcp[6];
		/* Of UDP the payload's. */
		seen->length = end - transport - 8;
	} else {
		return segment == 0 && whole <= mtu;
	}
	seen->ports[0] = tcp[0] << 8 | tcp[1];
	seen->ports[1] = tcp[2] << 8 | tcp[3];
	seen->has_ports = 1;
	if (segment && transport - ETHERNET + own + segment < whole)
		whole = transport - ETHERNET + own + segment;
	return whole <= mtu;
}

static __always_inline int is_own(u32 policy, const struct address *address)
{
	struct own own = { .policy = policy, .address = *address };

	return bpf_map_lookup_elem(&owned, &own) != 0;
}

static __always_inline u32 halves(u32 word)
{
	return (word & 0xffff) + (word >> 16);
}

/* Whether the sender has done the transport's checksum. One that it left to an interface holds the sum of the addresses,
 * the protocol and the length so far; one of 65,536 that are done looks alike. Protocols that are not known may have one
 * that is not done within. */
static __always_inline int is_complete(const struct seen *seen, u32 length)
{
	u32 sum = be16((u16)seen->protocol) + be16((u16)length);

	if (seen->protocol == ICMP || seen->protocol == ICMP6)
		return 1;
	if (!seen->has_ports)
		return 0;
	for (int at = 0; at < 4; at++)
		sum += halves(seen->from.words[at]) + halves(seen->to.words[at]);
	sum = halves(halves(sum));
	return sum != seen->sum;
}

/* Whether frames wait for a poller that has had no turn for a quota of frames here. */
static __always_inline int exceeds(const struct policy *policy)
{
	u32 zero = 0, one = 1;
	u64 *turn = bpf_map_lookup_elem(&turns, &zero), *up = bpf_map_lookup_elem(&turns, &one);
	struct spent *spent = bpf_map_lookup_elem(&quotas, &zero);

	if (!turn || !up || !spent)
		return 0;
	if (*up <= *turn || spent->turn != *turn) {
		spent->turn = *turn;
		spent->frames = 0;
	}
	return *up > *turn && spent->frames++ >= policy->quota;
}

/* What becomes of a frame. */
enum { COMES_UP, IS_REJECTED, IS_HELD, IS_CARRIED };

/* Judges a frame by the policy of this number, and counts what is decided here. Before the
 * kernel has a frame, nothing says whether its checksum is left to an interface: what looks so comes up. */
static __always_inline u32 judge(const struct frame *frame, const int at_xdp, u32 number, struct seen *seen)
{
	struct policy *policy = seen->policy;
	u32 transport, end = 0, at;
	struct side *in, *out;
	struct rule *rule = 0;
	u8 ethernet[ETHERNET];

	if (frame->length < ETHERNET + 20)
		return COMES_UP;
	at = frame->interface == policy->sides[1].interface;
	in = &policy->sides[at & 1];
	out = &policy->sides[(at ^ 1) & 1];
	if (frame->interface != in->interface || load(frame, at_xdp, 0, ethernet, ETHERNET))
		return COMES_UP;
	if (!same(ethernet, in->station) || same(ethernet + 6, in->station) || same(ethernet + 6, out->station))
		return COMES_UP;
	if (at_xdp && !out->takes)
		return COMES_UP;
	seen->side = at;
	seen->kind = ethernet[12] << 8 | ethernet[13];
	if (seen->kind == V4)
		transport = read_v4(frame, at_xdp, seen, &end);
	else if (seen->kind == V6)
		transport = read_v6(frame, at_xdp, seen, &end);
	else
		return COMES_UP;
	if (!transport || !fits(frame, at_xdp, seen, transport, end, out->mtu) || is_own(number, &seen->to))
		return COMES_UP;
	if (at_xdp && !is_complete(seen, end - transport))
		return COMES_UP;
	if (policy->rules) {
		bpf_loop(policy->rules & 127, hold, seen, 0);
		/* The last one holds for all, so it is among those that are not here. */
		if (!seen->found)
			return COMES_UP;
		rule = &policy->rule[(seen->found - 1) & (RULES - 1)];
		if (rule->screened)
			return COMES_UP;
	}
	if (!(rule && rule->rejects) && exceeds(policy)) {
		count(number, HELD + at, frame->length);
		return IS_HELD;
	}
	if (rule)
		count(number, (seen->found - 1) & (RULES - 1), frame->length);
	count(number, CAME + at, frame->length);
	if (rule && rule->rejects) {
		count(number, REJECTED + at, frame->length);
		return IS_REJECTED;
	}
	return IS_CARRIED;
}

/* Gives the frame the next hop's station; a packet of IPv4 has one hop less. */
static __always_inline void readdress(u8 *data, const struct side *out, int is_v4)
{
	u32 sum;

	__builtin_memcpy(data, out->next_hop, 6);
	__builtin_memcpy(data + 6, out->station, 6);
	if (!is_v4)
		return;
	/* One hop less in the high byte of a word, so the sum is one more there (RFC 1624). */
	sum = *(u16 *)(data + ETHERNET + 10);
	sum += be16(0x0100);
	data[ETHERNET + 8]--;
	*(u16 *)(data + ETHERNET + 10) = sum + (sum >= 0xffff);
}

#endif
