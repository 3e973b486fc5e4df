#!/bin/sh
# A receive queue that goes and comes (receive offload off and on) has lost two of the three settings that netlink's napi-set
# gave it, and kept the third.
#
# Expected: settings of a queue (NAPI) last as long as the interface, or end with the queue; all of them.
# Found:    of a veth's queue defer-hard-irqs and gro-flush-timeout are back at the interface's values, while
#           irq-suspend-timeout has the value of before, under another number of the queue.
# Of:       Linux 6.18.44. Needs root, ip and ethtool; python3 for netlink.
#
# Seen:     set: defer-hard-irqs 1, gro-flush-timeout 20000, irq-suspend-timeout 30000
#           off and on: defer-hard-irqs 0, gro-flush-timeout 0, irq-suspend-timeout 30000
set -eu
for program in ip ethtool python3; do
    command -v "$program" > /dev/null || { echo "skipped: $program is missing"; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "skipped: needs root"; exit 77; }
dir=$(mktemp -d)
net=queue-$$
trap 'ip netns del "$net" 2> "$dir/out" || :; rm -rf "$dir"' EXIT
echo "Linux $(uname -r)"
ip netns add "$net" || { echo "skipped: no network namespaces"; exit 77; }
ip -n "$net" link add v0 type veth peer name v1
ip -n "$net" link set v0 up
ip -n "$net" link set v1 up
ip netns exec "$net" ethtool -K v1 gro on
cat > "$dir/set.py" <<'PY'
import os
import socket
import struct
import subprocess
import sys

IFINDEX, ID, DEFER, FLUSH, SUSPEND = 1, 2, 5, 6, 7
GET, SET = 11, 14
netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16)


def attribute(kind, data):
    data = struct.pack("HH", 4 + len(data), kind) + data
    return data + b"\0" * (-len(data) % 4)


def ask(family, flags, command, attributes):
    body = struct.pack("BBH", command, 1, 0) + attributes
    netlink.send(struct.pack("IHHII", 16 + len(body), family, flags | 1, 1, 0) + body)
    answers = []
    while True:
        data = netlink.recv(1 << 16)
        while data:
            length, kind = struct.unpack_from("IH", data)
            if kind == 2 and (error := -struct.unpack_from("i", data, 16)[0]):
                raise OSError(error, os.strerror(error))
            if kind in (2, 3):
                return answers
            answer, rest = {}, data[20:length]
            while rest:
                size, name = struct.unpack_from("HH", rest)
                answer[name] = int.from_bytes(rest[4:size], sys.byteorder) if size <= 12 else None
                rest = rest[(size + 3) & ~3:]
            answers.append(answer)
            data = data[(length + 3) & ~3:]


try:
    found = ask(16, 4, 3, attribute(2, b"netdev\0"))[0]
    family = found[1]
except OSError as error:
    print(f"skipped: the kernel has no netlink family netdev: {error}")
    sys.exit(77)


def settings(label):
    queue = ask(family, 0x300, GET, b"")[0]
    print(f"{label}: defer-hard-irqs {queue[DEFER]}, gro-flush-timeout {queue[FLUSH]}, irq-suspend-timeout {queue[SUSPEND]}")
    return queue[ID], (queue[DEFER], queue[FLUSH], queue[SUSPEND])


number, _ = settings("before")
values = attribute(ID, struct.pack("I", number))
for kind, value in ((DEFER, 1), (FLUSH, 20000), (SUSPEND, 30000)):
    values += attribute(kind, struct.pack("I", value))
try:
    ask(family, 4, SET, values)
except OSError as error:
    print(f"skipped: napi-set: {error}")
    sys.exit(77)
_, given = settings("set")
for state in ("off", "on"):
    subprocess.run(["ethtool", "-K", "v1", "gro", state], check=True)
again, kept = settings("off and on")
sys.exit(0 if given == (1, 20000, 30000) and kept == (0, 0, 30000) and again != number else "changed")
PY
ip netns exec "$net" python3 "$dir/set.py"
