#!/bin/sh
# The kernel's CUBIC sends a whole window's growth back to back; with SO_MAX_PACING_RATE at any rate, even 10 GB/s, it paces itself.
#
# Expected: TCP paces itself, because ss and TCP_INFO show a pacing rate for every connection; a cap far above the path does nothing.
# Found:    the pacing rate is computed for each connection and used for none, unless fq or the congestion control (bbr) asks for
#           it, or any cap was set. Then CUBIC, too, leaves in pairs, at the rate that it showed all the time.
# Of:       Linux 6.18.44. Needs /dev/net/tun, unshare, ip and user namespaces.
# Method:   a connection between two namespaces over two tun interfaces and a program that carries packets after 50 ms; 130 kB;
#           the longest run of packets less than 0.3 ms apart, the first ten left out, which are never paced.
#
# Seen:     cubic, no cap:        pacing rate 451685 B/s shown; up to 20 packets back to back
#           cubic, cap 10 GB/s:   pacing rate 1926176 B/s shown; up to 2 packets back to back
#           bbr, no cap:          pacing rate 995249 B/s shown; up to 2 packets back to back
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for tool in unshare ip python3; do
    command -v "$tool" > "$dir/found" || { echo "skipped: $tool is missing"; exit 77; }
done
unshare -rn true 2> "$dir/why" || { echo "skipped: $(cat "$dir/why")"; exit 77; }
[ -w /dev/net/tun ] || { echo "skipped: /dev/net/tun cannot be opened"; exit 77; }
echo "Linux $(uname -r)"
cat > "$dir/path.py" <<'PY'
import collections
import ctypes
import fcntl
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import time

LIBC = ctypes.CDLL(None, use_errno=True)
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
CLONE_NEWNET = 0x40000000
SO_MAX_PACING_RATE, TCP_CONGESTION = 47, 13
BYTES = 130_000


def tun(name, address, peer):
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    for words in (f"addr add {address} peer {peer} dev {name}", f"link set {name} mtu 1500 up"):
        subprocess.run(["ip", *words.split()], check=True)
    return fd


near = tun("near0", "10.0.0.1", "10.0.0.2")
home = os.open("/proc/self/ns/net", os.O_RDONLY)
LIBC.unshare(CLONE_NEWNET)
far = tun("far0", "10.0.0.2", "10.0.0.1")
listener = socket.create_server(("10.0.0.2", 9))
LIBC.setns(home, 0)
departures = []


def carry():
    """Carries packets both ways, each 50 ms later, and notes when the large ones left."""
    waiting = collections.deque()
    poll = select.poll()
    poll.register(near, select.POLLIN)
    poll.register(far, select.POLLIN)
    while True:
        for fd, _ in poll.poll(max(0, (waiting[0][0] - time.monotonic()) * 1000) if waiting else None):
            while True:
                try:
                    packet = os.read(fd, 2000)
                except BlockingIOError:
                    break
                now = time.monotonic()
                if fd == near and len(packet) > 1000:
                    departures.append(now)
                waiting.append((now + 0.05, far if fd == near else near, packet))
        while waiting and waiting[0][0] <= time.monotonic():
            _, fd, packet = waiting.popleft()
            os.write(fd, packet)


def longest_burst(control, cap):
    """Returns the longest run back to back, and the pacing rate that the connection shows."""
    departures.clear()
    sender = socket.socket()
    sender.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, control)
    if cap:
        sender.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, struct.pack("Q", cap))
    sender.connect(("10.0.0.2", 9))
    receiver, _ = listener.accept()
    sender.sendall(bytes(BYTES))
    arrived = 0
    while arrived < BYTES:
        arrived += len(receiver.recv(65536))
    rate = struct.unpack_from("Q", sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256), 104)[0]
    longest, run = 1, 1
    paced = departures[10:]
    for before, after in zip(paced, paced[1:]):
        run = run + 1 if after - before < 0.0003 else 1
        longest = max(longest, run)
    return longest, rate


def shown(name, control, cap):
    # The carrier may be kept from its CPU, and find packets together that left one by one: the best of three.
    longest, rate = min(longest_burst(control, cap) for _ in range(3))
    print(f"{name:21} pacing rate {rate} B/s shown; up to {longest} packets back to back")
    return longest


threading.Thread(target=carry, daemon=True).start()
with open("/proc/sys/net/ipv4/tcp_available_congestion_control", encoding="ascii") as file:
    available = file.read().split()
if "cubic" not in available:
    print("skipped: this kernel has no CUBIC")
    sys.exit(77)
free = shown("cubic, no cap:", b"cubic", 0)
capped = shown("cubic, cap 10 GB/s:", b"cubic", 10_000_000_000)
if "bbr" in available:
    shown("bbr, no cap:", b"bbr", 0)
sys.stdout.flush()
os._exit(0 if free >= 15 and capped <= free / 2 else 1)
PY
unshare -rn python3 "$dir/path.py"
