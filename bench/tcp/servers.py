#!/usr/bin/env python3
"""Web servers, unmodified, alone and under `softtimers pace`: nginx, and others by their command.

Many clients ask at once for a file, each on a connection of its own, over an emulated path between two hosts (those of
rig.py). A time is from the beginning of the connection to the last byte, of all clients of all rounds; drops are those
of the queue towards the clients, a round. Both ways take turns. A server of another kind is named with its program,
which gets the port as its argument and answers /BYTES with so many bytes:

    cargo build --release --manifest-path bench/Cargo.toml -p softtimers-files
    sudo python3 bench/tcp/servers.py --server hyper=target/release/softtimers-files --json FILE
"""
import argparse, asyncio, json, os, shutil, subprocess, sys, tempfile, time

import beside
import rig

SIZES = [("5 KB", 5_000), ("50 KB", 50_000), ("500 KB", 500_000), ("5 MB", 5_000_000)]
PATH = ("100Mbit", "50ms", "100packets")
CONFIGURATION = """
daemon off; worker_processes 2; pid {directory}/pid; error_log /dev/null;
events {{ worker_connections 1024; }}
http {{ access_log off; sendfile on; tcp_nodelay on;
  client_body_temp_path {directory}/1; proxy_temp_path {directory}/2; fastcgi_temp_path {directory}/3;
  uwsgi_temp_path {directory}/4; scgi_temp_path {directory}/5;
  server {{ listen {port} backlog=1024; root {directory}; }} }}
"""


def nginx(directory):
    """Returns the command of an nginx that serves files of all sizes; None where there is none."""
    if not shutil.which("nginx"):
        return None
    for _, size in SIZES:
        with open(f"{directory}/{size}", "wb") as file:
            file.write(b"x" * size)
    with open(f"{directory}/conf", "w") as file:
        file.write(CONFIGURATION.format(directory=directory, port=rig.PORT))
    os.chmod(directory, 0o755)
    return ["nginx", "-c", f"{directory}/conf", "-e", "/dev/null"]


async def fetch(size):
    began = time.monotonic()
    reader, writer = await asyncio.open_connection("10.9.0.1", rig.PORT, limit=1 << 20)
    writer.write(b"GET /%d HTTP/1.1\r\nHost: server\r\nConnection: close\r\n\r\n" % size)
    got = 0
    while piece := await reader.read(1 << 20):
        got += len(piece)
    writer.close()
    assert got > size, f"{got} bytes of {size}"
    return time.monotonic() - began


async def fetch_all(clients, size):
    return await asyncio.gather(*(fetch(size) for _ in range(clients)))


def ask(clients, size):
    """The clients: prints the seconds of each."""
    print(json.dumps(sorted(asyncio.run(fetch_all(clients, size)))))


def measure(options, command, pace, clients, size):
    wan = beside.emulator(options, *PATH)
    words = [options.softtimers, "pace", "--rate", PATH[0], "--"] if pace else []
    server = subprocess.Popen(rig.at(rig.SERVER, *words, *command), stderr=subprocess.DEVNULL)
    try:
        rig.wait_for(rig.PORT)
        own = [sys.executable, os.path.abspath(__file__), "--ask", str(clients), str(size)]
        done = subprocess.run(rig.at(rig.CLIENT, *own), check=True, capture_output=True, text=True)
    finally:
        beside.end(server)
        wan.terminate()
    drops = json.loads(wan.communicate()[0])["up"]["measured"]["queue_drops"]
    return json.loads(done.stdout), drops


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--softtimers", default="target/release/softtimers")
    parser.add_argument("--server", action="append", default=[], metavar="NAME=PROGRAM")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json")
    options = parser.parse_args()
    rows = []
    directory = tempfile.mkdtemp()
    servers = {"nginx": nginx(directory)}
    for one in options.server:
        name, program = one.split("=", 1)
        servers[name] = [os.path.abspath(program), str(rig.PORT)]
    rig.lay()
    try:
        rig.choose("cubic")
        for name, command in servers.items():
            if not command:
                print(f"skipped: {name} is not installed", file=sys.stderr)
                continue
            for clients in (10, 100):
                for label, size in SIZES if clients == 10 else SIZES[:3]:
                    row = [name, clients, label]
                    for taken in zip(*[[measure(options, command, pace, clients, size) for pace in (False, True)]
                                       for _ in range(options.rounds)]):
                        times = sorted(time for times, _ in taken for time in times)
                        drops = sum(drops for _, drops in taken) / options.rounds
                        ranks = [-(-len(times) * percent // 100) - 1 for percent in (50, 90, 100)]
                        row += [*[times[rank] for rank in ranks], drops]
                    rows.append(row)
                    print(*row, flush=True)
    finally:
        rig.tear_down()
        shutil.rmtree(directory)
    if options.json:
        figures = ["median, s", "p90, s", "last, s", "drops"]
        columns = ["server", "clients", "file", *[f"{way}: {one}" for way in ("alone", "pace") for one in figures]]
        servers = "".join(f" --server {one}" for one in options.server)
        table = {"key": "servers", "columns": columns, "decimals": [0, 0, 0, *[3, 3, 3, 0] * 2], "rows": rows}
        rig.write(options.json, [table], f"python3 bench/tcp/servers.py --softtimers {options.softtimers}{servers}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--ask"]:
        ask(int(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
