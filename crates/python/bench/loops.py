"""Times event loops of asyncio: how late timers are, what a callback costs, and how fast an echo server is.

    python bench/loops.py [--json FILE] [--seconds 2] [--rounds 3] [--loops NAME,...] [--quick]

Loops: ``softtimers``; ``default``; ``select``, asyncio's over select(2), with the thread's timer slack at 1 ns; ``uvloop``
where it is installed. Each loop runs in a process of its own, in turn, and each figure is the median of the rounds; a
ratio is that of one round.

- *late*: a timer that is set again each time it runs. With others: beside 1,000 more of the same length, of which each
  is set again once in 100 ms after the last one, so 10,000 a second run.
- *CPU per callback*: of a timer of 100 us and one of 1 ms, and of 1,000 timers of 100 ms; the loop does nothing else.
- *echo*: 64 bytes there and back over TCP, by a client that is another process: it sends on each of its connections, 1
  or 16, and then waits for all answers. The rate is that of the median time. The servers of a round run at once, and the
  client asks them in turn, in random order. All share one CPU: across two, the kernel's placement of a server makes a
  factor of two.
"""

import argparse
import asyncio
import ctypes
import json
import math
import os
import random
import selectors
import socket
import statistics
import subprocess
import sys
import time

import results

LOOPS = ["softtimers", "default", "select", "uvloop"]
MEASUREMENTS = [
    ("timer", 100e-6, 0),
    ("timer", 1e-3, 0),
    ("timer", 100e-6, 1000),
    ("timer", 1e-3, 1000),
    ("many", 0.1, 1000),
    ("echo", 0, 1),
    ("echo", 0, 16),
]
PR_SET_TIMERSLACK = 29
RATE = "round_trips_per_second"


def new_loop(name):
    if name == "softtimers":
        import softtimers.asyncio

        return softtimers.asyncio.EventLoop()
    if name == "uvloop":
        import uvloop

        return uvloop.new_event_loop()
    if name == "select":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
        return asyncio.SelectorEventLoop(selectors.SelectSelector())
    return asyncio.SelectorEventLoop()


def background(loop, count, interval=0.1):
    """``count`` timers that are set again each time."""

    def again():
        loop.call_later(interval, again)

    for _ in range(count):
        loop.call_later(random.uniform(0, interval), again)


def timer(loop, length, others, seconds):
    late, clock = [], time.monotonic

    def again(due):
        now = clock()
        late.append(now - due)
        # By the clock: uvloop's own counts milliseconds.
        loop.call_later(length, again, clock() + length)

    background(loop, others)
    loop.call_later(length, again, clock() + length)
    loop.call_later(seconds, loop.stop)
    cpu = time.process_time()
    loop.run_forever()
    cpu = time.process_time() - cpu
    late.sort()
    result = {
        "late_p50_us": 1e6 * statistics.median(late),
        "late_p99_us": 1e6 * late[math.ceil(0.99 * len(late)) - 1],
        "callbacks": len(late),
    }
    if not others:
        result["cpu_per_callback_us"] = 1e6 * cpu / len(late)
    return result


def many(loop, length, count, seconds):
    calls = 0

    def again():
        nonlocal calls
        calls += 1
        loop.call_later(length, again)

    for _ in range(count):
        loop.call_later(random.uniform(0, length), again)
    loop.call_later(seconds, loop.stop)
    cpu = time.process_time()
    loop.run_forever()
    cpu = time.process_time() - cpu
    return {"callbacks": calls, "cpu_per_callback_us": 1e6 * cpu / calls}


CLIENT = """
import random, socket, statistics, sys, time
seconds, connections, ports = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
servers = [[socket.create_connection(("127.0.0.1", port)) for _ in range(connections)] for port in ports]
for peers in servers:
    for peer in peers:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
message, took = b"x" * 64, [[] for _ in ports]
turns, end = list(zip(servers, took)), time.monotonic() + seconds * len(ports)
while time.monotonic() < end:
    random.shuffle(turns)
    for peers, times in turns:
        begin = time.perf_counter_ns()
        for peer in peers:
            peer.sendall(message)
        for peer in peers:
            left = len(message)
            while left:
                left -= len(peer.recv(left))
        times.append(time.perf_counter_ns() - begin)
print(*(1e9 * connections / statistics.median(times) for times in took))
"""


class Echo(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data):
        self.transport.write(data)


def serve(loop):
    """Echoes until the standard input ends."""

    async def main():
        ended = loop.create_future()
        loop.add_reader(sys.stdin, lambda: ended.done() or ended.set_result(None))
        server = await loop.create_server(Echo, "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        await ended
        loop.remove_reader(sys.stdin)
        server.close()

    loop.run_until_complete(main())


def echo(loops, connections, seconds):
    """The result of each loop."""
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, [max(cpus)])
    try:
        servers = []
        for name in loops:
            command = [sys.executable, os.path.abspath(__file__), "--serve", name]
            servers.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        ports = [server.stdout.readline().strip() for server in servers]
        if not all(ports):
            raise SystemExit("a server has not started")
        client = [sys.executable, "-c", CLIENT, str(seconds), str(connections), *ports]
        rates = subprocess.run(client, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
        for server in servers:
            server.communicate()
    finally:
        os.sched_setaffinity(0, cpus)
    return [{RATE: float(rate)} for rate in rates]


def measure(name, number, seconds):
    kind, length, count = MEASUREMENTS[number]
    loop = new_loop(name)
    try:
        return {"timer": timer, "many": many}[kind](loop, length, count, seconds)
    finally:
        loop.close()


def one(name, number, seconds):
    command = [sys.executable, os.path.abspath(__file__), "--one", name, str(number), str(seconds)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise SystemExit(f"{name}: {last[0]}")
    return json.loads(done.stdout)


def measured(loops, rounds, seconds):
    """The results of the rounds, by number of the measurement and loop."""
    found = {}
    for _ in range(rounds):
        for number, (kind, _, count) in enumerate(MEASUREMENTS):
            if kind == "echo":
                results = echo(loops, count, seconds)
            else:
                results = [one(name, number, seconds) for name in loops]
            for name, result in zip(loops, results):
                found.setdefault((number, name), []).append(result)
    return found


def described(number):
    kind, length, count = MEASUREMENTS[number]
    time = "100 ms" if length == 0.1 else f"{1e6 * length:.0f} µs" if length < 1e-3 else "1 ms"
    if kind == "timer":
        return f"{time}, beside 1,000" if count else f"{time}, alone"
    return f"1,000 of {time}" if kind == "many" else f"echo, {count} connection{'s' if count > 1 else ''}"


def tables_of(found, loops):
    def median(number, name, key):
        results = found[number, name]
        return statistics.median(result[key] for result in results) if key in results[0] else None

    def numbers(*kinds):
        return [number for number, (kind, _, _) in enumerate(MEASUREMENTS) if kind in kinds]

    keys = ["late_p50_us", "late_p99_us", "cpu_per_callback_us"]
    timers = [
        [described(number), name, *(median(number, name, key) for key in keys)]
        for number in numbers("timer", "many")
        for name in loops
    ]
    echoes = [[described(number), name, median(number, name, RATE)] for number in numbers("echo") for name in loops]
    names = [("", 0), ("loop", 0)]
    late = [("late, median, µs", 1), ("late, p99, µs", 1), ("CPU a callback, µs", 2)]
    return [
        results.table("timers", [*names, *late], timers),
        results.table("echo", [*names, ("round trips/s", 0)], echoes),
        results.table("bars", [("", 0), ("asked", 0), ("measured", 0), ("", 0)], bars_of(found, loops)),
    ]


def bars_of(found, loops):
    """What is asked of this loop; ratios are those of one round, whose runs follow each other or take turns."""

    def ratio(number, key, other):
        pairs = zip(found[number, "softtimers"], found[number, other])
        return statistics.median(ours[key] / others[key] for ours, others in pairs)

    rows = []
    for number, (kind, _, _) in enumerate(MEASUREMENTS):
        ours, name = found[number, "softtimers"], described(number)
        if kind == "timer":
            late = statistics.median(one["late_p50_us"] for one in ours)
            rows.append([f"{name}: late, median", "≤ 50 µs", f"{late:.1f} µs", met(late <= 50)])
        if "cpu_per_callback_us" in ours[0] and "select" in loops:
            cpu = ratio(number, "cpu_per_callback_us", "select")
            rows.append([f"{name}: CPU a callback, of `select`'s", "≤ 1.00", f"{cpu:.2f}", met(cpu <= 1)])
        if kind == "echo" and "default" in loops:
            rate = ratio(number, RATE, "default")
            rows.append([f"{name}: round trips, of `default`'s", "≥ 0.95", f"{rate:.2f}", met(rate >= 0.95)])
    return rows


def met(is_met):
    return "met" if is_met else "missed"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="for cargo lab publish")
    parser.add_argument("--quick", action="store_true", help="one round of 0.2 s: whether it works")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--loops", default=",".join(LOOPS))
    arguments = parser.parse_args()
    loops = arguments.loops.split(",")
    try:
        import uvloop  # noqa: F401
    except ImportError:
        loops = [name for name in loops if name != "uvloop"]
    rounds, seconds = (1, 0.2) if arguments.quick else (arguments.rounds, arguments.seconds)
    tables = tables_of(measured(loops, rounds, seconds), loops)
    for table in tables:
        print("\t".join(table["columns"]))
        for row in table["rows"]:
            print(*(f"{cell:.4g}" if isinstance(cell, float) else cell for cell in row), sep="\t")
    if arguments.json:
        command = f"python crates/python/bench/loops.py --rounds {rounds} --seconds {seconds:g}"
        results.write(arguments.json, command, tables)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(new_loop(sys.argv[2]))
    elif sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))))
    else:
        main()
