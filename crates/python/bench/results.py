"""Result files of the benches, as ``cargo lab publish`` keeps them."""

import datetime
import json
import os
import platform
import subprocess


def machine():
    with open("/proc/cpuinfo") as file:
        models = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return f"{platform.system()} {platform.release()}, {os.cpu_count()} x {models[0] if models else platform.machine()}"


def table(key, columns, rows, notes=()):
    """``columns`` are names with the decimals that are shown."""
    found = {
        "key": key,
        "columns": [name for name, _ in columns],
        "decimals": [decimals for _, decimals in columns],
        "rows": rows,
    }
    return {**found, "notes": list(notes)} if notes else found


def write(path, command, tables, python=platform.python_version()):
    """``python`` is the version that was measured; none, where the rows name it."""
    git = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], stdout=subprocess.PIPE, text=True)
    results = {
        "schema": "softtimers.results/1",
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "machine": f"{machine()}, Python {python}" if python else machine(),
        "commit": git.stdout.strip() or None,
        "command": command,
        "tables": tables,
    }
    with open(path, "w") as file:
        json.dump(results, file, indent=1)
