"""Paced departures."""

import asyncio
import math
import socket
import statistics
import struct
import time
import unittest

import softtimers.asyncio
from softtimers.asyncio import Pacer


def departures(pacer, size, count, tasks=1):
    """When each of ``count`` slots was handed out, to so many tasks together."""
    times = []

    async def one():
        for _ in range(count // tasks):
            await pacer.slot(size)
            times.append(time.monotonic())

    async def main():
        await asyncio.gather(*(one() for _ in range(tasks)))

    softtimers.asyncio.run(main())
    return times


def paced_datagrams(interval, count):
    """How long it takes to send so many, by the monotonic clock, and the gaps with which the kernel has seen them come."""

    async def send(address):
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=address)
        pacer = Pacer(interval=interval)
        begin = time.monotonic()
        for number in range(count):
            await pacer.slot(100)
            transport.sendto(number.to_bytes(4, "big") + bytes(96))
        took = time.monotonic() - begin
        transport.close()
        return took

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(10)
        took = softtimers.asyncio.run(send(receiver.getsockname()))
        times = []
        for number in range(count):
            message, control, _, _ = receiver.recvmsg(200, 100)
            assert (len(message), int.from_bytes(message[:4], "big")) == (100, number)
            seconds, nanos = struct.unpack("@ll", control[0][2])
            times.append(seconds + nanos / 1e9)
    return took, [later - earlier for earlier, later in zip(times, times[1:])]


# As in asm-generic/socket.h, of the machines with 64 bits.
SO_TIMESTAMPNS = 35


class PacerTest(unittest.TestCase):
    def shortest_gap(self, pacer, size=1, tasks=1):
        times = departures(pacer, size, 60, tasks)
        self.assertEqual(pacer.departures, 60)
        # The time is read after the slot's: a gap may seem shorter than it is by what lies between, so the mean is taken.
        return (times[-1] - times[0]) / 59

    def test_the_rate_is_not_exceeded(self):
        for pacer, size in (
            (Pacer(packets_per_second=1000), 1),
            (Pacer(interval=0.001), 1),
            (Pacer(bits_per_second=10_000_000), 1250),
        ):
            # One in sixteen is room for what the first slot's own delay hides.
            self.assertGreater(self.shortest_gap(pacer, size), 0.001 * 9 / 16 * 15 / 16)

    def test_tasks_share_a_pacer(self):
        self.assertGreater(self.shortest_gap(Pacer(interval=0.001), tasks=3), 0.001 * 9 / 16 * 15 / 16)

    def test_datagrams_leave_at_the_rate(self):
        """As the kernel saw them. On the default loop each gap is a millisecond or more; here most are not."""
        for _ in range(50):
            took, gaps = paced_datagrams(0.0004, 100)
            # Never faster, but for what the first departure's own delay hides.
            self.assertGreater(took, 99 * 0.0004 * 9 / 16 * 15 / 16)
            # The kernel's stamps are of a clock that may be set meanwhile, which the median does not see.
            if statistics.median(gaps) < 0.001:
                return
        self.fail(f"gaps of a millisecond, as on the default loop: {gaps}")

    def test_a_slot_that_is_cancelled_is_not_counted(self):
        async def main():
            pacer = Pacer(interval=1000)
            await pacer.slot()
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(pacer.slot(), 0.001)
            self.assertEqual(pacer.departures, 1)
            pacer.restart()
            await pacer.slot()
            self.assertEqual(pacer.departures, 2)

        softtimers.asyncio.run(main())

    def test_what_a_long_stall_missed_is_skipped_and_counted(self):
        async def main():
            pacer = Pacer(interval=0.001, catch_up=0)
            await pacer.slot()
            time.sleep(0.02)
            await pacer.slot()
            await pacer.slot()
            return pacer.skipped

        self.assertGreaterEqual(softtimers.asyncio.run(main()), 15)

    def test_a_rate_that_is_none_is_refused(self):
        for wrong in ({}, {"packets_per_second": 1, "interval": 1.0}, {"bits_per_second": 0}, {"interval": 0.0}):
            with self.assertRaises(ValueError):
                Pacer(**wrong)
        with self.assertRaises(OverflowError):
            Pacer(packets_per_second=-1)

    def test_a_time_that_is_none_is_refused_and_named(self):
        for wrong in (math.nan, -1, -1e-320, -math.inf, 1e-320, 9e-10):
            with self.assertRaisesRegex(ValueError, f"^interval={float(wrong)!r}: seconds from a nanosecond"):
                Pacer(interval=wrong)
            with self.assertRaisesRegex(ValueError, f"^catch_up={float(wrong)!r}: zero, or seconds"):
                Pacer(interval=1, catch_up=wrong)
        for right in (0, -0.0, 1e-9, 3600, math.inf):
            Pacer(interval=1, catch_up=right)
        Pacer(interval=1e-9)


if __name__ == "__main__":
    unittest.main()
