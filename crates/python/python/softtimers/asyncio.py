"""asyncio on time: an event loop whose timers come within tens of microseconds, and pacing.

    import asyncio
    import softtimers.asyncio

    async def main():
        await asyncio.sleep(0.0001)  # 100 us; the default loop takes a millisecond

    softtimers.asyncio.run(main())

asyncio's own loop on Linux waits with a resolution of one millisecond, rounded up. ``EventLoop`` waits to the
nanosecond, holds the thread's timer slack at 1 ns while it runs, and keeps its timers in a timing wheel instead of a
heap. Everything else is ``asyncio.SelectorEventLoop``. All times are seconds, as in asyncio.
"""

from __future__ import annotations

import asyncio
import heapq
import sys
import time
from typing import TYPE_CHECKING, Any, Callable, Coroutine, Optional, TypeVar

from ._selector import Selector
from ._softtimers import OtherClock, RateClock, Timers, TimerSlack

__all__ = ["EventLoop", "EventLoopPolicy", "Pacer", "new_event_loop", "run"]

_T = TypeVar("_T")


class TimerHandle(asyncio.TimerHandle):
    """A timer of ``EventLoop``, with the number by which it is cancelled."""

    __slots__ = ("number",)


class EventLoop(asyncio.SelectorEventLoop):
    """A ``SelectorEventLoop`` whose timers are neither rounded to milliseconds nor delayed by the timer slack.

    Timers run in the order of their times, those of equal times in the order of their calls. While the loop runs, its
    thread's timer slack is 1 ns. Threads and processes started meanwhile inherit that, which only costs them more
    wake-ups.

    In debug mode, under a clock that is not the kernel's, and from when anything looks at ``_scheduled``, the timers are in
    asyncio's own heap, which that gives, and asyncio's own code serves them; the wait stays exact.
    """

    # None while the heap has them; also for asyncio's constructor.
    _timers: Optional[Timers] = None

    def __init__(self) -> None:
        selector = Selector()
        self._poller = selector.poller
        super().__init__(selector)
        self._timers = Timers()

    def run_forever(self) -> None:
        with TimerSlack():
            super().run_forever()

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, context: Any = None) -> asyncio.TimerHandle:
        """Calls ``callback(*args)`` at the time ``when``, in seconds of ``time()``; never earlier."""
        timers = self._timers
        if timers is not None and not (self._debug or self._closed):
            timer = TimerHandle(when, callback, args, self, context)
            number = timers.schedule(when, timer)
            if number is not None:
                timer.number = number
                timer._scheduled = True
                return timer
        standard = super().call_at(when, callback, *args, context=context)
        if standard._source_traceback:
            # Down to the line that made the timer.
            del standard._source_traceback[-1]
        return standard

    def close(self) -> None:
        super().close()
        # A selector that replaced ours does not close it.
        self._poller.close()

    @property
    def _scheduled(self) -> list[asyncio.TimerHandle]:
        """asyncio's heap. It has all timers from the first time that it is asked for, by a program or by asyncio's code."""
        timers = self._timers
        if timers is not None:
            self._timers = None
            self._heap = timers.take()
            # Some within a nanosecond of each other may have changed places.
            heapq.heapify(self._heap)
        return self._heap

    @_scheduled.setter
    def _scheduled(self, heap: list[asyncio.TimerHandle]) -> None:
        self._timers = None
        self._heap = heap

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        # asyncio's own tests make handles without a loop.
        if self._timers is None or not isinstance(handle, TimerHandle):
            super()._timer_handle_cancelled(handle)
        else:
            self._timers.cancel(handle.number)
            handle._scheduled = False

    def _run_once(self) -> None:
        """A turn of asyncio's, but that the timers are in a wheel."""
        timers, ready = self._timers, self._ready
        if timers is None or self._debug:
            return super()._run_once()
        timeout: Optional[float] = None
        try:
            if ready or self._stopping:
                timeout = 0
            elif timers:
                timeout = timers.left(self.time())
            self._process_events(self._selector.select(timeout))
            # As in asyncio: callbacks of descriptors first, then those of timers.
            if timers:
                timers.run_due(self.time(), ready)
        except OtherClock:
            return super()._run_once()
        # What they add is for the next turn, so that timers of no time leave some for descriptors.
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()


def new_event_loop() -> EventLoop:
    """Returns a new loop, to pass as a ``loop_factory``."""
    return EventLoop()


def run(main: Coroutine[Any, Any, _T], *, debug: Optional[bool] = None) -> _T:
    """``asyncio.run`` on an ``EventLoop``."""
    if sys.version_info >= (3, 11):
        with asyncio.Runner(debug=debug, loop_factory=EventLoop) as runner:
            return runner.run(main)
    before = asyncio.get_event_loop_policy()
    asyncio.set_event_loop_policy(_policy()())
    try:
        return asyncio.run(main, debug=debug)
    finally:
        asyncio.set_event_loop_policy(before)


class Pacer:
    """Waits until the next packet, request or block may leave: departures at a rate, awaited one by one.

        pacer = Pacer(bits_per_second=20_000_000)
        for datagram in datagrams:
            await pacer.slot(len(datagram))
            transport.sendto(datagram)

    The rate is one of ``packets_per_second`` and ``bits_per_second``, whole numbers, or an ``interval`` in seconds.
    Departures that a stall delayed by up to ``catch_up`` seconds are made up in gaps of at least nine sixteenths of the
    target's, never back to back; those beyond are skipped and counted. Several tasks may share a pacer.
    """

    def __init__(
        self,
        *,
        packets_per_second: Optional[int] = None,
        bits_per_second: Optional[int] = None,
        interval: Optional[float] = None,
        catch_up: float = 0.01,
    ) -> None:
        self._clock = RateClock(
            packets_per_second=packets_per_second,
            bits_per_second=bits_per_second,
            interval=interval,
            catch_up=catch_up,
        )
        self._next: Optional[float] = None

    async def slot(self, size: int = 1) -> None:
        """Waits until the next departure's time and counts it; ``size``, in bytes, matters for a rate in bits.

        A cancelled call counts none. Each call lets the loop run, even when the time has come already.
        """
        loop = asyncio.get_running_loop()
        # A virtual clock's, if it is one. Loops that are not asyncio's may count whole milliseconds, as uvloop does.
        clock = loop.time if isinstance(loop, asyncio.BaseEventLoop) else time.monotonic
        delay = 0.0
        while True:
            await asyncio.sleep(delay)
            now = clock()
            if self._next is None:
                self._next = self._clock.start(now)
            delay = self._next - now
            if delay <= 0:
                break
        self._next = self._clock.departed(now, size)

    def restart(self) -> None:
        """Begins again after an idle time: the next departure may leave at once, and none counts as missed."""
        self._next = None

    @property
    def departures(self) -> int:
        """Slots that were handed out."""
        return self._clock.departures

    @property
    def skipped(self) -> int:
        """Departures skipped after stalls longer than ``catch_up``; bytes if the rate is in bits."""
        return self._clock.skipped


if TYPE_CHECKING:

    class EventLoopPolicy(asyncio.DefaultEventLoopPolicy): ...


def _policy() -> type:
    global _policy_class
    if _policy_class is None:

        class EventLoopPolicy(asyncio.DefaultEventLoopPolicy):
            """``asyncio.set_event_loop_policy(EventLoopPolicy())`` makes ``EventLoop`` the loop of ``asyncio.run``."""

            def new_event_loop(self) -> EventLoop:
                return EventLoop()

        EventLoopPolicy.__module__, EventLoopPolicy.__qualname__ = __name__, "EventLoopPolicy"
        _policy_class = EventLoopPolicy
    return _policy_class


_policy_class: Optional[type] = None


def __getattr__(name: str) -> Any:
    # Python 3.14 warns of everything that names a policy, so it is made only on request.
    if name == "EventLoopPolicy":
        return _policy()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
