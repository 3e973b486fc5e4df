#!/bin/sh
# Any process may set SO_BUSY_POLL, while SO_PREFER_BUSY_POLL and SO_BUSY_POLL_BUDGET need CAP_NET_ADMIN.
#
# Expected: raising SO_BUSY_POLL needs CAP_NET_ADMIN, as socket(7) says; its companions the same or less.
# Found:    the right is needed only for the companions. The budget needs it also for the kernel's own default of 8.
# Of:       Linux 6.18.44. net.core.busy_read is 0. Runs as it is without root; as root it drops the right first.
#
# Seen:     SO_BUSY_POLL 1000: set
#           SO_PREFER_BUSY_POLL 1: Operation not permitted
#           SO_BUSY_POLL_BUDGET 8: Operation not permitted
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
command -v python3 > "$dir/found" || { echo "skipped: python3 is missing"; exit 77; }
echo "Linux $(uname -r)"
cat > "$dir/set.py" <<'PY'
import os
import socket
import sys

SO_BUSY_POLL, SO_PREFER_BUSY_POLL, SO_BUSY_POLL_BUDGET = 46, 69, 70
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)  # drops all capabilities
sock = socket.socket(type=socket.SOCK_DGRAM)
outcomes = []
for name, value in (("SO_BUSY_POLL", 1000), ("SO_PREFER_BUSY_POLL", 1), ("SO_BUSY_POLL_BUDGET", 8)):
    try:
        sock.setsockopt(socket.SOL_SOCKET, globals()[name], value)
        outcome = "set"
    except OSError as error:
        outcome = os.strerror(error.errno)
    if outcome == "Protocol not available":
        print(f"skipped: the kernel has no {name}")
        sys.exit(77)
    print(f"{name} {value}: {outcome}")
    outcomes.append(outcome)
refused = "Operation not permitted"
sys.exit(0 if outcomes == ["set", refused, refused] else "changed")
PY
python3 - < "$dir/set.py"
