#!/usr/bin/env python3
"""What `softtimers pace` leaves to others on its path, and what a byte costs the CPUs.

Beside: a long transfer by CUBIC, and on the same path a server that answers a request of 1,000 packets each second, on a
connection of its own: by CUBIC, by BBR where the kernel has it, and by CUBIC under `pace` with the whole rate and with
half of it. The share that the long transfer keeps is its bytes beside the paced server over its bytes beside the other.

Cost: one transfer after the other, each on a connection of its own; the time that the CPUs were not idle, less that of
the emulator's process and of whatever else runs, for each byte. Both ends are in it. As it is a difference, a busy host
spoils it; the time in the BPF programs of pace is measured by itself, by bpftool.

A round is measured in turn by each kind, and a figure is a median: of the rounds, or of the rounds' shares. A round in which
others, or the host, took more than 5% of the CPUs is set aside; where more than two thirds were, all of them count, and no bar
is judged. The file keeps the rounds, and a run adds to those of a file with the same name, so they may be measured in parts.

Needs root, `ip` and nsenter, as rig.py, whose hosts these are:

    sudo python3 bench/tcp/beside.py --softtimers target/release/softtimers --json FILE
"""
import argparse, json, math, os, socket, statistics, subprocess, sys, threading, time

import rig

SECONDS = 12
EVERY = 1.0
PACKETS = 1000
LONG = rig.PORT + 1


def emulator(options, rate, rtt, queue):
    words = ["wan", "--json", "--ifaces", "w0,w1", "--rtt", rtt, "--rate", rate, "--queue", queue]
    wan = subprocess.Popen(rig.at(rig.MIDDLE, "nice", "-n", "-20", options.softtimers, *words),
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    time.sleep(1)
    return wan


def server(options, port, pace, control=()):
    own = [sys.executable, os.path.abspath(rig.__file__), "--serve", str(port), *control]
    words = [options.softtimers, "pace", *pace, "--"] if pace else []
    return subprocess.Popen(rig.at(rig.SERVER, *words, *own), stderr=subprocess.DEVNULL)


def end(*processes):
    for process in processes:
        process.terminate()
        process.wait()


def client(*words):
    own = [sys.executable, os.path.abspath(__file__), *map(str, words)]
    return json.loads(subprocess.run(rig.at(rig.CLIENT, *own), check=True, capture_output=True, text=True).stdout)


def read(connection, wanted):
    """Asks for so many bytes, and returns how many seconds they took."""
    began = time.monotonic()
    connection.sendall(b"%d" % wanted)
    while wanted > 0 and (got := len(connection.recv(1 << 20))):
        wanted -= got
    return time.monotonic() - began


def ask_beside(seconds):
    """The client: the bytes of the long transfer, and the median answer beside it."""
    counted, times = [0], []
    with rig.connect(LONG) as long:
        long.sendall(b"%d" % (1 << 40))
        until = time.monotonic() + seconds

        def count():
            long.settimeout(1)
            while time.monotonic() < until:
                try:
                    counted[0] += len(long.recv(1 << 20))
                except TimeoutError:
                    pass
        counter = threading.Thread(target=count)
        counter.start()
        while time.monotonic() + EVERY < until:
            with rig.connect() as short:
                times.append(read(short, PACKETS * rig.PACKET))
            time.sleep(max(0, EVERY - times[-1]))
        counter.join()
    print(json.dumps({"bytes": counted[0], "answer": sorted(times)[len(times) // 2], "answers": len(times)}))


def beside(options, path):
    """Returns a round of each kind."""
    rate, rtt, queue = path
    half = f"{float(rate.removesuffix('Mbit')) / 2:g}Mbit"
    kinds = [("CUBIC", None), *([("BBR", None)] if rig.has_bbr() else []), ("pace", ["--rate", rate]),
             ("pace, half the rate", ["--rate", half])]
    for kind, pace in kinds:
        rig.choose("cubic")
        wan = emulator(options, rate, rtt, queue)
        servers = [server(options, rig.PORT, pace, ["bbr"] if kind == "BBR" else []), server(options, LONG, None)]
        rig.wait_for(rig.PORT, LONG)
        began, used = time.monotonic(), busy(wan.pid)
        found = client("--ask-beside", options.seconds)
        taken = by_others(used, busy(wan.pid), wan.pid, time.monotonic() - began)
        end(*servers, wan)
        yield [name_of(path), kind, found["bytes"] * 8 / options.seconds / 1e6, found["answer"], found["answers"], taken]


def name_of(path):
    return f"{path[0]}, {path[1]}, queue of {path[2].removesuffix('packets')}"


def busy(emulator):
    """Seconds that the CPUs were not idle, and those of each process that is not of this measurement: the emulator, and whatever
    else runs on the machine. Idle time and that of processes are exact; the others of /proc/stat are of samples at each tick,
    which timers that end beside a tick bias."""
    ticks = os.sysconf("SC_CLK_TCK")
    spent = [int(word) / ticks for word in open("/proc/stat").readline().split()[1:]]
    # Idle, waiting for a disk, taken by the host.
    free, others = spent[3] + spent[4] + spent[7], {}
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = open(f"/proc/{process}/stat").read().rsplit(") ", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        session, is_kernels = int(stat[3]), int(stat[6]) & 0x200000
        if int(process) == emulator or not is_kernels and session != os.getsid(0):
            others[int(process)] = (int(stat[11]) + int(stat[12])) / ticks
    return time.monotonic() * os.cpu_count() - free, others, spent[7]


def by_others(before, after, emulator, took):
    """The share of the CPUs that neither this measurement nor its emulator had."""
    taken = {process: seconds - before[1].get(process, 0) for process, seconds in after[1].items() if process != emulator}
    return (sum(taken.values()) + after[2] - before[2]) / took / os.cpu_count()


def seconds_between(before, after, emulator):
    """Seconds that this measurement used, and those with the emulator's: what TCP does with a packet that the emulator hands it
    is in these."""
    taken = {process: seconds - before[1].get(process, 0) for process, seconds in after[1].items()}
    used = after[0] - before[0] - sum(taken.values())
    return used, used + taken[emulator]


def in_programs():
    """Seconds in the BPF programs of pace, by the kernel's own clock: what it adds, and CUBIC itself, which they call."""
    listed = json.loads(subprocess.run(["bpftool", "-j", "prog", "show"], check=True, capture_output=True, text=True).stdout)
    ours = [one for one in listed if one.get("name", "").startswith(("on_tcp", "flight_"))]
    return sum(one.get("run_time_ns", 0) for one in ours) / 1e9


def trains():
    """Bytes and packets that the server's interface has sent; a packet may be a train that is cut behind it."""
    counters = [f"/sys/class/net/ea/statistics/tx_{what}" for what in ("bytes", "packets")]
    shown = subprocess.run(["ip", "netns", "exec", rig.SERVER, "cat", *counters], check=True, capture_output=True, text=True)
    return list(map(int, shown.stdout.split()))


def ask_transfers(seconds, packets):
    """The client: transfers one after the other for so long; prints the bytes."""
    until, done = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        with rig.connect() as short:
            read(short, packets * rig.PACKET)
            done += packets * rig.PACKET
    print(json.dumps({"bytes": done}))


def cost(options, path, packets):
    """Returns a round of each kind."""
    rate, rtt, queue = path
    paced = [rig.SHORT_TRAINS] if rate == "1Gbit" else []
    for kind, pace in [("CUBIC", None), *((kind, ["--rate", rate]) for kind in ["pace", *paced])]:
        rig.choose("cubic")
        rig.longest_train(rig.TRAIN if kind in paced else rig.ANY_TRAIN)
        wan = emulator(options, rate, rtt, queue)
        one = server(options, rig.PORT, pace)
        rig.wait_for(rig.PORT)
        before, programs = trains(), in_programs()
        began, used = time.monotonic(), busy(wan.pid)
        sent = client("--ask-transfers", options.seconds, packets)["bytes"]
        took, now = time.monotonic() - began, busy(wan.pid)
        taken, used = by_others(used, now, wan.pid, took), seconds_between(used, now, wan.pid)
        programs = in_programs() - programs
        bytes_sent, packets_sent = (now - then for now, then in zip(trains(), before))
        end(one, wan)
        yield [name_of(path), packets, kind, sent * 8 / took / 1e6, bytes_sent / packets_sent / rig.PACKET,
               *[seconds / sent * 1e9 for seconds in (*used, programs)], taken]


def medians(rounds, words, share):
    """Returns for each kind how many rounds, the medians of their figures, and the median, least and most of what the
    figure at `share` is of CUBIC's in the same round; and that median for a bar, with its interval."""
    kinds = {}
    for row in rounds:
        kinds.setdefault(tuple(row[:words]), []).append(row[words:])
    for kind, taken in kinds.items():
        pairs = list(zip(taken, kinds[(*kind[:-1], "CUBIC")]))
        quiet = [pair for pair in pairs if max(pair[0][-1], pair[1][-1]) <= DISTURBED]
        proves = len(quiet) * 3 >= len(pairs)
        counted = quiet if proves else pairs
        shares = sorted(one[share] / other[share] for one, other in counted)
        figures = [statistics.median(figure) for figure in zip(*[one[:-1] for one, _ in counted])]
        middle = statistics.median(shares)
        judged = {"measured": middle if proves else None}
        if proves and (within := interval(shares)):
            judged["within"] = within
        yield [*kind, len(quiet), len(pairs) - len(quiet), *figures, middle, shares[0], shares[-1]], judged


def interval(values):
    """Where the median of what these sorted values are drawn from is, with a confidence of 95%, by the sign test; None for
    fewer than six."""
    count, tail = len(values), 0
    for below in range(count):
        tail += math.comb(count, below) / 2**count
        if tail > 0.025:
            return [values[below - 1], values[count - below]] if below else None


DISTURBED = 0.05
BESIDE = ["path", "the server beside it"], ["CUBIC's long transfer, Mbit/s", "median of 1,000 packets, s", "answers"]
COST = ["path", "packets of a transfer", "TCP"], ["Mbit/s", "packets of a train", "CPU for a byte, ns",
                                                    "with the emulator's", "in programs"]
ROUNDS = ["rounds", "set aside"]
OF_CUBIC = ["of CUBIC's", "least", "most"]
OTHERS = "taken by others"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--softtimers", default="target/release/softtimers")
    parser.add_argument("--seconds", type=int, default=SECONDS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=["beside", "cost"])
    parser.add_argument("--queues", default="100packets,1000packets")
    parser.add_argument("--json")
    options = parser.parse_args()
    if os.getsid(0) != os.getpid():
        os.execvp("setsid", ["setsid", "--wait", sys.executable, *sys.argv])
    shares, costs = rig.kept(options.json, "beside-rounds"), rig.kept(options.json, "cost-rounds")
    rig.lay()
    timed = "/proc/sys/kernel/bpf_stats_enabled"
    were_timed = open(timed).read()
    try:
        print("1", file=open(timed, "w"), flush=True)
        for _ in range(options.rounds):
            for queue in options.queues.split(",") if options.only != "cost" else []:
                shares += shown(beside(options, ("100Mbit", "50ms", queue)))
            for rate, packets in COSTS if options.only != "beside" else []:
                costs += shown(cost(options, (rate, "20ms", "1000packets"), packets))
    finally:
        print(were_timed, file=open(timed, "w"), flush=True)
        rig.tear_down()
    of_shares, of_costs = list(medians(shares, 2, 0)), list(medians(costs, 3, 2))
    beside_rows, cost_rows = [[row for row, _ in of] for of in (of_shares, of_costs)]
    for row in beside_rows + cost_rows:
        print("median", *row)
    if options.json:
        kept = [{"figure": f"{row[0]}, {row[1]}: what CUBIC keeps of its share", "bound": 0.8, "at_least": True, **judged}
                for row, judged in of_shares if row[1] not in ("CUBIC", "BBR")]
        used = [{"figure": f"{row[0]}, {row[1]:,} packets, {row[2]}: CPU for a byte, of CUBIC's", "bound": 1.1,
                 "at_least": False, **judged} for row, judged in of_costs if row[2] != "CUBIC"]
        tables = [
            {"key": "beside", "decimals": [0, 0, 0, 0, 1, 3, 0, 2, 2, 2], "rows": beside_rows, "bars": kept,
             "columns": [*BESIDE[0], *ROUNDS, *BESIDE[1], *OF_CUBIC]},
            {"key": "cost", "decimals": [0, 0, 0, 0, 0, 1, 1, 2, 2, 3, 2, 2, 2], "rows": cost_rows, "bars": used,
             "columns": [*COST[0], *ROUNDS, *COST[1], *OF_CUBIC]},
            {"key": "beside-rounds", "decimals": [0, 0, 1, 3, 0, 3], "rows": shares,
             "columns": [*BESIDE[0], *BESIDE[1], OTHERS]},
            {"key": "cost-rounds", "decimals": [0, 0, 0, 1, 1, 2, 2, 3, 3], "rows": costs,
             "columns": [*COST[0], *COST[1], OTHERS]},
        ]
        rig.write(options.json, [table for table in tables if table["rows"]],
                  f"python3 bench/tcp/beside.py --softtimers {options.softtimers} --seconds {options.seconds}")


COSTS = [("100Mbit", 100), ("100Mbit", 5000), ("1Gbit", 5000)]


def shown(rows):
    for row in rows:
        print(*row, flush=True)
        yield row


if __name__ == "__main__":
    if sys.argv[1:2] == ["--ask-beside"]:
        ask_beside(float(sys.argv[2]))
    elif sys.argv[1:2] == ["--ask-transfers"]:
        ask_transfers(float(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
