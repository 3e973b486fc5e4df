#!/bin/sh
# SO_RCVTIMEO is kept in ticks of the kernel: 100 us become one tick or more, and read back as such.
#
# Expected: a time-out in a `struct timeval` is kept in microseconds, as that of ppoll, select or a futex is.
# Found:    it is rounded up to ticks (4 ms where CONFIG_HZ is 250), reads back rounded, and waits a tick longer.
#           Rust's `UdpSocket::set_read_timeout`, Python's and Java's blocking sockets that use the option inherit it.
# Of:       Linux 6.18.44.
#
# Seen:     asked for   100 us: reads back   4000 us; recv waits 46.7 times as long as select
#           asked for  1500 us: reads back   4000 us; recv waits 4.9 times as long as select
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
command -v python3 > "$dir/found" || { echo "skipped: python3 is missing"; exit 77; }
echo "Linux $(uname -r)"
cat > "$dir/wait.py" <<'PY'
import select
import socket
import struct
import sys
import time

receiver = socket.socket(type=socket.SOCK_DGRAM)
receiver.bind(("127.0.0.1", 0))


def by_option():
    try:
        receiver.recv(10)
    except BlockingIOError:
        pass


def median(wait):
    times = []
    for _ in range(101):
        begin = time.monotonic()
        wait()
        times.append(time.monotonic() - begin)
    return sorted(times)[50]


same = True
for asked in (100, 1500):
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, asked))
    seconds, micros = struct.unpack("ll", receiver.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, 16))
    stored = seconds * 1_000_000 + micros
    ratio = median(by_option) / median(lambda: select.select([receiver], [], [], asked / 1e6))
    print(f"asked for {asked:5} us: reads back {stored:6} us; recv waits {ratio:.1f} times as long as select")
    same &= stored >= 1000 and (asked == 1500 or stored > asked)
    same &= ratio > 2 or asked == 1500
sys.exit(0 if same else "changed")
PY
python3 "$dir/wait.py"
