/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * A router's fast path: what needs no program in user space is forwarded where it arrives, with its checksums and cuts left
 * undone as they came. All else goes on as if this were not there: to the packet socket of the router, and to the machine.
 *
 *      frame ─▶ [ XDP ─▶ cross ─▶ changed, redirected ]
 *                          └─ not complete, or needs a program ─┐
 *            ┌──────────────────────────────────────────────────┘
 *            ├─▶ packet socket ─▶ choose ── up ───────────▶ its ring
 *            │                       └──── fast ──┐ (noted for this CPU)
 *            └─▶ TCX ───────────────▶ carry ◀─────┘ ─▶ changed, redirected        else: the machine's own affair
 *
 * Choose and carry see the same frame one after the other, on the same CPU, without another one between them: so what the
 * first has decided, the second need not decide again, and no change of the rules comes between the two. A frame for which
 * no note is there was not taken out of the ring. Cross is attached where it was asked for, and does both at once.
 *
 * There are two policies, one in use. A change writes the other, with its counts at zero, and then its number; when no
 * program can be running by the old one any more, its counts are final.
 *
 * While frames wait for a poller that gets no turn, each CPU forwards a quota of frames, and drops the others.
 */
#include "router.bpf.h"

char _license[] SEC("license") = "Dual MIT/GPL";

/* What was decided about the frame under way. */
struct note {
	u32 interface; /* 0: nothing */
	u32 length;
	u32 policy;
	u32 side;
	u32 v6;
	u32 held; /* to be dropped */
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct note);
} notes SEC(".maps");

#define UP 0x40000
#define TAKEN 0

/* The policy in use, and its number; none: 0. */
static __always_inline struct policy *policy_in_use(u32 *number)
{
	u32 zero = 0, *used = bpf_map_lookup_elem(&in_use, &zero);

	*number = used ? *(volatile u32 *)used : 0;
	if (*number == 0 || *number > 2)
		return 0;
	*number -= 1;
	return bpf_map_lookup_elem(&policies, number);
}

static __always_inline u32 decide(struct __sk_buff *skb, struct note *note)
{
	struct frame frame = { .context = skb, .length = skb->len, .segment = skb->gso_size, .interface = skb->ifindex };
	struct seen seen = {};
	u32 number, verdict;

	note->interface = 0;
	seen.policy = policy_in_use(&number);
	if (!seen.policy || skb->pkt_type != PACKET_HOST || skb->vlan_present)
		return COMES_UP;
	verdict = judge(&frame, 0, number, &seen);
	if (verdict == IS_CARRIED || verdict == IS_HELD) {
		note->interface = skb->ifindex;
		note->length = skb->len;
		note->policy = number;
		note->side = seen.side;
		note->v6 = seen.kind == V6;
		note->held = verdict == IS_HELD;
	}
	return verdict;
}

SEC("socket") int choose(struct __sk_buff *skb)
{
	u32 zero = 0, one = 1;
	struct note *note = bpf_map_lookup_elem(&notes, &zero);
	u64 *up;

	if (note && decide(skb, note) != COMES_UP)
		return TAKEN;
	up = bpf_map_lookup_elem(&turns, &one);
	if (up)
		*up = bpf_ktime_get_ns();
	return UP;
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
	if (!policy || note->held)
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
	readdress(data, out, !note->v6);
	count(number, LEFT + (at ^ 1), length);
	return bpf_redirect(out->interface, 0);
}

SEC("xdp.frags") int cross(struct xdp_md *xdp)
{
	struct frame frame = { .context = xdp, .length = bpf_xdp_get_buff_len(xdp), .interface = xdp->ingress_ifindex };
	struct seen seen = {};
	struct side *out;
	u32 number;
	u8 *data, *end;

	seen.policy = policy_in_use(&number);
	if (!seen.policy)
		return XDP_PASS;
	data = (u8 *)(long)xdp->data;
	end = (u8 *)(long)xdp->data_end;
	if (data + ETHERNET + 20 > end)
		return XDP_PASS;
	switch (judge(&frame, 1, number, &seen)) {
	case COMES_UP:
		return XDP_PASS;
	case IS_CARRIED:
		break;
	default:
		return XDP_DROP;
	}
	out = &seen.policy->sides[(seen.side ^ 1) & 1];
	if (seen.kind == V6)
		data[ETHERNET + 7]--;
	readdress(data, out, seen.kind == V4);
	count(number, LEFT + ((seen.side ^ 1) & 1), frame.length);
	return bpf_redirect(out->interface, 0);
}
