#!/bin/sh
# In a network namespace, root may choose a restricted congestion control for a socket, and not as the namespace's default.
#
# Expected: who may set TCP_CONGESTION on every socket of a namespace may write its sysctl tcp_congestion_control, too.
# Found:    the sysctl answers EPERM for each algorithm that is not in tcp_allowed_congestion_control; that list is read-only there.
#           A route's congctl chooses it for all connections of the route instead.
# Of:       Linux 6.18.44. Needs unshare, ip, user namespaces, and an algorithm that is available and not allowed to everyone.
#
# Seen:     available: reno bbr cubic; allowed to everyone: reno bbr
#           socket: cubic
#           default: Operation not permitted; it stays bbr
#           route:  a connection uses cubic
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for tool in unshare ip python3; do
    command -v "$tool" > "$dir/found" || { echo "skipped: $tool is missing"; exit 77; }
done
unshare -rn true 2> "$dir/why" || { echo "skipped: $(cat "$dir/why")"; exit 77; }
echo "Linux $(uname -r)"
cat > "$dir/choose.py" <<'PY'
import os
import socket
import subprocess
import sys

TCP_CONGESTION = 13


def listed(name):
    with open(f"/proc/sys/net/ipv4/{name}", encoding="ascii") as file:
        return file.read().split()


available, allowed = listed("tcp_available_congestion_control"), listed("tcp_allowed_congestion_control")
print(f"available: {' '.join(available)}; allowed to everyone: {' '.join(allowed)}")
restricted = [name for name in available if name not in allowed]
if not restricted:
    print("skipped: every algorithm is allowed to everyone")
    sys.exit(77)
name = restricted[0]


def used(sock):
    return sock.getsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, 16).rstrip(b"\0").decode()


chosen = socket.socket()
chosen.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, name.encode())
print(f"socket: {used(chosen)}")
try:
    with open("/proc/sys/net/ipv4/tcp_congestion_control", "w", encoding="ascii") as file:
        file.write(name)
    refused = None
except PermissionError as error:
    refused = os.strerror(error.errno)
default = listed("tcp_congestion_control")[0]
print(f"default: {refused}; it stays {default}")
subprocess.run(f"ip route replace local 127.0.0.2 dev lo table local congctl {name}", shell=True, check=True)
listener = socket.create_server(("127.0.0.2", 0))
routed = socket.create_connection(listener.getsockname())
print(f"route:  a connection uses {used(routed)}")
sys.exit(0 if refused and used(chosen) == used(routed) == name != default else "changed")
PY
unshare -rn sh -c "ip link set lo up && python3 '$dir/choose.py'"
