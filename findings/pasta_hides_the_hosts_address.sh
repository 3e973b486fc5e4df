#!/bin/sh
# Behind pasta a server at the host's own address is out of reach under that address; behind slirp4netns it is not.
#
# Expected: a program in a network of its own reaches what listens at the host's address, as another machine does.
# Found:    pasta gives the network the host's address, so the name means the program's own network. slirp4netns gives it
#           10.0.2.100. Either leaves /etc/resolv.conf as it is; slirp4netns's own resolver at 10.0.2.3 has to be named there.
# Of:       Debian 12's passt 0.0~git20230309.7c7625d-1 and slirp4netns 1.2.0-1 (libslirp0 4.7.0-1). Needs apt-get, dpkg, unshare, ip,
#           user namespaces and a network device (/dev/net/tun).
# Method:   a host of a namespace, 192.0.2.7, with a server there; from a network behind either program a connection to it.
#
# Seen:     pasta: own address 192.0.2.7/24; 192.0.2.7: Connection refused; resolver file unchanged
#           slirp4netns: own address 10.0.2.100/24; 192.0.2.7: reached; resolver file unchanged
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for tool in apt-get dpkg unshare nsenter ip python3; do
    command -v "$tool" > "$dir/found" || { echo "skipped: $tool is missing"; exit 77; }
done
unshare -rn true 2> "$dir/why" || { echo "skipped: $(cat "$dir/why")"; exit 77; }
[ -w /dev/net/tun ] || { echo "skipped: /dev/net/tun cannot be opened"; exit 77; }
(cd "$dir" && apt-get download passt=0.0~git20230309.7c7625d-1 slirp4netns=1.2.0-1 libslirp0=4.7.0-1 > log 2>&1 &&
    for package in *.deb; do dpkg -x "$package" .; done) ||
    { echo "skipped: passt and slirp4netns cannot be downloaded: $(tail -n 1 "$dir/log")"; exit 77; }
cat > "$dir/reach.py" <<'PY'
import os
import re
import socket
import subprocess
import sys

addresses = subprocess.run(["ip", "-4", "addr"], capture_output=True, text=True, check=True).stdout
own = [address for address in re.findall(r"inet (\S+)", addresses) if not address.startswith("127.")]
try:
    with socket.create_connection(("192.0.2.7", 8001), 5) as client:
        outcome = "reached" if client.recv(10) == b"host" else "somebody else"
except OSError as error:
    outcome = os.strerror(error.errno) if error.errno else str(error)
with open("/etc/resolv.conf", "rb") as now, open(sys.argv[2], "rb") as before:
    resolver = "unchanged" if now.read() == before.read() else "changed"
print(f"{sys.argv[1]}: own address {' '.join(own)}; 192.0.2.7: {outcome}; resolver file {resolver}")
PY
cat > "$dir/host.sh" <<'SH'
set -eu
dir=$1
export LD_LIBRARY_PATH=$(echo "$dir"/usr/lib/*-linux-gnu)
cp /etc/resolv.conf "$dir/resolver"
ip link set lo up
ip link add host0 type veth peer name host1
ip addr add 192.0.2.7/24 dev host0
ip link set host0 up
ip link set host1 up
ip route add default via 192.0.2.1
python3 - <<'PY' &
import socket

listener = socket.create_server(("192.0.2.7", 8001))
listener.settimeout(30)
while True:
    client, _ = listener.accept()
    client.send(b"host")
    client.close()
PY
listener=$!
sleep 1
"$dir/usr/bin/pasta" --runas 0 --config-net --foreground --quiet -- python3 "$dir/reach.py" pasta "$dir/resolver" 2> "$dir/pasta" || true
unshare -rn sleep 30 &
network=$!
sleep 1
"$dir/usr/bin/slirp4netns" --configure "$network" tap0 > "$dir/slirp" 2>&1 &
slirp=$!
sleep 2
nsenter -t "$network" -U -n --preserve-credentials python3 "$dir/reach.py" slirp4netns "$dir/resolver" || true
kill "$listener" "$network" "$slirp"
SH
unshare -rn sh "$dir/host.sh" "$dir" > "$dir/seen" 2> "$dir/why" || true
cat "$dir/seen"
grep -q '^pasta: own' "$dir/seen" && grep -q '^slirp4netns: own' "$dir/seen" ||
    { echo "skipped: one of them does not run here: $(cat "$dir/why" "$dir/pasta" "$dir/slirp" 2> "$dir/log" | tail -n 1)"; exit 77; }
cat > "$dir/expected" <<'TEXT'
pasta: own address 192.0.2.7/24; 192.0.2.7: Connection refused; resolver file unchanged
slirp4netns: own address 10.0.2.100/24; 192.0.2.7: reached; resolver file unchanged
TEXT
cmp -s "$dir/seen" "$dir/expected" || { echo changed; exit 1; }
