#!/bin/sh
# A datagram with a departure time (SO_TXTIME) leaves at once where no qdisc keeps it, and nothing says so.
#
# Expected: the option is refused where it cannot be kept, or the error queue tells, as SOF_TXTIME_REPORT_ERRORS asks for.
# Found:    socket, message and error queue all report success.
# Of:       Linux 6.18.44. Needs unshare, ip, tc and user namespaces.
# Method:   over loopback (noqueue) one datagram that is to leave after a second.
#
# Seen:     qdisc noqueue 0: root refcnt 2
#           asked to leave after 1.0 s, arrived after 0.00 s; error queue: empty
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for tool in unshare ip tc python3; do
    command -v "$tool" > "$dir/found" || { echo "skipped: $tool is missing"; exit 77; }
done
unshare -rn true 2> "$dir/why" || { echo "skipped: $(cat "$dir/why")"; exit 77; }
echo "Linux $(uname -r)"
cat > "$dir/later.py" <<'PY'
import socket
import struct
import sys
import time

SO_TXTIME = SCM_TXTIME = 61
REPORT_ERRORS = 2
receiver = socket.socket(type=socket.SOCK_DGRAM)
receiver.bind(("127.0.0.1", 0))
receiver.settimeout(10)
sender = socket.socket(type=socket.SOCK_DGRAM)
sender.setsockopt(socket.SOL_SOCKET, SO_TXTIME, struct.pack("iI", time.CLOCK_MONOTONIC, REPORT_ERRORS))
begin = time.monotonic_ns()
departure = struct.pack("Q", begin + 1_000_000_000)
sender.sendmsg([b"x"], [(socket.SOL_SOCKET, SCM_TXTIME, departure)], 0, receiver.getsockname())
receiver.recv(10)
took = (time.monotonic_ns() - begin) / 1e9
try:
    told = sender.recvmsg(100, 500, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)
except BlockingIOError:
    told = "empty"
print(f"asked to leave after 1.0 s, arrived after {took:.2f} s; error queue: {told}")
sys.exit(0 if took < 0.5 and told == "empty" else "changed")
PY
unshare -rn sh -c "ip link set lo up && tc qdisc show dev lo && python3 '$dir/later.py'"
