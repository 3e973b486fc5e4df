/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * A router's fast path: what needs no program in user space is forwarded where it arrives, with its checksums and cuts left
 * undone as they came. All else goes on as if this were not there: to the packet socket of the router, and to the machine.
 *
 *      frame ──▶ packet socket ─▶ choose ── up ───────────▶ its ring
 *                                    └──── fast ──┐ (noted for this CPU)
 *            ──▶ TCX ───────────────▶ carry ◀─────┘ ─▶ changed, redirected        else: the machine's own affair
 *
 * Both programs see the same frame one after the other, on the same CPU, without another one between them: so what the
 * first has decided, the second need not decide again, and no change of the rules comes between the two. A frame for which
 * no note is there was not taken out of the ring.
 *
 * There are two policies, one in use. A change writes the other, with its counts at zero, and then its number; when no
 * program can be running by the old one any more, its counts are final.
 */
#include "forward.bpf.h"

char _license[] SEC("license") = "Dual MIT/GPL";

#define RULES 64
#define SIDES 2
/* By policy: counts of each rule, then of each side: came, left, rejected. */
#define COUNTS 128
#define CAME RULES
#define LEFT (RULES + 2)
#define REJECTED (RULES + 4)
#define ETHERNET 14
#define V4 0x0800
#define V6 0x86dd
#define TCP 6
#define UDP 17

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
	u8 station[8];
	u8 next_hop[8];
};
struct policy {
	u32 rules; /* 0: all is accepted */
	u32 pad;
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
/* What was decided about the frame under way. */
struct note {
	u32 interface; /* 0: nothing */
	u32 length;
	u32 policy;
	u32 side;
	u32 v6;
	u32 pad;
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
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct note);
} notes SEC(".maps");

struct seen {
	struct policy *policy;
	struct address from, to;
	u32 side;
	u32 found; /* 0: none; else the rule's index and one */
	u16 kind;
	u16 length;
	u16 ports[2];
	u8 protocol;
	u8 has_ports;
	u8 family;
	u8 pad;
};

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
static __always_inline u32 read_v4(struct __sk_buff *skb, struct seen *seen, u32 *end)
{
	u16 words[10];
	u32 sum = 0, length;

	if (bpf_skb_load_bytes(skb, ETHERNET, words, sizeof(words)))
		return 0;
	for (int at = 0; at < 10; at++)
		sum += words[at];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	length = be16(words[1]);
	/* Options, pieces, the last hop, wrong ones. */
	if ((words[0] & 0xff) != 0x45 || sum != 0xffff || (words[3] & be16(0x3fff)) || (words[4] & 0xff) <= 1 ||
	    length < 20 || length > skb->len - ETHERNET)
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

static __always_inline u32 read_v6(struct __sk_buff *skb, struct seen *seen, u32 *end)
{
	u32 words[10], length;
	u8 next;

	if (bpf_skb_load_bytes(skb, ETHERNET, words, sizeof(words)))
		return 0;
	length = 40 + be16(words[1] & 0xffff);
	next = words[1] >> 16 & 0xff;
	if ((words[0] & 0xf0) != 0x60 || words[1] >> 24 <= 1 || length > skb->len - ETHERNET || length > 0xffff)
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
static __always_inline int fits(struct __sk_buff *skb, struct seen *seen, u32 transport, u32 end, u32 mtu)
{
	u32 own = 8, whole = skb->len - ETHERNET, segment = skb->gso_size;
	u8 tcp[14];

	if (seen->protocol == TCP) {
		if (transport + 20 > end || bpf_skb_load_bytes(skb, transport, tcp, sizeof(tcp)))
			return 0;
		own = (tcp[12] >> 4) * 4;
	} else if (seen->protocol == UDP) {
		if (transport + 8 > end || bpf_skb_load_bytes(skb, transport, tcp, 8))
			return 0;
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

#define UP 0x40000
#define TAKEN 0

SEC("socket") int choose(struct __sk_buff *skb)
{
	u32 zero = 0, number, at, transport, end = 0;
	struct seen seen = {};
	struct side *in, *out;
	struct note *note;
	u8 ethernet[ETHERNET];
	u32 *used;

	note = bpf_map_lookup_elem(&notes, &zero);
	used = bpf_map_lookup_elem(&in_use, &zero);
	if (!note || !used)
		return UP;
	note->interface = 0;
	number = *(volatile u32 *)used;
	if (number == 0 || number > 2 || skb->pkt_type != PACKET_HOST || skb->vlan_present)
		return UP;
	number--;
	seen.policy = bpf_map_lookup_elem(&policies, &number);
	if (!seen.policy || skb->len < ETHERNET + 20)
		return UP;
	at = skb->ifindex == seen.policy->sides[1].interface;
	in = &seen.policy->sides[at & 1];
	out = &seen.policy->sides[(at ^ 1) & 1];
	if (skb->ifindex != in->interface || bpf_skb_load_bytes(skb, 0, ethernet, ETHERNET))
		return UP;
	if (!same(ethernet, in->station) || same(ethernet + 6, in->station) || same(ethernet + 6, out->station))
		return UP;
	seen.side = at;
	seen.kind = ethernet[12] << 8 | ethernet[13];
	if (seen.kind == V4)
		transport = read_v4(skb, &seen, &end);
	else if (seen.kind == V6)
		transport = read_v6(skb, &seen, &end);
	else
		return UP;
	if (!transport || !fits(skb, &seen, transport, end, out->mtu) || is_own(number, &seen.to))
		return UP;
	if (seen.policy->rules) {
		struct rule *rule;

		bpf_loop(seen.policy->rules & 127, hold, &seen, 0);
		/* The last one holds for all, so it is among those that are not here. */
		if (!seen.found)
			return UP;
		rule = &seen.policy->rule[(seen.found - 1) & (RULES - 1)];
		if (rule->screened)
			return UP;
		count(number, (seen.found - 1) & (RULES - 1), skb->len);
		if (rule->rejects) {
			count(number, CAME + at, skb->len);
			count(number, REJECTED + at, skb->len);
			return TAKEN;
		}
	}
	count(number, CAME + at, skb->len);
	note->interface = skb->ifindex;
	note->length = skb->len;
	note->policy = number;
	note->side = at;
	note->v6 = seen.kind == V6;
	return TAKEN;
}

SEC("classifier") int carry(struct __sk_buff *skb)
{
	u32 zero = 0, number, at, length;
	struct policy *policy;
	struct note *note = bpf_map_lookup_elem(&notes, &zero);
	struct side *out;
	u8 *data, *end;

	if (!note || note->interface != skb->ifindex || note->length != skb->len)
		return TCX_NEXT;
	note->interface = 0;
	number = note->policy & 1;
	at = note->side & 1;
	length = skb->len;
	policy = bpf_map_lookup_elem(&policies, &number);
	if (!policy)
		return TCX_DROP;
	out = &policy->sides[at ^ 1];
	if (note->v6) {
		u8 hops;

		if (bpf_skb_load_bytes(skb, ETHERNET + 7, &hops, 1))
			return TCX_DROP;
		hops--;
		/* An interface may have summed up all of the packet. */
		if (bpf_skb_store_bytes(skb, ETHERNET + 7, &hops, 1, BPF_F_RECOMPUTE_CSUM))
			return TCX_DROP;
	}
	data = (u8 *)(long)skb->data;
	end = (u8 *)(long)skb->data_end;
	if (data + ETHERNET + 20 > end) {
		if (bpf_skb_pull_data(skb, ETHERNET + 20))
			return TCX_DROP;
		data = (u8 *)(long)skb->data;
		end = (u8 *)(long)skb->data_end;
		if (data + ETHERNET + 20 > end)
			return TCX_DROP;
	}
	__builtin_memcpy(data, out->next_hop, 6);
	__builtin_memcpy(data + 6, out->station, 6);
	if (!note->v6) {
		/* One hop less in the high byte of a word, so the sum is one more there (RFC 1624). */
		u32 sum = *(u16 *)(data + ETHERNET + 10);

		sum += be16(0x0100);
		data[ETHERNET + 8]--;
		*(u16 *)(data + ETHERNET + 10) = sum + (sum >= 0xffff);
	}
	count(number, LEFT + (at ^ 1), length);
	return bpf_redirect(out->interface, 0);
}
