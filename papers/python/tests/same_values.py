"""Compares columns of the simulator with the CSV that the command prints: the test in wheel.rs gives both.

    python tests/same_values.py FILE ARGUMENTS BUILD        # of softtimers.sim.columns, as JSON; the column of that name
"""

import csv
import json
import sys

from softtimers import sim

# Which run of which program a line is of, and where it stands in it.
OF_THE_RUN = ("sweep", "point", "row", "build")


def same(text, value):
    if value is None:
        return text == ""
    # A float is compared as a number: Python and Rust write the same one differently, such as 1e-07.
    return type(value)(text) == value


def main(path, arguments, build):
    arguments = json.loads(arguments)
    if "trace" in arguments:
        arguments["trace"] = [tuple(packet) for packet in arguments["trace"]]
    with open(path, newline="") as file:
        text = file.read()
    assert sim.csv(**arguments, build=build) == text
    parts = [sim.csv(**arguments, part=f"{number}/2", build=build) for number in (2, 1)]
    assert text not in parts and sim.merge(parts) == text
    found = sim.columns(**arguments)
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    expected = [name for name in rows[0] if name not in OF_THE_RUN]
    assert list(found) == expected, (list(found), expected)
    for name, values in found.items():
        assert len(values) == len(rows), name
        for row, value in zip(rows, values):
            assert same(row[name], value), (name, row[name], value)


main(*sys.argv[1:])
