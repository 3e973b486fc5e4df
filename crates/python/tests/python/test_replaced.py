"""A program that replaces the loop's clock or parts of the loop, or looks at them, finds asyncio's."""

import asyncio
import heapq
import math
import selectors
import socket
import threading
import time
import types
import unittest
from fractions import Fraction
from unittest import mock

import softtimers.asyncio
from softtimers.asyncio import EventLoop, Pacer


class Virtual:
    """A clock that a wait moves on instead of sleeping; as test tools have it."""

    def __init__(self, loop, now):
        self.now = now
        self._select = loop._selector.select
        loop._selector.select = self.select

    def time(self):
        return self.now

    def select(self, timeout):
        if timeout is None:
            raise AssertionError("no timer is pending")
        self.now += timeout
        return self._select(0)


async def asleep(loop, *delays):
    """How long each of these sleeps took, by the loop's clock, in the order of their ends."""
    began, took = loop.time(), []

    async def one(delay):
        await asyncio.sleep(delay)
        took.append((delay, loop.time() - began))

    await asyncio.gather(*(one(delay) for delay in delays))
    return took


class ClocksTest(unittest.TestCase):
    def setUp(self):
        self.loop = EventLoop()
        self.addCleanup(self.loop.close)

    def assertVirtual(self, loop):
        """Days pass in no time, in order."""
        delays = [86_400.0, 3.0, 1e-6, 7_200.0]
        took = loop.run_until_complete(asleep(loop, *delays))
        self.assertEqual([delay for delay, _ in took], sorted(delays))
        for delay, elapsed in took:
            self.assertAlmostEqual(elapsed, delay, delta=1e-6)

    def test_a_clock_set_on_the_loop(self):
        for now in (0.0, -1e3, 1e6, time.monotonic(), time.monotonic() + 3600):
            loop = EventLoop()
            self.addCleanup(loop.close)
            loop.time = Virtual(loop, now).time
            self.assertVirtual(loop)

    def test_a_clock_of_a_class_that_derives(self):
        class Loop(EventLoop):
            def __init__(self):
                super().__init__()
                self.virtual = Virtual(self, 0.0)

            def time(self):
                return self.virtual.now

        loop = Loop()
        self.addCleanup(loop.close)
        self.assertVirtual(loop)

    def test_a_class_given_to_a_loop_that_exists(self):
        self.loop.run_until_complete(asyncio.sleep(0.0001))
        virtual = Virtual(self.loop, 5.0)
        self.loop.__class__ = types.new_class("Loop", (EventLoop,), {}, lambda names: names.update(time=lambda _: virtual.now))
        self.assertVirtual(self.loop)

    def test_a_clock_patched_for_all_loops(self):
        virtual = Virtual(self.loop, 0.0)
        with mock.patch.object(asyncio.BaseEventLoop, "time", virtual.time):
            self.assertVirtual(self.loop)

    def test_a_frozen_monotonic_clock_lets_no_timer_run_until_it_is_moved(self):
        ran, frozen = [], time.monotonic()
        self.loop.call_later(0.001, ran.append, None)
        with mock.patch("time.monotonic", lambda: frozen):
            deadline = time.perf_counter() + 0.01
            while time.perf_counter() < deadline:
                self.loop.call_soon(self.loop.stop)
                self.loop.run_forever()
            self.assertEqual(ran, [])
            frozen += 0.002
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()
        self.assertEqual(ran, [None])

    def test_a_clock_replaced_while_timers_pend(self):
        async def main():
            sleeps = asyncio.ensure_future(asleep(self.loop, 3_600.0))
            await asyncio.sleep(0.001)
            virtual = Virtual(self.loop, self.loop.time())
            with mock.patch.object(self.loop, "time", virtual.time):
                return await sleeps

        (_, took), = self.loop.run_until_complete(main())
        self.assertAlmostEqual(took, 3_600.0, delta=1e-3)

    def test_a_clock_that_goes_back(self):
        """As one that is set to zero between tests which share a loop."""
        clock = Virtual(self.loop, 100.0)
        self.loop.time = clock.time
        self.assertVirtual(self.loop)
        clock.now = 0.0
        self.assertVirtual(self.loop)

    def test_the_kernels_clock_by_another_name_is_no_other_clock(self):
        self.loop.time = lambda: time.clock_gettime(time.CLOCK_MONOTONIC)
        self.loop.run_until_complete(asleep(self.loop, 0.0001, 0.002))
        self.assertIsNotNone(self.loop._timers)

    def test_no_timer_is_early_under_a_clock_that_lags(self):
        self.loop.time = lambda: time.monotonic() - 0.0005
        for _ in range(20):
            (_, took), = self.loop.run_until_complete(asleep(self.loop, 0.001))
            self.assertGreaterEqual(took, 0.001 - 2e-9)

    def test_a_pacer_goes_by_the_loops_clock(self):
        async def main():
            pacer = Pacer(interval=60.0)
            for _ in range(10):
                await pacer.slot()
            return self.loop.time()

        self.loop.time = Virtual(self.loop, 0.0).time
        self.assertAlmostEqual(self.loop.run_until_complete(main()), 540.0, delta=1.0)


class TimesTest(unittest.TestCase):
    """Times that are none end a turn as they do on the default loop."""

    def same(self, act):
        """What ends both loops, and what their callbacks raise."""
        found = []
        for loop in (EventLoop(), asyncio.SelectorEventLoop(selectors.EpollSelector())):
            seen = []
            try:
                loop.set_exception_handler(lambda _, context: seen.append(type(context["exception"])))
                loop.call_soon(act, loop)
                # By no timer, which a time that is none may keep from its turn.
                stop = threading.Timer(0.05, loop.call_soon_threadsafe, [loop.stop])
                stop.start()
                try:
                    loop.run_forever()
                except Exception as error:
                    seen.append(type(error))
                stop.join()
                found.append(seen)
            finally:
                loop.close()
        self.assertEqual(found[0], found[1])
        return found[0]

    def test_a_time_too_large_for_a_float(self):
        self.assertEqual(self.same(lambda loop: loop.call_at(10**400, self.fail)), [OverflowError])
        # Behind another timer it does no harm.
        both = lambda loop: (loop.call_later(1000, self.fail), loop.call_at(10**400, self.fail))
        self.assertEqual(self.same(both), [])

    def test_a_time_that_is_no_number(self):
        """Up to Python 3.11 such a timer runs at once; since then the wait refuses it."""
        for delay in (math.nan, -math.nan):
            self.same(lambda loop: loop.call_later(delay, str))

        # The callback raises what the sleep did.
        self.same(lambda loop: loop.create_task(asyncio.sleep(math.nan)).add_done_callback(lambda done: done.result()))

    def test_what_is_no_time(self):
        for wrong in (None, "soon", [1]):
            self.assertNotEqual(self.same(lambda loop: loop.call_at(wrong, self.fail)), [])

    def test_whole_numbers_and_fractions(self):
        ran, loop = [], EventLoop()
        now = loop.time()
        loop.call_at(math.floor(now), ran.append, "whole")
        loop.call_at(Fraction(now) + Fraction(1, 1000), ran.append, "fraction")
        loop.call_later(0.002, loop.stop)
        loop.run_forever()
        loop.close()
        self.assertEqual(ran, ["whole", "fraction"])


class InternalsTest(unittest.TestCase):
    def setUp(self):
        self.loop = EventLoop()
        self.addCleanup(self.loop.close)

    def test_what_is_scheduled_is_seen_and_runs(self):
        ran = []
        handles = [self.loop.call_later(delay, ran.append, delay) for delay in (0.003, 0.001, 0.002)]
        self.assertTrue(all(handle._scheduled for handle in handles))
        handles[2].cancel()
        self.assertEqual(sorted(self.loop._scheduled), [handles[1], handles[0]])
        self.assertTrue(handles[0]._scheduled)
        self.loop.call_later(0.004, self.loop.stop)
        self.loop.run_forever()
        self.assertEqual(ran, [0.001, 0.003])
        self.assertFalse(any(handle._scheduled for handle in handles))

    def test_a_handle_says_whether_it_is_scheduled(self):
        handle = self.loop.call_later(0.0001, self.loop.stop)
        self.assertTrue(handle._scheduled)
        self.loop.run_forever()
        self.assertFalse(handle._scheduled)
        cancelled = self.loop.call_later(10, print)
        cancelled.cancel()
        self.assertFalse(cancelled._scheduled)
        self.assertIsNotNone(self.loop._timers)

    def test_a_timer_put_into_the_heap_runs(self):
        ran = []
        handle = asyncio.TimerHandle(self.loop.time(), ran.append, ("theirs",), self.loop)
        heapq.heappush(self.loop._scheduled, handle)
        self.loop.call_later(0.001, self.loop.stop)
        self.loop.run_forever()
        self.assertEqual(ran, ["theirs"])

    def test_a_heap_that_is_replaced_drops_its_timers(self):
        self.loop.call_later(0, self.fail)
        self.loop._scheduled = []
        self.loop.call_later(0.001, self.loop.stop)
        self.loop.run_forever()

    def test_a_turn_of_theirs(self):
        """As nest_asyncio's, which lets a loop run within itself."""

        def turn(loop):
            timeout = 0 if loop._ready else loop._scheduled[0]._when - loop.time() if loop._scheduled else None
            loop._process_events(loop._selector.select(timeout))
            while loop._scheduled and loop._scheduled[0]._when <= loop.time():
                loop._ready.append(heapq.heappop(loop._scheduled))
            while loop._ready:
                loop._ready.popleft()._run()

        self.loop._run_once = lambda: turn(self.loop)
        took = self.loop.run_until_complete(asleep(self.loop, 0.002, 0.001))
        self.assertEqual([delay for delay, _ in took], [0.001, 0.002])

    def test_events_processed_by_another_method(self):
        """Timers run whatever it does."""
        seen, theirs = [], self.loop._process_events
        self.loop._process_events = lambda events: (seen.extend(events), theirs(events))
        ran = []
        self.loop.call_later(0.001, ran.append, None)
        self.loop.call_later(0.002, self.loop.call_soon_threadsafe, self.loop.stop)
        self.loop.run_forever()
        self.assertEqual(ran, [None])
        self.loop._process_events = mock.Mock()
        self.loop.call_later(0.001, self.loop.stop)
        self.loop.run_forever()

    def test_another_selector(self):
        ours, theirs = self.loop._selector, selectors.EpollSelector()
        for key in ours.get_map().values():
            theirs.register(key.fileobj, key.events, key.data)
        self.loop._selector = theirs
        took = self.loop.run_until_complete(asleep(self.loop, 0.002, 0.0001))
        self.assertEqual([delay for delay, _ in took], [0.0001, 0.002])
        ours.close()

    def test_a_handler_selects_on_the_loops_own_selector(self):
        left, right = socket.socketpair()
        ran = []

        def drain():
            # A timer is due, and it does not end this wait.
            time.sleep(0.002)
            began = time.monotonic()
            self.assertEqual(self.loop._selector.select(0.005), [])
            self.assertGreaterEqual(time.monotonic() - began, 0.005)
            right.send(b"x")
            (key, events), = self.loop._selector.select()
            self.assertEqual((key.fileobj, events), (left, selectors.EVENT_READ))

        with left, right:
            left.setblocking(False)
            self.loop.add_reader(left, lambda: ran.append(left.recv(10)))
            self.loop.call_later(0.001, ran.append, "timer")
            self.loop.call_later(0.02, self.loop.stop)
            self.loop.call_soon(drain)
            self.loop.run_forever()
            self.loop.remove_reader(left)
        self.assertEqual(sorted(map(str, ran)), ["b'x'", "timer"])

    def test_a_wait_of_no_number_is_refused(self):
        with self.assertRaisesRegex(ValueError, "NaN"):
            self.loop._selector.select(math.nan)

    def test_debug_mode_tells_of_what_took_long(self):
        self.loop.set_debug(True)
        self.loop.slow_callback_duration = 0.001
        self.loop.call_later(0.001, time.sleep, 0.002)
        self.loop.call_later(0.01, self.loop.stop)
        with self.assertLogs("asyncio", "WARNING") as logs:
            self.loop.run_forever()
        self.assertIn("took", logs.output[0])

    def test_timers_go_on_when_debug_mode_begins(self):
        ran = []
        self.loop.call_later(0.002, ran.append, 2)
        self.loop.call_later(0.001, lambda: (ran.append(1), self.loop.set_debug(True)))
        self.loop.call_later(0.003, self.loop.stop)
        self.loop.run_forever()
        self.assertEqual(ran, [1, 2])

    def test_the_heap_is_as_exact_as_the_wheel(self):
        self.assertEqual(self.loop._scheduled, [])
        least = math.inf
        for _ in range(10_000):
            (_, took), = self.loop.run_until_complete(asleep(self.loop, 0.0001))
            least = min(least, took)
            if least < 0.0009:
                break
        self.assertLess(least, 0.0009)


if __name__ == "__main__":
    unittest.main()
