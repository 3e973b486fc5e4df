/* SPDX-License-Identifier: GPL-2.0
 *
 * The routers in twelve lines that ours is compared with: the kernel's table says where a packet of IPv4 goes, and it goes
 * there, from XDP or from tc. Nothing else is thought of: no rules, no counts, no ICMP; checksums that are left to the
 * interface are lost from XDP. Compiled by `cargo lab rig routed`.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>

#define SEC(name) __attribute__((section(name), used))
#define be16(value) __builtin_bswap16(value)
static long (*bpf_redirect)(__u32 ifindex, __u64 flags) = (void *)23;
static long (*bpf_fib_lookup)(void *context, struct bpf_fib_lookup *found, int size, __u32 flags) = (void *)69;

static inline __attribute__((always_inline)) long routed(void *context, __u32 from, void *data, void *end, long pass)
{
	struct ethhdr *ethernet = data;
	struct iphdr *ip = data + sizeof(*ethernet);
	struct bpf_fib_lookup found = { .family = 2, .ifindex = from };
	__u32 sum;

	if ((void *)(ip + 1) > end || ethernet->h_proto != be16(0x0800) || ip->ttl <= 1)
		return pass;
	found.l4_protocol = ip->protocol;
	found.tot_len = be16(ip->tot_len);
	found.ipv4_src = ip->saddr;
	found.ipv4_dst = ip->daddr;
	if (bpf_fib_lookup(context, &found, sizeof(found), 0))
		return pass;
	sum = ip->check + be16(0x0100);
	ip->check = sum + (sum >= 0xffff);
	ip->ttl--;
	__builtin_memcpy(ethernet->h_dest, found.dmac, 6);
	__builtin_memcpy(ethernet->h_source, found.smac, 6);
	return bpf_redirect(found.ifindex, 0);
}

SEC("xdp") int from_xdp(struct xdp_md *frame)
{
	return routed(frame, frame->ingress_ifindex, (void *)(long)frame->data, (void *)(long)frame->data_end, XDP_PASS);
}

SEC("tc") int from_tc(struct __sk_buff *frame)
{
	return routed(frame, frame->ingress_ifindex, (void *)(long)frame->data, (void *)(long)frame->data_end, -1);
}

char _license[] SEC("license") = "GPL";
