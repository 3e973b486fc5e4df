"""``Selector``: epoll with time-outs in nanoseconds."""

import os
import select
import selectors
from collections.abc import Mapping

from ._softtimers import Poller


class _Keys(Mapping):
    """The keys of a selector by descriptor, as ``selectors`` shows them; a file object names its descriptor."""

    def __init__(self, selector):
        self._selector = selector

    def __len__(self):
        return len(self._selector._keys)

    def __getitem__(self, fileobj):
        descriptor = self._selector._descriptor(fileobj)
        try:
            return self._selector._keys[descriptor]
        except KeyError:
            raise KeyError(f"{fileobj!r} is not registered") from None

    def __iter__(self):
        return iter(self._selector._keys)


class Selector(selectors.BaseSelector):
    """A selector over epoll. Its time-outs are exact to the nanosecond, where ``selectors.EpollSelector`` rounds them up
    to a millisecond.
    """

    def __init__(self):
        self.poller = Poller()
        # A descriptor of its own: each of the two objects closes one.
        self._epoll = select.epoll.fromfd(os.dup(self.poller.fileno()))
        os.set_inheritable(self._epoll.fileno(), False)
        self._keys = {}
        self._map = _Keys(self)

    def fileno(self):
        """The descriptor of the epoll set."""
        return self.poller.fileno()

    def register(self, fileobj, events, data=None):
        mask = _mask(events)
        key = selectors.SelectorKey(fileobj, self._descriptor(fileobj), events, data)
        if key.fd in self._keys:
            raise KeyError(f"{fileobj!r} (FD {key.fd}) is already registered")
        self._epoll.register(key.fd, mask)
        self._keys[key.fd] = key
        return key

    def unregister(self, fileobj):
        key = self._map[fileobj]
        del self._keys[key.fd]
        try:
            self._epoll.unregister(key.fd)
        except OSError:
            pass  # It was closed while it was watched: the kernel has forgotten it.
        return key

    def modify(self, fileobj, events, data=None):
        key = self._map[fileobj]
        if events != key.events:
            mask = _mask(events)
            try:
                self._epoll.modify(key.fd, mask)
            except BaseException:
                del self._keys[key.fd]
                raise
        key = key._replace(events=events, data=data)
        self._keys[key.fd] = key
        return key

    def select(self, timeout=None):
        return self.poller.wait(timeout, self._keys)

    def close(self):
        self._epoll.close()
        self.poller.close()
        self._keys.clear()
        self._map = None

    def get_key(self, fileobj):
        if self._map is None:
            raise RuntimeError("Selector is closed")
        return self._map[fileobj]

    def get_map(self):
        return self._map

    def _descriptor(self, fileobj):
        """The descriptor of an object; if it has been closed since, the one by which it is watched."""
        try:
            return _descriptor(fileobj)
        except ValueError:
            for key in self._keys.values():
                if key.fileobj is fileobj:
                    return key.fd
            raise


def _descriptor(fileobj):
    if isinstance(fileobj, int):
        descriptor = fileobj
    else:
        try:
            descriptor = int(fileobj.fileno())
        except (AttributeError, TypeError, ValueError):
            raise ValueError(f"Invalid file object: {fileobj!r}") from None
    if descriptor < 0:
        raise ValueError(f"Invalid file descriptor: {descriptor}")
    return descriptor


def _mask(events):
    if not events or events & ~(selectors.EVENT_READ | selectors.EVENT_WRITE):
        raise ValueError(f"Invalid events: {events!r}")
    read = select.EPOLLIN if events & selectors.EVENT_READ else 0
    return read | (select.EPOLLOUT if events & selectors.EVENT_WRITE else 0)
