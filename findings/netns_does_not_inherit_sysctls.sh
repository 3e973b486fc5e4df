#!/bin/sh
# A new network namespace does not inherit TCP's settings from the one in which it is made.
#
# Expected: as a process inherits its environment, a namespace has the sysctls of the one that it was made in.
# Found:    it has the kernel's defaults, so a container's settings do not reach a namespace within it. And a shell that stands in
#           /proc/sys/net/ipv4 goes on reading the old namespace's, which makes it look as if they were inherited.
# Of:       Linux 6.18.44. Needs unshare and user namespaces.
# Method:   in a namespace five settings are changed; then they are read in one that is made there, by absolute and by relative names.
#
# Seen:     set to:              tcp_slow_start_after_idle 0; tcp_ecn 1; tcp_timestamps 0; tcp_notsent_lowat 4321; ip_forward 1
#           in a namespace within: tcp_slow_start_after_idle 1; tcp_ecn 2; tcp_timestamps 1; tcp_notsent_lowat 4294967295; ip_forward 0
#           the same, from the directory: as set outside
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
command -v unshare > "$dir/found" || { echo "skipped: unshare is missing"; exit 77; }
unshare -rn true 2> "$dir/why" || { echo "skipped: $(cat "$dir/why")"; exit 77; }
echo "Linux $(uname -r)"
cat > "$dir/read.sh" <<'SH'
# The settings, below the directory $1.
for name in tcp_slow_start_after_idle tcp_ecn tcp_timestamps tcp_notsent_lowat ip_forward; do
    printf '%s %s; ' "$name" "$(cat "$1$name")"
done
echo
SH
cat > "$dir/change.sh" <<'SH'
cd /proc/sys/net/ipv4
echo 0 > tcp_slow_start_after_idle
echo 1 > tcp_ecn
echo 0 > tcp_timestamps
echo 4321 > tcp_notsent_lowat
echo 1 > ip_forward
sh "$1/read.sh" "" > "$1/outside"
unshare -n sh "$1/read.sh" /proc/sys/net/ipv4/ > "$1/inside"
unshare -n sh "$1/read.sh" "" > "$1/relative"
SH
unshare -rn sh "$dir/change.sh" "$dir"
echo "set to:                $(cat "$dir/outside")"
echo "in a namespace within: $(cat "$dir/inside")"
cmp -s "$dir/outside" "$dir/relative" && echo "the same, from the directory: as set outside"
for name in tcp_slow_start_after_idle tcp_ecn tcp_timestamps tcp_notsent_lowat ip_forward; do
    set=$(grep -o "$name [0-9]*" "$dir/outside")
    if grep -q "$set;" "$dir/inside"; then
        echo "changed: $name is inherited"
        exit 1
    fi
done
cmp -s "$dir/outside" "$dir/relative" || { echo "changed"; exit 1; }
