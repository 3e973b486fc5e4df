"""Times a sweep on a local Dask cluster beside the same in one process: cost of a point, of a part, and scaling.

    python bench/cluster.py [--json FILE] [--points 100000] [--quick]

All ways return the same bytes, which is checked. Workers are processes of one thread each.
"""

import argparse
import logging
import time

import pathlib
import sys
sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "crates" / "python" / "bench"))
import results  # noqa: E402
from distributed import Client, LocalCluster

from softtimers import cluster, sim

PARTS = 64


def timed(run):
    begin = time.monotonic()
    found = run()
    return time.monotonic() - begin, found


def sweep(points):
    """Hundredths of a second of a web server's soft timers: some hundred microseconds of CPU each."""
    return {"experiment": "deadline", "axes": {"seed": range(points)}, "duration": "10ms"}


def workers(count):
    return LocalCluster(n_workers=count, threads_per_worker=1, processes=True, dashboard_address=None)


def measured(points):
    rows, whole = [], sweep(points)
    alone, text = timed(lambda: sim.csv(**whole, threads=1))
    rows.append(["one process, one thread", 1, alone, 1e6 * alone / points, 1.0])
    both, same = timed(lambda: sim.csv(**whole, threads=2))
    assert same == text
    rows.append(["one process, two threads", 2, both, 1e6 * both / points, alone / both])
    part = None
    for count in (1, 2):
        with workers(count) as local, Client(local) as client:
            # The first task of a worker imports the package.
            cluster.sweep(client, "slowstart", chunks=4 * count)
            took, same = timed(lambda: cluster.sweep(client, **whole, chunks=PARTS))
            assert same == text
            rows.append([f"Dask, {count} worker{'s' if count > 1 else ''}", count, took, 1e6 * took / points, alone / took])
            if count == 2:
                few, many = (
                    timed(lambda: cluster.sweep(client, **sweep(1_000), chunks=chunks))[0] for chunks in (50, 250)
                )
                part = (many - few) / 200
    parts = [sim.csv(**sweep(points // 100), part=f"{number}/100") for number in range(1, 101)]
    merge, _ = timed(lambda: sim.merge(parts))
    return rows, part, merge / (points // 100)


def on_paper(rows, part, merge, points):
    """More machines: points are spread, but one scheduler hands out all parts, and one client merges all points.

    A point takes what it took with two workers, so that the formula gives what was measured with them."""
    (_, _, alone, *_), (_, workers, two, *_) = rows[0], rows[-1]
    point = workers * (two - PARTS * part - merge * points) / points
    more = []
    # What is worth a cluster.
    alone, points = 100 * alone, 100 * points
    for count in (2, 16, 64, 256, 1024):
        took = point * points / count + cluster.PARTS_PER_THREAD * count * part + merge * points
        more.append([str(count), took, alone / took, 100 * alone / took / count])
    return 1e6 * point, more


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="for cargo lab publish")
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--quick", action="store_true", help="1,000 points: whether it works")
    arguments = parser.parse_args()
    logging.getLogger("distributed").setLevel(logging.ERROR)
    points = 1_000 if arguments.quick else arguments.points
    rows, part, merge = measured(points)
    point, more = on_paper(rows, part, merge, points)
    costs = [
        ["a point on one of two workers, µs", point],
        ["a part, besides its points, ms", 1e3 * part],
        ["to merge a point, µs", 1e6 * merge],
    ]
    for row in [*rows, *costs, *more]:
        print(*(f"{cell:.4g}" if isinstance(cell, float) else cell for cell in row), sep="\t")
    if arguments.json:
        columns = [("", 0), ("CPUs", 0), ("seconds", 2), ("µs a point", 1), ("speed-up", 2)]
        tables = [
            results.table("cluster", columns, rows),
            results.table("costs", [("", 0), ("measured", 2)], costs),
            results.table("on-paper", [("CPUs", 0), ("seconds", 0), ("speed-up", 1), ("of each CPU, %", 0)], more),
        ]
        results.write(arguments.json, f"python papers/python/bench/cluster.py --points {points}", tables)


if __name__ == "__main__":
    main()
