#!/bin/sh
# A poll of a receive queue costs more than twice as much where gro-flush-timeout is shorter than a tick of the kernel.
#
# Expected: how long interrupts stay deferred after a poll does not change what the poll costs.
# Found:    each poll sets the queue's timer anew. One that comes before the next tick is programmed into the CPU's timer,
#           which leaves a virtual machine; a later one only moves in a tree.
# Of:       Linux 6.18.44 with 250 ticks a second, in a virtual machine. Compares times: medians of 100 pairs. Needs root, ip
#           and ethtool; python3, whose own share of each poll is about a microsecond.
#
# Seen:     1 ms: 3705 ns a poll
#           20 ms: 1203 ns a poll
#           ratio: 3.04
set -eu
for program in ip ethtool python3; do
    command -v "$program" > /dev/null || { echo "skipped: $program is missing"; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "skipped: needs root"; exit 77; }
dir=$(mktemp -d)
net=flush-$$
trap 'for end in a b; do ip netns del "$net$end" 2> "$dir/out" || :; done; rm -rf "$dir"' EXIT
echo "Linux $(uname -r)"
for end in a b; do
    ip netns add "$net$end" || { echo "skipped: no network namespaces"; exit 77; }
done
ip link add v0 netns "${net}a" type veth peer name v1 netns "${net}b"
for end in "a v0 1" "b v1 2"; do
    set -- $end
    ip -n "$net$1" addr add "10.99.0.$3/24" dev "$2"
    ip -n "$net$1" link set "$2" up
done
ip netns exec "${net}a" ethtool -K v0 tso off > "$dir/out"
ip netns exec "${net}b" ethtool -K v1 gro on
cat > "$dir/poll.py" <<'PY'
import socket
import statistics
import subprocess
import sys
import time

SO_BUSY_POLL, SO_INCOMING_NAPI_ID, SO_PREFER_BUSY_POLL = 46, 56, 69
sock = socket.socket(type=socket.SOCK_DGRAM)
sock.bind(("10.99.0.2", 9))
subprocess.run(["ip", "netns", "exec", sys.argv[1], "python3", "-c",
                "import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('10.99.0.2', 9))"], check=True)
sock.recv(9)
if sock.getsockopt(socket.SOL_SOCKET, SO_INCOMING_NAPI_ID) == 0:
    print("skipped: no queue that can be polled")
    sys.exit(77)
sock.setsockopt(socket.SOL_SOCKET, SO_PREFER_BUSY_POLL, 1)
sock.setsockopt(socket.SOL_SOCKET, SO_BUSY_POLL, 1)
sock.setblocking(False)


def put(name, value):
    with open(f"/sys/class/net/v1/{name}", "w") as file:
        file.write(str(value))


def poll_costs(flush):
    put("gro_flush_timeout", flush)
    began = time.perf_counter_ns()
    for _ in range(2_000):
        try:
            sock.recv(9)
        except BlockingIOError:
            pass
    return (time.perf_counter_ns() - began) / 2_000


put("napi_defer_hard_irqs", 1)
rounds = [(poll_costs(1_000_000), poll_costs(20_000_000)) for _ in range(100)]
for time_out, costs in zip(("1 ms", "20 ms"), zip(*rounds)):
    print(f"{time_out}: {statistics.median(costs):.0f} ns a poll")
ratio = statistics.median(short / long for short, long in rounds)
print(f"ratio: {ratio:.2f}")
sys.exit(0 if ratio > 1.2 else "changed")
PY
ip netns exec "${net}b" python3 "$dir/poll.py" "${net}a"
