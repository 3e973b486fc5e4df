#!/usr/bin/env python3
"""Response times of the kernel's TCP over a path that is known: Tables X and XI of soft timers, live.

    server host: ea ── w0 :middle: w1 ── ez: client host
                          softtimers wan --ifaces w0,w1

For each path, four servers answer requests of some packets, each on a connection of its own that was open for 0.3 s:
CUBIC; BBR, where the kernel has it; CUBIC with an initial window of 1,000 packets and no pace (a route's initcwnd); and
CUBIC under `softtimers pace`. A figure is the least of several: a busy machine only adds. Drops are those of the
emulator's queue towards the client. Congestion controls are chosen by route, because a namespace may not select a
restricted one by sysctl: where the machine's default is BBR, "CUBIC" would silently be BBR.

Needs root, `ip` and nsenter. Prints a line for each cell, and writes the results file:

    sudo python3 bench/tcp/rig.py --softtimers target/release/softtimers --rates 10Mbit,100Mbit --json FILE
"""
import argparse, datetime, json, os, platform, socket, subprocess, sys, threading, time

PACKET = 1448
PORT = 7000
ID = os.getpid()
SERVER, MIDDLE, CLIENT = f"st-a{ID}", f"st-m{ID}", f"st-z{ID}"
SIZES = [5, 20, 100, 1000, 5000]
# What a Linux of today has as its default limits; the second figure lets a window of the whole path open at once.
BUFFERS = "4096 4000000 8000000"


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
        for name in ("tcp_rmem", "tcp_wmem"):
            write = f"echo {BUFFERS} > /proc/sys/net/ipv4/{name}"
            subprocess.run(at(host, "sh", "-c", write), check=True)


def tear_down():
    for host in (SERVER, MIDDLE, CLIENT):
        subprocess.run(["ip", "netns", "del", host], capture_output=True)


def serve():
    """The server: to a request in decimals, so many bytes."""
    def answer(client):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while request := client.recv(16):
            client.sendall(b"x" * int(request))
    listener = socket.create_server(("0.0.0.0", PORT), backlog=200)
    while True:
        threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()


def connect():
    for _ in range(100):
        try:
            return socket.create_connection(("10.9.0.1", PORT))
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


def measure(options, path, kind, sizes):
    """Returns the least times by size, the drops of the queue, and the summary of pace."""
    rate, rtt, queue = path
    control = "bbr" if kind == "BBR" else "cubic"
    window = ["initcwnd", "1000"] if kind == "1,000, not paced" else []
    ip("-n", SERVER, "route", "change", "10.9.0.0/24", "dev", "ea", "src", "10.9.0.1", "congctl", control, *window)
    own = [sys.executable, os.path.abspath(__file__)]
    emulator = ["wan", "--json", "--ifaces", "w0,w1", "--rtt", rtt, "--rate", rate, "--queue", queue]
    wan = subprocess.Popen(at(MIDDLE, "nice", "-n", "-20", options.softtimers, *emulator),
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    time.sleep(1)
    summary = f"/tmp/softtimers-rig-{ID}.json"
    pace = [options.softtimers, "pace", "--force", "--summary", summary, "--rate", rate, "--"]
    server = subprocess.Popen(at(SERVER, *(pace if kind == "pace" else []), *own, "--serve"), stderr=subprocess.DEVNULL)
    try:
        words = own + ["--ask", str(options.rounds), *map(str, sizes)]
        times = json.loads(subprocess.run(at(CLIENT, *words), check=True, capture_output=True, text=True).stdout)
    finally:
        server.terminate()
        server.wait()
        wan.terminate()
    measured = json.loads(wan.communicate()[0])["up"]["measured"]
    given_back = json.load(open(summary))["given_back"] if kind == "pace" else None
    return {int(size): min(all) for size, all in times.items()}, measured["queue_drops"], given_back


def ideal(rate, rtt, packets):
    """A round trip, and the transmission of all packets with their headers."""
    bits = float(rate.removesuffix("Mbit")) * 1e6 if rate.endswith("Mbit") else float(rate.removesuffix("Gbit")) * 1e9
    return float(rtt.removesuffix("ms")) / 1e3 + packets * (PACKET + 66) * 8 / bits


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--softtimers", default="target/release/softtimers")
    parser.add_argument("--rates", default="10Mbit,100Mbit,1Gbit")
    parser.add_argument("--rtts", default="100ms,20ms")
    parser.add_argument("--queues", default="30packets,1000packets")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    options = parser.parse_args()
    available = open("/proc/sys/net/ipv4/tcp_available_congestion_control").read().split()
    kinds = ["CUBIC", *(["BBR"] if "bbr" in available else []), "1,000, not paced", "pace"]
    sizes = [int(size) for size in options.sizes.split(",")]
    rows = []
    lay()
    try:
        for path in [(rate, rtt, queue) for rate in options.rates.split(",") for rtt in options.rtts.split(",")
                     for queue in options.queues.split(",")]:
            name = f"{path[0]}, {path[1]}, queue of {path[2].removesuffix('packets')}"
            rows.append([name, "ideal", *[ideal(*path[:2], size) for size in sizes], None])
            for kind in kinds:
                times, drops, given_back = measure(options, path, kind, sizes)
                rows.append([name, kind, *[times[size] for size in sizes], drops])
                print(name, kind, {size: round(one, 3) for size, one in times.items()}, "drops", drops,
                      "" if given_back is None else f"given back {given_back}", flush=True)
            if options.json:
                write(options, sizes, rows)
    finally:
        tear_down()


def write(options, sizes, rows):
    commit = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True).stdout.strip()
    cpu = next((line.split(": ")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    columns = ["path", "TCP", *[f"{size} packets, s" for size in sizes], "drops"]
    table = {"key": "responses", "columns": columns, "decimals": [0, 0, *[3] * len(sizes), 0], "rows": rows}
    command = ("python3 bench/tcp/rig.py --softtimers target/release/softtimers "
               f"--rates {options.rates} --rtts {options.rtts} --queues {options.queues} --rounds {options.rounds}")
    results = {"schema": "softtimers.results/1", "date": datetime.date.today().isoformat(),
               "machine": f"Linux {platform.release()}, {os.cpu_count()} x {cpu}", "commit": commit, "command": command,
               "tables": [table]}
    with open(options.json, "w") as file:
        json.dump(results, file, indent=1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve()
    elif sys.argv[1:2] == ["--ask"]:
        ask(int(sys.argv[2]), [int(size) for size in sys.argv[3:]])
    else:
        main()
