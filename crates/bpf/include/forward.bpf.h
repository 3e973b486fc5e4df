/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * What forward.bpf.c needs of the kernel beside kernel.bpf.h: a packet's context as programs see it, and the helpers that
 * read and change one (include/uapi/linux/bpf.h).
 */
#ifndef SOFTTIMERS_FORWARD_BPF_H
#define SOFTTIMERS_FORWARD_BPF_H

#include "kernel.bpf.h"

enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_PERCPU_ARRAY = 6 };

struct __sk_buff {
	u32 len;
	u32 pkt_type;
	u32 mark;
	u32 queue_mapping;
	u32 protocol;
	u32 vlan_present;
	u32 vlan_tci;
	u32 vlan_proto;
	u32 priority;
	u32 ingress_ifindex;
	u32 ifindex;
	u32 tc_index;
	u32 cb[5];
	u32 hash;
	u32 tc_classid;
	u32 data;
	u32 data_end;
	u32 napi_id;
	u32 family;
	u32 remote_ip4;
	u32 local_ip4;
	u32 remote_ip6[4];
	u32 local_ip6[4];
	u32 remote_port;
	u32 local_port;
	u32 data_meta;
	u64 flow_keys;
	u64 tstamp;
	u32 wire_len;
	u32 gso_segs;
	u64 sk;
	u32 gso_size;
};

struct xdp_md {
	u32 data;
	u32 data_end;
	u32 data_meta;
	u32 ingress_ifindex;
	u32 rx_queue_index;
	u32 egress_ifindex;
};

static long (*bpf_skb_store_bytes)(struct __sk_buff *skb, u32 offset, const void *from, u32 len,
				   u64 flags) = (void *)9;
static long (*bpf_redirect)(u32 ifindex, u64 flags) = (void *)23;
static long (*bpf_skb_load_bytes)(const void *skb, u32 offset, void *to, u32 len) = (void *)26;
static long (*bpf_skb_pull_data)(struct __sk_buff *skb, u32 len) = (void *)39;
static long (*bpf_loop)(u32 iterations, void *callback, void *context, u64 flags) = (void *)181;
static u64 (*bpf_xdp_get_buff_len)(struct xdp_md *xdp) = (void *)188;
static long (*bpf_xdp_load_bytes)(struct xdp_md *xdp, u32 offset, void *to, u32 len) = (void *)189;

#define BPF_F_RECOMPUTE_CSUM 1
#define PACKET_HOST 0
#define XDP_DROP 1
#define XDP_PASS 2
#define TCX_NEXT -1
#define TCX_DROP 2
#define be16(value) __builtin_bswap16(value)

#endif
