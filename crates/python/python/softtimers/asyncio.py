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
import sys
import time
from typing import TYPE_CHECKING, Any, Callable, Coroutine, Optional, TypeVar

from ._selector import Selector
from ._softtimers import RateClock, TimerSlack

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
    """

    def __init__(self) -> None:
        selector = Selector()
        self._poller = selector.poller
        super().__init__(selector)
        # Once a turn: looked up once, and descriptors only where one is ready.
        self._process_descriptors = super()._process_events
        self._due = self._poller.due

    def run_forever(self) -> None:
        with TimerSlack():
            super().run_forever()

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, context: Any = None) -> asyncio.TimerHandle:
        """Calls ``callback(*args)`` at the time ``when``, in seconds of ``time()``; never earlier."""
        if when is None:
            raise TypeError("when cannot be None")
        return self._timer(when, callback, args, context)

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any, context: Any = None) -> asyncio.TimerHandle:
        """Calls ``callback(*args)`` after ``delay`` seconds; never earlier."""
        if delay is None:
            raise TypeError("delay must not be None")
        # Not by call_at: that call would be a fifth of a timer's cost.
        return self._timer(self.time() + delay, callback, args, context)

    def _timer(self, when: float, callback: Callable[..., object], args: Any, context: Any) -> asyncio.TimerHandle:
        self._check_closed()
        if self._debug:
            self._check_thread()
            self._check_callback(callback, "call_at")
        timer = TimerHandle(when, callback, args, self, context)
        if timer._source_traceback:
            # Down to the line that made the timer.
            del timer._source_traceback[-2:]
        timer.number = self._poller.schedule(when, timer)
        return timer

    def close(self) -> None:
        super().close()
        # A selector that replaced ours does not close it.
        self._poller.close()
        self._due.clear()

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        # asyncio's own tests make handles without a loop.
        if isinstance(handle, TimerHandle):
            self._poller.cancel(handle.number)

    def _process_events(self, event_list: Any) -> None:
        # As in asyncio: callbacks of descriptors first, then those of timers.
        if event_list:
            self._process_descriptors(event_list)
        due = self._due
        if due:
            # No call, after which a signal's handler may raise (from Python 3.10 on): a timer that stays in the list runs twice.
            self._ready += due
            del due[:]


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
        delay = 0.0
        while True:
            await asyncio.sleep(delay)
            now = time.monotonic()
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
