#!/bin/sh
# The CPU quota of a cgroup does not hold a kernel thread in it: the thread is charged and counted as throttled, and runs on.
#
# Expected: a kernel thread that was moved into a cgroup (a NAPI thread can be) gets no more than the group's quota.
# Found:    its CPU time is charged there, but a quota of 20% leaves it what it had: since
#           Linux 6.18 a thread is stopped when it returns to user space, which a kernel thread never does.
#           SCHED_DEADLINE, a nice value and SCHED_IDLE do hold it. In the source: task_throttle_setup_work (fair.c) leaves
#           kernel threads out. Loopback has such a thread only with thread_backlog_napi on the kernel's command line.
# Of:       Linux 6.18.44. Needs root, ip, ethtool, taskset and chrt; python3 as the sender.
#
# Seen:     without a quota: 62 hundredths of a CPU
#           with a quota of 20%: 62 hundredths, throttled 20 times
#           with SCHED_DEADLINE of 20%: 20 hundredths
set -eu
for program in ip ethtool taskset chrt python3; do
    command -v "$program" > /dev/null || { echo "skipped: $program is missing"; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "skipped: needs root"; exit 77; }
[ "$(nproc)" -ge 2 ] || { echo "skipped: needs two CPUs"; exit 77; }
dir=$(mktemp -d)
near=near-$$ far=far-$$ cable=v$$
if [ -d /sys/fs/cgroup/cpu ]; then
    group=/sys/fs/cgroup/cpu/quota-$$ root=/sys/fs/cgroup/cpu
else
    group=/sys/fs/cgroup/quota-$$ root=/sys/fs/cgroup
    grep -qw cpu $root/cgroup.subtree_control || { echo "skipped: the cpu controller is not enabled"; exit 77; }
fi
children=
trap 'for child in $children; do kill "$child" 2> "$dir/out" || :; done; ip netns del "$near" 2> "$dir/out" || :
    ip netns del "$far" 2> "$dir/out" || :; sleep 0.2; rmdir "$group" 2> "$dir/out" || :; rm -rf "$dir"' EXIT
echo "Linux $(uname -r)"
mkdir "$group" || { echo "skipped: no cgroup can be made"; exit 77; }
ip netns add "$near" && ip netns add "$far" || { echo "skipped: no network namespaces"; exit 77; }
ip -n "$far" link add v0 type veth peer name "$cable" netns "$near"
ip -n "$far" addr add 10.9.9.1/24 dev v0
ip -n "$near" addr add 10.9.9.2/24 dev "$cable"
ip -n "$far" link set v0 up
ip -n "$near" link set "$cable" up
ip netns exec "$near" ethtool -K "$cable" gro on
ip netns exec "$far" ethtool -K v0 tso off
ip netns exec "$near" sh -c "echo 1 > /sys/class/net/$cable/threaded"
thread=
for stat in /proc/[0-9]*/comm; do
    case $(cat "$stat" 2> "$dir/out") in "napi/$cable"*) thread=$(basename "$(dirname "$stat")") ;; esac
done
[ -n "$thread" ] || { echo "skipped: no NAPI thread"; exit 77; }
taskset -pc 0 "$thread" > "$dir/out"
cat > "$dir/flood.py" <<'PY'
import socket

sender = socket.socket(type=socket.SOCK_DGRAM)
sender.connect(("10.9.9.2", 7777))
while True:
    try:
        sender.send(b"flood")
    except OSError:
        pass
PY
ip netns exec "$near" python3 -c 'import socket, time
receiver = socket.socket(type=socket.SOCK_DGRAM)
receiver.bind(("10.9.9.2", 7777))
time.sleep(60)' &
children="$children $!"
taskset -c 0 python3 -c 'while True: pass' &
children="$children $!"
taskset -c 1 ip netns exec "$far" python3 "$dir/flood.py" &
children="$children $!"
sleep 0.5
# Hundredths of a CPU that the thread has in two seconds.
share() {
    begin=$(cut -d' ' -f1 "/proc/$thread/schedstat")
    sleep 2
    echo $((($(cut -d' ' -f1 "/proc/$thread/schedstat") - begin) / 20000000))
}
free=$(share)
echo "without a quota: $free hundredths of a CPU"
[ "$free" -gt 40 ] || { echo "skipped: the machine is too busy to flood it"; exit 77; }
if [ -e "$group/cpu.cfs_quota_us" ]; then
    echo 20000 > "$group/cpu.cfs_quota_us"
else
    echo "20000 100000" > "$group/cpu.max"
fi
echo "$thread" > "$group/cgroup.procs" || { echo "skipped: the thread cannot be moved"; exit 77; }
quota=$(share)
echo "with a quota of 20%: $quota hundredths, throttled $(grep nr_throttled "$group/cpu.stat" | cut -d' ' -f2) times"
echo "$thread" > "$root/cgroup.procs"
# A thread of this class is not bound to a CPU.
taskset -pc 0-1 "$thread" > "$dir/out"
chrt -d -T 20000000 -D 100000000 -P 100000000 -p 0 "$thread"
deadline=$(share)
chrt -o -p 0 "$thread"
echo "with SCHED_DEADLINE of 20%: $deadline hundredths"
[ "$quota" -gt 30 ] && [ "$deadline" -le 22 ]
