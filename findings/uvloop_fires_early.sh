#!/bin/sh
# uvloop's timers fire early: delays are rounded to the nearest millisecond, those below half a millisecond to nothing.
#
# Expected: a sleep takes at least as long as was asked for, as asyncio's own loop promises and keeps.
# Found:    400 us take no time at all, and 1.4 ms take 1 ms. A program that paces by such sleeps sends as fast as it can.
# Of:       uvloop 0.21.0.
#
# Seen:     uvloop 0.21.0 on Python 3.11.7
#           asyncio, 400 us: 0 of 100 early;  1400 us: 0 of 100 early
#           uvloop,  400 us: 100 of 100 early; 1400 us: 92 of 100 early
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
command -v python3 > "$dir/found" || { echo "skipped: python3 is missing"; exit 77; }
python3 -m venv "$dir/env" > "$dir/log" 2>&1 && "$dir/env/bin/pip" install --quiet uvloop==0.21.0 >> "$dir/log" 2>&1 ||
    { echo "skipped: uvloop 0.21.0 cannot be installed: $(tail -n 1 "$dir/log")"; exit 77; }
cat > "$dir/sleep.py" <<'PY'
import asyncio
import platform
import sys
import time

import uvloop


async def early(micros):
    count = 0
    for _ in range(100):
        begin = time.perf_counter_ns()
        await asyncio.sleep(micros / 1e6)
        count += time.perf_counter_ns() - begin < micros * 1000
    return count


print(f"uvloop {uvloop.__version__} on Python {platform.python_version()}")
found = {}
for name, run in (("asyncio", asyncio.run), ("uvloop", uvloop.run)):
    found[name] = [run(early(micros)) for micros in (400, 1400)]
    print(f"{name + ',':8} 400 us: {found[name][0]} of 100 early; 1400 us: {found[name][1]} of 100 early")
sys.exit(0 if found["asyncio"] == [0, 0] and found["uvloop"][0] > 90 and found["uvloop"][1] > 30 else "changed")
PY
"$dir/env/bin/python" "$dir/sleep.py"
