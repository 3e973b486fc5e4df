#!/usr/bin/env python3
"""Response times of the kernel's TCP over a path that is known: Tables X and XI of soft timers, live.

    server host: ea ── w0 :middle: w1 ── ez: client host
                          softtimers wan --ifaces w0,w1

For each path, servers answer requests of some packets, each on a connection of its own that was open for 0.3 s: CUBIC;
CUBIC with the papers' initial window of two packets; BBR, where the kernel has it; CUBIC with an initial window of 1,000
packets and no pace (a route's initcwnd); and CUBIC under `softtimers pace`; and that where the server's interface takes
no more than 16 packets at once (`ip link set … gso_max_segs 16`). A figure is the least of several: a busy machine only adds. Drops are those of the emulator's queue towards the client. Congestion controls are chosen by route,
because a namespace may not select a restricted one by sysctl: where the machine's default is BBR, "CUBIC" would silently
be BBR. What the kernel remembers of a destination is forgotten before each. Paths that the file has from a run before are
kept, so a grid may be measured in parts.

Needs root, `ip` and nsenter. Prints a line for each cell, and writes the results file:

    sudo python3 bench/tcp/rig.py --softtimers target/release/softtimers --rates 10Mbit,100Mbit --json FILE
"""
import argparse, datetime, json, os, platform, socket, subprocess, sys, threading, time

PACKET = 1448
PORT = 7000
ID = os.getpid()
SERVER, MIDDLE, CLIENT = f"st-a{ID}", f"st-m{ID}", f"st-z{ID}"
# Packets that the server's interface takes at once, at most; and the kernel's own limit.
TRAIN, ANY_TRAIN = 16, 65535
SHORT_TRAINS = f"pace, trains of {TRAIN}"
PACED = ["pace", SHORT_TRAINS]
SIZES = [5, 20, 100, 1000, 5000]
# The second figure lets a window of the whole path open at once, the third is near what a Linux of today has as its limit;
# faster paths hold more.
BUFFERS = [("1Gbit", "4096 32000000 64000000"), ("", "4096 4000000 8000000")]


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


def at(host, *words):
    return ["nsenter", f"--net=/run/netns/{host}", *words]


def lay():
    for host in (SERVER, MIDDLE, CLIENT):
        ip("netns", "add", host)
    for host, outer, inner, address in ((SERVER, "w0", "ea", "10.9.0.1"), (CLIENT, "w1", "ez", "10.9.0.2")):
        ip("link", "add", "name", outer, "netns", MIDDLE, "type", "veth", "peer", "name", inner, "netns", host)
        ip("-n", MIDDLE, "link", "set", outer, "up")
        ip("-n", host, "addr", "add", f"{address}/24", "dev", inner)
        ip("-n", host, "link", "set", inner, "up")
        ip("-n", host, "link", "set", "lo", "up")
    let_in_flight("")


def let_in_flight(rate):
    """Sets the buffers of both ends."""
    buffers = next(buffers for fast, buffers in BUFFERS if rate.endswith(fast))
    for host in (SERVER, CLIENT):
        for name in ("tcp_rmem", "tcp_wmem"):
            write = f"echo {buffers} > /proc/sys/net/ipv4/{name}"
            subprocess.run(at(host, "sh", "-c", write), check=True)


def tear_down():
    for host in (SERVER, MIDDLE, CLIENT):
        subprocess.run(["ip", "netns", "del", host], capture_output=True)


def has_bbr():
    return "bbr" in open("/proc/sys/net/ipv4/tcp_available_congestion_control").read().split()


def serve(port, control=None):
    """The server: to a request in decimals, so many bytes. Its congestion control is the route's, or this one."""
    def answer(client):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if control:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
        piece = b"x" * (1 << 20)
        try:
            while request := client.recv(16):
                wanted = int(request)
                while wanted > 0:
                    client.sendall(piece[:wanted])
                    wanted -= len(piece)
        except ConnectionError:
            pass
    listener = socket.create_server(("0.0.0.0", port), backlog=200)
    while True:
        threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()


def connect(port=PORT):
    for _ in range(100):
        try:
            return socket.create_connection(("10.9.0.1", port))
        except ConnectionRefusedError:
            time.sleep(0.1)
    sys.exit("nobody listens")


def ask(rounds, sizes):
    """The client: prints seconds by size."""
    times = {}
    connect().close()
    for packets in sizes:
        times[packets] = []
        for _ in range(rounds):
            with connect() as server:
                time.sleep(0.3)
                began, wanted = time.monotonic(), packets * PACKET
                server.sendall(b"%d" % wanted)
                while wanted > 0 and (got := len(server.recv(1 << 20))):
                    wanted -= got
                times[packets].append(time.monotonic() - began)
    print(json.dumps(times))


def wait_for(*ports):
    """Waits until a server listens at each of these."""
    for port in ports:
        while f":{port} " not in subprocess.run(at(SERVER, "ss", "-tln"), capture_output=True, text=True).stdout:
            time.sleep(0.1)


def choose(control, window=()):
    ip("-n", SERVER, "tcp_metrics", "flush")
    ip("-n", SERVER, "route", "change", "10.9.0.0/24", "dev", "ea", "src", "10.9.0.1", "congctl", control, *window)


def longest_train(packets):
    ip("-n", SERVER, "link", "set", "ea", "gso_max_segs", str(packets))


def measure(options, path, kind, sizes):
    """Returns the least times by size, the drops of the queue, and the summary of pace."""
    rate, rtt, queue = path
    control = "bbr" if kind == "BBR" else "cubic"
    window = {"1,000, not paced": ["initcwnd", "1000"], "CUBIC, window of 2": ["initcwnd", "2"]}.get(kind, [])
    choose(control, window)
    longest_train(TRAIN if kind == SHORT_TRAINS else ANY_TRAIN)
    let_in_flight(rate)
    own = [sys.executable, os.path.abspath(__file__)]
    emulator = ["wan", "--json", "--ifaces", "w0,w1", "--rtt", rtt, "--rate", rate, "--queue", queue]
    wan = subprocess.Popen(at(MIDDLE, "nice", "-n", "-20", options.softtimers, *emulator),
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    time.sleep(1)
    summary = f"/tmp/softtimers-rig-{ID}.json"
    pace = [options.softtimers, "pace", "--force", "--summary", summary, "--rate", rate, "--"]
    server = subprocess.Popen(at(SERVER, *(pace if kind in PACED else []), *own, "--serve"), stderr=subprocess.DEVNULL)
    try:
        words = own + ["--ask", str(options.rounds), *map(str, sizes)]
        times = json.loads(subprocess.run(at(CLIENT, *words), check=True, capture_output=True, text=True).stdout)
    finally:
        server.terminate()
        server.wait()
        wan.terminate()
    measured = json.loads(wan.communicate()[0])["up"]["measured"]
    given_back = json.load(open(summary))["given_back"] if kind in PACED else None
    return {int(size): min(all) for size, all in times.items()}, measured["queue_drops"], given_back


def bits_of(rate):
    return float(rate[:-4]) * {"Mbit": 1e6, "Gbit": 1e9}[rate[-4:]]


def ideal(rate, rtt, packets):
    """A round trip, and the transmission of all packets with their headers."""
    return float(rtt.removesuffix("ms")) / 1e3 + packets * (PACKET + 66) * 8 / bits_of(rate)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--softtimers", default="target/release/softtimers")
    parser.add_argument("--rates", default="10Mbit,100Mbit,1Gbit")
    parser.add_argument("--rtts", default="100ms,20ms")
    parser.add_argument("--queues", default="30packets,1000packets")
    parser.add_argument("--kinds", help="only these, separated by semicolons")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    options = parser.parse_args()
    kinds = ["CUBIC", "CUBIC, window of 2", *(["BBR"] if has_bbr() else []), "1,000, not paced", *PACED]
    kinds = [kind for kind in kinds if kind in (options.kinds or kind).split(";")]
    sizes = [int(size) for size in options.sizes.split(",")]
    rows = kept(options.json)
    lay()
    try:
        for path in [(rate, rtt, queue) for rate in options.rates.split(",") for rtt in options.rtts.split(",")
                     for queue in options.queues.split(",")]:
            name = f"{path[0]}, {path[1]}, queue of {path[2].removesuffix('packets')}"
            rows = [row for row in rows if row[0] != name or row[1] not in ["ideal", *kinds]]
            rows.append([name, "ideal", *[ideal(*path[:2], size) for size in sizes], None])
            for kind in kinds:
                # Elsewhere the kernel's own trains are no longer.
                if kind == SHORT_TRAINS and path[0] != "1Gbit":
                    continue
                times, drops, given_back = measure(options, path, kind, sizes)
                rows.append([name, kind, *[times[size] for size in sizes], drops])
                print(name, kind, {size: round(one, 3) for size, one in times.items()}, "drops", drops,
                      "" if given_back is None else f"given back {given_back}", flush=True)
            rows.sort(key=place)
            if options.json:
                columns = ["path", "TCP", *[f"{size} packets, s" for size in sizes], "drops"]
                table = {"key": "responses", "columns": columns, "decimals": [0, 0, *[3] * len(sizes), 0], "rows": rows,
                         "bars": list(bars(rows))}
                write(options.json, [table, {"key": "slow-start", "columns": SLOW_START, "decimals": [0, 0, 1, 1, 1],
                                             "rows": list(against_slow_start(rows))}],
                      f"python3 bench/tcp/rig.py --softtimers {options.softtimers} --rounds {options.rounds} "
                      f"--rates {','.join(dict.fromkeys(row[0].split(',')[0] for row in rows))}")
    finally:
        tear_down()


def place(row):
    """Orders rows by path, and those of a path as they are measured."""
    rate, rtt, queue = row[0].split(", ")
    kinds = ["CUBIC", "CUBIC, window of 2", "BBR", "1,000, not paced", "ideal", *PACED]
    return bits_of(rate), int(rtt.removesuffix("ms")), int(queue.removeprefix("queue of ")), kinds.index(row[1])


def kept(path, key="responses"):
    """Returns the rows of a table of a file, if they are there."""
    tables = json.load(open(path))["tables"] if path and os.path.exists(path) else []
    return next((table["rows"] for table in tables if table["key"] == key), [])


def by_path(rows):
    """Returns the rows of each path by TCP, of paths that have all."""
    paths = {}
    for path, kind, *figures in rows:
        paths.setdefault(path, {})[kind] = figures
    needed = {"ideal", "CUBIC", "CUBIC, window of 2", "1,000, not paced", "pace"}
    return {path: kinds for path, kinds in paths.items() if needed <= kinds.keys()}


SLOW_START = ["path", "packets", "less than CUBIC's window of 2, %", "less than CUBIC's default, %",
              "more than the ideal, %"]


def against_slow_start(rows):
    """How much sooner pace is, of paths of 100 ms whose queue holds a window: Tables X and XI."""
    for path, kinds in by_path(rows).items():
        if ", 100ms, " not in path or "queue of 1000" not in path:
            continue
        for at, size in enumerate(SIZES):
            paced, least = kinds["pace"][at], kinds["ideal"][at]
            less = [100 * (1 - paced / kinds[kind][at]) for kind in ("CUBIC, window of 2", "CUBIC")]
            yield [path, size, *less, 100 * (paced / least - 1)]


def bars(rows):
    """What was wanted of it."""
    def bar(figure, bound, measured):
        return {"figure": figure, "bound": bound, "at_least": False, "measured": measured}
    for path, kinds in by_path(rows).items():
        default, unpaced = kinds["CUBIC"], kinds["1,000, not paced"]
        for kind in PACED:
            paced = kinds.get(kind)
            if not paced:
                continue
            name = f"{path}, {kind}"
            if path.startswith(("100Mbit, 100ms", "1Gbit, 100ms")):
                yield bar(f"{name}: 100 packets, of the time of CUBIC", 0.30, paced[2] / default[2])
                yield bar(f"{name}: 100 packets, of the ideal", 1.05, paced[2] / kinds["ideal"][2])
                if path.endswith("queue of 30"):
                    yield bar(f"{name}: 1,000 packets, of the time of CUBIC", 0.30, paced[3] / default[3])
            if unpaced[-1]:
                yield bar(f"{name}: drops, of those not paced", 0.05, paced[-1] / unpaced[-1])


def write(path, tables, command):
    commit = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True).stdout.strip()
    cpu = next((line.split(": ")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    results = {"schema": "softtimers.results/1", "date": datetime.date.today().isoformat(),
               "machine": f"Linux {platform.release()}, {os.cpu_count()} x {cpu}", "commit": commit, "command": command,
               "tables": tables}
    with open(path, "w") as file:
        json.dump(results, file, indent=1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(int(sys.argv[2]) if sys.argv[2:] else PORT, *sys.argv[3:])
    elif sys.argv[1:2] == ["--ask"]:
        ask(int(sys.argv[2]), [int(size) for size in sys.argv[3:]])
    else:
        main()
