"""A bad network in a test: ``softtimers wan`` between the program and a server, for one test.

The command ``softtimers`` has to be on PATH, or named by the variable ``SOFTTIMERS``. No root. With pytest::

    pytest_plugins = ["softtimers.wan"]        # in conftest.py

    def test_the_client_survives_an_outage(wan):
        path = wan("127.0.0.1:5432", tcp=True, rtt="80ms", rate="20Mbit")
        client = connect(path.host, path.port)
        path.set(outage="on")
        ...
        assert path.lost("up") > 0
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Callable

__all__ = ["Path", "WanError", "start"]


class WanError(Exception):
    """What ``softtimers wan`` said against it."""


class Path:
    """A path between an address of its own, ``host`` and ``port``, and a server. A context manager, which ends it."""

    host: str
    port: int

    def __init__(self, words: Sequence[str], scenario: str | None = None) -> None:
        self._place = tempfile.TemporaryDirectory(prefix="softtimers-wan-")
        self._control = os.path.join(self._place.name, "control")
        self._said = os.path.join(self._place.name, "said")
        program = os.environ.get("SOFTTIMERS", "softtimers")
        command = [program, "wan", *words, "--control", self._control, "--json"]
        if scenario is not None:
            file = os.path.join(self._place.name, "scenario.toml")
            with open(file, "w", encoding="utf-8") as steps:
                steps.write(scenario)
            command += ["--scenario", file]
        self._last: dict[str, Any] | None = None
        try:
            with open(self._said, "wb") as said:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said
                )
        except FileNotFoundError:
            self._place.cleanup()
            raise WanError(f"no command {program}: install softtimers, or name it by SOFTTIMERS") from None
        self.host, self.port = self._address()

    def set(self, way: str = "both", **settings: str) -> None:
        """Changes settings from now on, of ``"up"``, ``"down"`` or both: ``set(loss="1%", rate="1Mbit")``."""
        answer = self._ask(f"set {way} " + " ".join(f"{name} {value}" for name, value in settings.items()))
        if answer != "ok":
            raise WanError(answer)

    def report(self) -> dict[str, Any]:
        """The ``--json`` object so far; of a path that was ended, the last."""
        if self._last is not None:
            return self._last
        answer = self._ask("show")
        if not answer.startswith("{"):
            raise WanError(answer)
        report: dict[str, Any] = json.loads(answer)
        return report

    def lost(self, way: str) -> int:
        """How many packets the path has lost, ``"up"`` or ``"down"``; its queue's drops are counted as such."""
        return int(self.report()[way]["measured"]["lost"])

    def end(self) -> dict[str, Any]:
        """Ends the path, and returns the ``--json`` object."""
        if self._last is None:
            self._process.send_signal(signal.SIGINT)
            try:
                text, _ = self._process.communicate(timeout=PATIENCE)
                if self._process.returncode != 0:
                    raise WanError(self._words())
                self._last = json.loads(text)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.communicate()
                raise WanError("it does not end") from None
            finally:
                self._place.cleanup()
        return self._last

    def __enter__(self) -> Path:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def _address(self) -> tuple[str, int]:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            for line in self._words().splitlines():
                _, found, rest = line.partition("listening on ")
                if found and os.path.exists(self._control):
                    host, _, port = rest.split()[0].rstrip(",").rpartition(":")
                    return host.strip("[]"), int(port)
            if self._process.poll() is not None:
                break
            time.sleep(0.005)
        self._process.kill()
        self._process.communicate()
        said = self._words().strip()
        self._place.cleanup()
        raise WanError(said or "it does not begin")

    def _ask(self, line: str) -> str:
        with socket.socket(socket.AF_UNIX) as control:
            control.settimeout(PATIENCE)
            control.connect(self._control)
            control.sendall(line.encode() + b"\n")
            with control.makefile(encoding="utf-8") as answer:
                return answer.readline().strip()

    def _words(self) -> str:
        with open(self._said, encoding="utf-8", errors="replace") as said:
            return said.read()


def start(
    to: str,
    *,
    listen: str = "127.0.0.1:0",
    tcp: bool = False,
    seed: int | None = None,
    scenario: Sequence[Mapping[str, str]] | None = None,
    repeat: str | None = None,
    **settings: str,
) -> Path:
    """Puts a path in front of a server, ``"127.0.0.1:5432"``, for datagrams or with ``tcp`` for streams.

    Settings are the flags of the command: ``rtt="80ms"``, ``up_loss="1%"``. Steps of a scenario have their time and settings:
    ``{"at": "2s", "way": "up", "outage": "500ms"}``.
    """
    words = ["--listen", listen, "--to", to]
    words += ["--tcp"] if tcp else []
    words += ["--seed", str(seed)] if seed is not None else []
    for name, value in settings.items():
        words += ["--" + name.replace("_", "-"), value]
    if scenario is None:
        return Path(words)
    lines = [] if repeat is None else [f"repeat = {json.dumps(repeat)}"]
    for step in scenario:
        lines += ["[[step]]", *(f"{name} = {json.dumps(value)}" for name, value in step.items())]
    return Path(words, "\n".join(lines) + "\n")


# Seconds in which it begins, answers and ends.
PATIENCE = 20.0

try:
    import pytest
except ModuleNotFoundError:
    pass
else:

    @pytest.fixture
    def wan() -> Iterator[Callable[..., Path]]:
        """As :func:`start`; all paths end with the test."""
        with contextlib.ExitStack() as paths:

            def begin(to: str, **settings: Any) -> Path:
                return paths.enter_context(start(to, **settings))

            yield begin
