#!/bin/sh
# asyncio waits in whole milliseconds, except over the oldest of its selectors.
#
# Expected: asyncio.sleep(0.0001) takes some 160 us on Linux, by whatever selector; select(2) is the slow choice.
# Found:    over epoll, the default, and poll the time-out is rounded up to milliseconds. SelectSelector passes microseconds.
# Of:       Python 3.11.7 (the standard library), Linux 6.18.44.
# Method:   200 sleeps of 100 us with each selector; the median, in sleeps of the select one.
#
# Seen:     SelectSelector 1.0, PollSelector 6.1, EpollSelector 6.1
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
command -v python3 > "$dir/found" || { echo "skipped: python3 is missing"; exit 77; }
python3 -VV
cat > "$dir/sleep.py" <<'PY'
import asyncio
import selectors
import sys
import time


async def median():
    times = []
    for _ in range(200):
        begin = time.perf_counter()
        await asyncio.sleep(0.0001)
        times.append(time.perf_counter() - begin)
    return sorted(times)[100]


def by(selector):
    loop = asyncio.SelectorEventLoop(selector())
    try:
        return loop.run_until_complete(median())
    finally:
        loop.close()


kinds = (selectors.SelectSelector, selectors.PollSelector, selectors.EpollSelector)
medians = [by(kind) for kind in kinds]
ratios = [time / medians[0] for time in medians]
print(", ".join(f"{kind.__name__} {ratio:.1f}" for kind, ratio in zip(kinds, ratios)))
sys.exit(0 if min(ratios[1:]) > 2 and min(medians[1:]) > 0.001 else "changed")
PY
python3 "$dir/sleep.py"
