#!/bin/sh
# SO_MAX_PACING_RATE holds for TCP on an interface without the qdisc fq; for UDP there it is accepted and does nothing.
#
# Expected: the option needs fq, as the manual pages of fq and of many programs suggest, or works for both protocols.
# Found:    TCP keeps a timer of its own where no fq does the work, whatever the congestion control. UDP has none.
# Of:       Linux 6.18.44. Needs unshare, ip, tc and user namespaces.
# Method:   1.5 MB over loopback (noqueue) by TCP with CUBIC, without and with 1 MB/s; 60 datagrams of 1,200 bytes at 36 kB/s.
#           Segments of 1,400 bytes, because the first ten of a connection are never paced.
#
# Seen:     qdisc noqueue 0: root refcnt 2
#           TCP: 1.5 MB took 0.00 s without a rate, 1.49 s at 1 MB/s
#           UDP: 72 kB at 36 kB/s took 0.00 of 2.0 s; the option reads back 36000
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for tool in unshare ip tc python3; do
    command -v "$tool" > "$dir/found" || { echo "skipped: $tool is missing"; exit 77; }
done
unshare -rn true 2> "$dir/why" || { echo "skipped: $(cat "$dir/why")"; exit 77; }
echo "Linux $(uname -r)"
cat > "$dir/pace.py" <<'PY'
import socket
import sys
import threading
import time

SO_MAX_PACING_RATE = 47
TCP_CONGESTION = 13


def tcp(rate):
    """Returns how long 1.5 MB took, in seconds."""
    listener = socket.create_server(("127.0.0.1", 0))
    sender = socket.socket()
    sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1400)
    sender.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, b"cubic")
    if rate:
        sender.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, rate)
    sender.connect(listener.getsockname())
    receiver, _ = listener.accept()
    begin = time.monotonic()
    threading.Thread(target=lambda: (sender.sendall(bytes(1_500_000)), sender.close())).start()
    while receiver.recv(65536):
        pass
    return time.monotonic() - begin


def udp(rate):
    """Returns how long 60 datagrams took, in seconds, and the rate that the socket states."""
    receiver = socket.socket(type=socket.SOCK_DGRAM)
    receiver.bind(("127.0.0.1", 0))
    sender = socket.socket(type=socket.SOCK_DGRAM)
    sender.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, rate)
    begin = time.monotonic()
    for _ in range(60):
        sender.sendto(bytes(1200), receiver.getsockname())
        receiver.recv(2000)
    return time.monotonic() - begin, sender.getsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE)


free, paced = tcp(0), tcp(1_000_000)
print(f"TCP: 1.5 MB took {free:.2f} s without a rate, {paced:.2f} s at 1 MB/s")
took, stated = udp(36_000)
print(f"UDP: 72 kB at 36 kB/s took {took:.2f} of 2.0 s; the option reads back {stated}")
same = paced > 1.2 and free < paced / 2 and took < 1.0 and stated == 36_000
sys.exit(0 if same else "changed")
PY
unshare -rn sh -c "ip link set lo up && tc qdisc show dev lo && python3 '$dir/pace.py'"
