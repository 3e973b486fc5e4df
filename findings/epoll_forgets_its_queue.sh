#!/bin/sh
# An epoll set that polls its receive queue (EPIOCSPARAMS, Linux 6.9) forgets the queue in a wait that finds nothing, and
# in none of the waits after it polls again until a packet has come by an interrupt.
#
# Expected: a set that polls goes on to poll at each wait.
# Found:    after an empty wait the next ones sleep, though a packet is in the queue, until the interrupt that was
#           deferred comes. Where interrupts are deferred for long, one empty wait makes the program deaf for as long.
# Of:       Linux 6.18.44. Needs root, ip and ethtool; python3 for the system calls.
#
# Seen:     a wait that polls finds the packet
#           after an empty wait another one of 50 ms finds nothing, with a packet in the queue
#           the deferred interrupt brings it
set -eu
for program in ip ethtool python3; do
    command -v "$program" > /dev/null || { echo "skipped: $program is missing"; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "skipped: needs root"; exit 77; }
dir=$(mktemp -d)
near=near-$$ far=far-$$
trap 'ip netns del "$near" 2> "$dir/out" || :; ip netns del "$far" 2> "$dir/out" || :; rm -rf "$dir"' EXIT
echo "Linux $(uname -r)"
ip netns add "$near" && ip netns add "$far" || { echo "skipped: no network namespaces"; exit 77; }
ip -n "$far" link add v0 type veth peer name v1 netns "$near"
ip -n "$far" addr add 10.9.9.1/24 dev v0
ip -n "$near" addr add 10.9.9.2/24 dev v1
ip -n "$far" link set v0 up
ip -n "$near" link set v1 up
ip netns exec "$near" ethtool -K v1 gro on
ip netns exec "$far" ethtool -K v0 tso off
cat > "$dir/wait.py" <<'PY'
import ctypes
import fcntl
import os
import select
import socket
import struct
import sys
import time

near, far = sys.argv[1:]


def enter(name):
    with open("/run/netns/" + name) as space:
        assert ctypes.CDLL(None).setns(space.fileno(), 0x40000000) == 0, name


enter(far)
sender = socket.socket(type=socket.SOCK_DGRAM)
sender.connect(("10.9.9.2", 7777))
enter(near)
receiver = socket.socket(type=socket.SOCK_DGRAM)
receiver.bind(("10.9.9.2", 7777))
waits = select.epoll()
try:
    # Polls for up to 20 µs, 64 packets at most, and prefers that to interrupts.
    fcntl.ioctl(waits.fileno(), 0x40088A01, struct.pack("IHBB", 20, 64, 1, 0))
except OSError as error:
    print(f"skipped: the kernel has no EPIOCSPARAMS: {error}")
    sys.exit(77)
waits.register(receiver, select.EPOLLIN)


def sent_and_found(milliseconds):
    sender.send(b"x")
    return found(milliseconds)


def found(milliseconds):
    if not waits.poll(milliseconds / 1000):
        return False
    receiver.recv(9)
    return True


assert sent_and_found(1000), "no packet by an interrupt"
os.system("mount -t sysfs sysfs /sys && cd /sys/class/net/v1 && echo 1 > napi_defer_hard_irqs && echo 1000000000 > gro_flush_timeout")
assert sent_and_found(3000), "no packet by the first deferred interrupt"
polled = sent_and_found(50)
print("a wait that polls", "finds the packet" if polled else "does not find the packet")
found(50)
forgotten = not sent_and_found(50)
print("after an empty wait another one of 50 ms finds", "nothing, with a packet in the queue" if forgotten else "the packet")
late = found(3000)
print("the deferred interrupt", "brings it" if late else "does not come")
sys.exit(0 if polled and forgotten and late else "changed")
PY
unshare -m python3 "$dir/wait.py" "$near" "$far"
