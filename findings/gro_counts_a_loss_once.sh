#!/bin/sh
# When a receive buffer overflows, all datagrams that arrive joined count as one, in SO_RXQ_OVFL and in RcvbufErrors.
#
# Expected: both counters count datagrams, so a receiver may turn on UDP_GRO and compute its loss as before.
# Found:    with UDP_GRO the kernel queues, drops and counts a joined train as one. The same train to a socket without
#           UDP_GRO is taken apart first, and each datagram counts. OutDatagrams counts sends of UDP_SEGMENT, too.
#           And the same buffer holds about twice the payload in trains: it is charged for memory, not for bytes.
# Of:       Linux 6.18.44. Needs unshare, ip and user namespaces.
# Method:   over loopback, 800 datagrams of 1,200 bytes, 40 in a send (UDP_SEGMENT), to a buffer (SO_RCVBUF) of 200,000 bytes
#           that nobody reads; then what arrived, and the counters.
#
# Seen:     without UDP_GRO: 196 of 800 arrived, 604 lost; SO_RXQ_OVFL 604, RcvbufErrors 604
#           with UDP_GRO:    320 of 800 arrived, 480 lost; SO_RXQ_OVFL 12, RcvbufErrors 12
#           OutDatagrams of 800: 20
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for tool in unshare ip python3; do
    command -v "$tool" > "$dir/found" || { echo "skipped: $tool is missing"; exit 77; }
done
unshare -rn true 2> "$dir/why" || { echo "skipped: $(cat "$dir/why")"; exit 77; }
echo "Linux $(uname -r)"
cat > "$dir/lose.py" <<'PY'
import socket
import struct
import sys

UDP_SEGMENT, UDP_GRO, SO_RXQ_OVFL = 103, 104, 40
SIZE, TRAIN, TOTAL = 1200, 40, 800


def counters():
    with open("/proc/net/snmp", encoding="ascii") as file:
        names, values = [line.split()[1:] for line in file if line.startswith("Udp:")]
    return dict(zip(names, map(int, values)))


def overflow(joined):
    receiver = socket.socket(type=socket.SOCK_DGRAM)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 200_000)
    receiver.setsockopt(socket.SOL_SOCKET, SO_RXQ_OVFL, 1)
    receiver.setsockopt(socket.IPPROTO_UDP, UDP_GRO, joined)
    receiver.bind(("127.0.0.1", 0))
    sender = socket.socket(type=socket.SOCK_DGRAM)
    sender.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, SIZE)
    sender.connect(receiver.getsockname())
    before = counters()
    for _ in range(TOTAL // TRAIN):
        sender.send(bytes(SIZE * TRAIN))
    after = counters()
    arrived = 0
    receiver.setblocking(False)
    while True:
        try:
            arrived += len(receiver.recv(65536)) // SIZE
        except BlockingIOError:
            break
    sender.send(b"!")  # carries the count so far
    _, messages, _, _ = receiver.recvmsg(10, 200)
    count = next(struct.unpack("I", data)[0] for _, kind, data in messages if kind == SO_RXQ_OVFL)
    changed = {name: after[name] - before[name] for name in ("RcvbufErrors", "OutDatagrams")}
    return arrived, count, changed["RcvbufErrors"], changed["OutDatagrams"]


same = True
for joined, name in ((0, "without UDP_GRO:"), (1, "with UDP_GRO:   ")):
    arrived, count, errors, sent = overflow(joined)
    lost = TOTAL - arrived
    print(f"{name} {arrived} of {TOTAL} arrived, {lost} lost; SO_RXQ_OVFL {count}, RcvbufErrors {errors}")
    same &= lost > 0 and count == errors == (lost // TRAIN if joined else lost)
print(f"OutDatagrams of {TOTAL}: {sent}")
sys.exit(0 if same and sent == TOTAL // TRAIN else "changed")
PY
unshare -rn sh -c "ip link set lo up && python3 '$dir/lose.py'"
