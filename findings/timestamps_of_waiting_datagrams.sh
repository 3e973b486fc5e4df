#!/bin/sh
# A datagram that waits when SO_TIMESTAMPNS is set is stamped with the time at which it is read.
#
# Expected: the stamp is the time of arrival; a datagram that came before the option has none, or that one.
# Found:    the kernel stamps packets on arrival only while somebody on the machine wants stamps. One without a stamp is
#           stamped as it is read, and nothing tells the two apart. So it depends on other programs, too.
# Of:       Linux 6.18.44. Skipped while another program (a capture, a time daemon) has stamps on.
# Method:   over loopback, a datagram that waits for 300 ms before the option is set, and one that waits after.
#
# Seen:     option set while it waits: stamped 100% of its wait after it was sent
#           option set before:         stamped 0% of its wait after it was sent
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
command -v python3 > "$dir/found" || { echo "skipped: python3 is missing"; exit 77; }
echo "Linux $(uname -r)"
cat > "$dir/stamp.py" <<'PY'
import socket
import struct
import sys
import time

SO_TIMESTAMPNS = 35
WAIT = 0.3
receiver = socket.socket(type=socket.SOCK_DGRAM)
receiver.bind(("127.0.0.1", 0))
sender = socket.socket(type=socket.SOCK_DGRAM)


def share(between):
    """Sends a datagram, lets it wait, and returns when it was stamped, in percent of its wait."""
    sent = time.time_ns()
    sender.sendto(b"x", receiver.getsockname())
    time.sleep(WAIT)
    between()
    _, messages, _, _ = receiver.recvmsg(10, 200)
    read = time.time_ns()
    seconds, nanos = struct.unpack("qq", messages[0][2])
    return 100 * (seconds * 1_000_000_000 + nanos - sent) / (read - sent)


late = share(lambda: receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1))
time.sleep(WAIT)  # the kernel turns stamps on a little later
on_time = share(lambda: None)
print(f"option set while it waits: stamped {late:.0f}% of its wait after it was sent")
print(f"option set before:         stamped {on_time:.0f}% of its wait after it was sent")
if late < 50 and on_time < 50:
    print("skipped: another program has time stamps on, or this kernel always stamps")
    sys.exit(77)
sys.exit(0 if late > 90 and on_time < 20 else "changed")
PY
python3 "$dir/stamp.py"
