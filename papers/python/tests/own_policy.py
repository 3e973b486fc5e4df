"""The policy of papers/sim/examples/own_policy.rs in Python: the test in wheel.rs gives packets, and compares.

    python tests/own_policy.py FILE        # of lines "NANOSECONDS BYTES"; prints what became of them, three policies
"""

import sys

from softtimers import sim


class Patient:
    """Polls every 2 ms while packets come, and goes back to interrupts after three polls that find nothing."""

    def __init__(self):
        self.empty = 3

    def looked(self, began, ended, found):
        self.empty = 0 if found else self.empty + 1
        return ended + 2_000_000 if self.empty < 3 else sim.ARMED


def main(path):
    with open(path) as file:
        packets = [tuple(map(int, line.split())) for line in file]
    for policy in ("interrupts", "hip", Patient()):
        print(*sim.receive(policy, packets))


main(*sys.argv[1:])
