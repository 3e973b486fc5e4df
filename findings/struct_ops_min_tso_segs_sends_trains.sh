#!/bin/sh
# A congestion control written in BPF whose min_tso_segs returns 2 sends trains of 40 to 80 packets now and then; without it, pairs.
#
# Expected: the kernel's default is 2, too (net.ipv4.tcp_min_tso_segs), so an operation that returns 2 changes nothing.
# Found:    once in a second or two, what leaves is half the window in one packet, longer than a packet may be, which is cut into
#           segments back to back. The program was not run then: its own count is one short. This kernel skips programs of BPF, also
#           in a softirq, while a thread of process 1 is current (in __bpf_prog_enter: current->tgid == 1), and the trampoline
#           returns what its stack held. A kernel without that returns 2.
# Of:       Linux 6.18.44. Needs root, ip, clang, bpftool, the kernel's BTF, and CUBIC in the kernel.
# Method:   two controls that delegate to CUBIC, one with min_tso_segs; a server paced at 1,183,000 bytes/s by SO_MAX_PACING_RATE over a
#           path of 100 ms that a program carries; five transfers each; the longest run of packets less than 0.1 ms apart, the
#           first ten, which are never paced, left out.
#
# Seen:     with_tso: at most 52, 84, 52, 26, 72 packets back to back
#           without: at most 2, 4, 2, 2, 2 packets back to back
set -eu
dir=$(mktemp -d)
id=$$
near=f-near-$id far=f-far-$id path=f-path-$id
end() {
    for name in with_tso without; do bpftool struct_ops unregister name "$name" > "$dir/end" 2>&1 || true; done
    for name in "$near" "$far" "$path"; do ip netns del "$name" 2> "$dir/end" || true; done
    rm -rf "$dir"
}
trap end EXIT
for tool in ip nsenter clang bpftool python3; do
    command -v "$tool" > "$dir/found" || { echo "skipped: $tool is missing"; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "skipped: not root"; exit 77; }
[ -r /sys/kernel/btf/vmlinux ] || { echo "skipped: the kernel has no BTF"; exit 77; }
echo "Linux $(uname -r)"
cd "$dir"
bpftool btf dump file /sys/kernel/btf/vmlinux format c > vmlinux.h
cat > control.c <<'C'
#include "vmlinux.h"
#define SEC(name) __attribute__((section(name), used))
char terms[] SEC("license") = "GPL";
extern void cubictcp_init(struct sock *sk) SEC(".ksyms");
extern u32 cubictcp_recalc_ssthresh(struct sock *sk) SEC(".ksyms");
extern void cubictcp_cong_avoid(struct sock *sk, u32 ack, u32 acked) SEC(".ksyms");
extern u32 tcp_reno_undo_cwnd(struct sock *sk) SEC(".ksyms");
SEC("struct_ops") void on_init(u64 *words) { cubictcp_init((struct sock *)words[0]); }
SEC("struct_ops") u32 on_ssthresh(u64 *words) { return cubictcp_recalc_ssthresh((struct sock *)words[0]); }
SEC("struct_ops") void on_ack(u64 *words) { cubictcp_cong_avoid((struct sock *)words[0], words[1], words[2]); }
SEC("struct_ops") u32 on_undo(u64 *words) { return tcp_reno_undo_cwnd((struct sock *)words[0]); }
#ifdef SEGMENTS
SEC("struct_ops") u32 on_segments(u64 *words) { return 2; }
#endif
SEC(".struct_ops") struct tcp_congestion_ops CONTROL = {
	.init = (void *)on_init,
	.ssthresh = (void *)on_ssthresh,
	.cong_avoid = (void *)on_ack,
	.undo_cwnd = (void *)on_undo,
#ifdef SEGMENTS
	.min_tso_segs = (void *)on_segments,
#endif
	.name = CALLED,
};
C
for name in with_tso without; do
    segments=; [ "$name" = without ] || segments=-DSEGMENTS
    clang -O2 -g -target bpf -mcpu=v3 $segments "-DCONTROL=$name" "-DCALLED=\"$name\"" -c control.c -o "$name.o"
    bpftool struct_ops register "$name.o" > why 2>&1 || { echo "skipped: $(tail -1 why)"; exit 77; }
done
for name in "$near" "$far" "$path"; do ip netns add "$name"; done
for side in near far; do
    eval host=\$$side
    ip link add "to-$side" netns "$path" type veth peer name eth netns "$host"
    ip -n "$path" link set "to-$side" up
    ip -n "$host" link set eth up
done
ip -n "$near" addr add 10.91.0.1/24 dev eth
ip -n "$far" addr add 10.91.0.2/24 dev eth
ip -n "$near" route change 10.91.0.0/24 dev eth src 10.91.0.1 initcwnd 82
cat > ends.py <<'PY'
import ctypes, fcntl, os, select, socket, struct, subprocess, sys, threading, time
from collections import deque

NEAR, FAR, PATH = sys.argv[1:]
LIBC = ctypes.CDLL(None, use_errno=True)
BYTES, RATE, DELAY = 1_448_000, 1_183_000, 0.05
runs = []


def within(host, act):
    """Acts in the network of a host; sockets stay where they were made."""
    made = []
    def enter():
        with open(f"/run/netns/{host}") as network:
            assert LIBC.setns(network.fileno(), 0x40000000) == 0
        made.append(act())
    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    return made[0]


def without_offload():
    """Packets leave whole, with their checksums: ETHTOOL_STXCSUM."""
    words = ctypes.create_string_buffer(struct.pack("II", 0x17, 0))
    request = struct.pack("16sP16x", b"eth", ctypes.addressof(words))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, 0x8946, request)


def tap(name):
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    sock.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)
    sock.setsockopt(socket.SOL_SOCKET, 35, 1)
    sock.bind((name, 0))
    return sock


def carry(near, far):
    waiting = deque()
    while True:
        ready, _, _ = select.select([near, far], [], [], max(0, waiting[0][0] - time.monotonic()) if waiting else None)
        for sock in ready:
            frame, words, _, address = sock.recvmsg(65_536, 64)
            if address[2] == 4:
                continue
            if sock is near and len(frame) > 1_000:
                seconds, nanos = struct.unpack("qq", words[0][2])
                runs.append(seconds + nanos / 1e9)
            waiting.append((time.monotonic() + DELAY, far if sock is near else near, frame))
        while waiting and waiting[0][0] <= time.monotonic():
            _, to, frame = waiting.popleft()
            to.send(frame)


def longest(control):
    runs.clear()
    served = within(NEAR, lambda: socket.create_server(("10.91.0.1", 0)))
    served.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control)
    served.setsockopt(socket.SOL_SOCKET, 47, RATE)
    client = within(FAR, lambda: socket.create_connection(served.getsockname()))
    server, _ = served.accept()
    sender = threading.Thread(target=server.sendall, args=(bytes(BYTES),))
    sender.start()
    arrived = 0
    while arrived < BYTES:
        arrived += len(client.recv(1 << 16))
    sender.join()
    longest, run, times = 1, 1, runs[10:]
    for before, after in zip(times, times[1:]):
        run = run + 1 if after - before < 0.0001 else 1
        longest = max(longest, run)
    return longest


for host in (NEAR, FAR):
    within(host, without_offload)
taps = within(PATH, lambda: [tap("to-near"), tap("to-far")])
threading.Thread(target=carry, args=taps, daemon=True).start()
found = {}
for control in (b"with_tso", b"without"):
    found[control] = [longest(control) for _ in range(5)]
    print(f"{control.decode()}: at most {', '.join(map(str, found[control]))} packets back to back", flush=True)
os._exit(0 if max(found[b"with_tso"]) >= 30 and sorted(found[b"without"])[2] <= 8 else 1)
PY
python3 ends.py "$near" "$far" "$path"
