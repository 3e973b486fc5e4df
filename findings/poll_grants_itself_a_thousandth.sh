#!/bin/sh
# poll, select and epoll_wait may end later by a thousandth of their time-out, however small the thread's timer slack.
#
# Expected: with PR_SET_TIMERSLACK at 1 ns all waits end as exactly as nanosleep does.
# Found:    nanosleep obeys the slack. The others take the larger one of the slack and a thousandth of the time-out, at most
#           100 ms; a nice process five thousandths.
# Of:       Linux 6.18.44. Needs root, for /proc/timer_list, which shows the interval in which the kernel may end a wait.
#
# Seen:     timer slack 1 ns, a wait of 23.456 s; the kernel may end it later by
#           nanosleep                         0.001 us
#           poll                          23455.999 us
#           select                        23455.998 us
#           epoll_wait                    23455.999 us
#           poll, nice 1                   100000.0 us
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
command -v python3 > "$dir/found" || { echo "skipped: python3 is missing"; exit 77; }
head -c 1 /proc/timer_list > "$dir/first" 2> "$dir/why" && [ -s "$dir/first" ] ||
    { echo "skipped: /proc/timer_list cannot be read"; exit 77; }
echo "Linux $(uname -r)"
cat > "$dir/wait.py" <<'PY'
import ctypes
import os
import re
import select
import sys
import time

PR_SET_TIMERSLACK = 29
WAIT = 23.456


def slacks(now_seconds_left):
    """Returns how much later than its time each pending wait may end that has so long to go, in nanoseconds."""
    with open("/proc/timer_list", encoding="ascii", errors="replace") as file:
        text = file.read()
    now = int(re.search(r"now at (\d+)", text)[1])
    found = re.findall(r"hrtimer_wakeup.*\n.*expires at (\d+)-(\d+)", text)
    return sorted(
        int(hard) - int(soft)
        for soft, hard in found
        if now_seconds_left - 0.9 < (int(soft) - now) / 1e9 < now_seconds_left
    )


def slack_of(wait, nice=0):
    """Returns the slack that the kernel gave this wait, of a process of its own."""
    before = slacks(WAIT)
    child = os.fork()
    if child == 0:
        os.nice(nice)
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
        wait()
        os._exit(0)
    time.sleep(0.4)
    after = slacks(WAIT)
    os.kill(child, 9)
    os.waitpid(child, 0)
    new = [slack for slack in after if after.count(slack) > before.count(slack)]
    return new[0] / 1000 if len(set(new)) == 1 else None


print(f"timer slack 1 ns, a wait of {WAIT} s; the kernel may end it later by")
rows = [
    ("nanosleep", lambda: time.sleep(WAIT), 0, 0.001),
    ("poll", lambda: select.poll().poll(WAIT * 1000), 0, 23456),
    ("select", lambda: select.select([], [], [], WAIT), 0, 23456),
    ("epoll_wait", lambda: select.epoll().poll(WAIT), 0, 23456),
    ("poll, nice 1", lambda: select.poll().poll(WAIT * 1000), 1, 100_000),
]
same = True
for name, wait, nice, expected in rows:
    # Another program may begin a wait of this length in the same half second: try again.
    got = next((slack for slack in (slack_of(wait, nice) for _ in range(5)) if slack is not None), None)
    print(f"{name:26} {got!s:>12} us")
    same &= got is not None and abs(got - expected) <= 1 + expected / 1000
sys.exit(0 if same else "changed")
PY
python3 "$dir/wait.py"
