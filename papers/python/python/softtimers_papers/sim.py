"""The papers on a simulated machine, as tables.

    import softtimers.sim

    table = softtimers.sim.run("livelock", kernel="polled", rate=8000)          # a pyarrow.Table
    table = softtimers.sim.sweep("livelock", {"quota": [5, 10, None]}, rate=8000)
    frame = table.to_pandas()                                                    # or polars.from_arrow(table)

Names and values are those of the command ``softtimers sim``, with ``_`` for ``-``, and so are the rows: ``experiments()``
lists them. A parameter that is a time takes seconds, a ``datetime.timedelta``, or text with a unit, such as ``"40us"``; a
rate takes a number a second, or ``"5kpps"``; a switch takes a bool; no limit is ``None``; a recording takes packets, each a
time in whole nanoseconds and a length in bytes. Columns that are times have a name that ends with ``_ns`` and are whole
nanoseconds. A column has the same type in every run with as many seeds. With the same seed everything repeats bit for bit,
on any machine.

Tables need pyarrow (``pip install pyarrow``); ``columns`` returns the same as lists, without pyarrow. ``csv`` returns
the text that the command prints, optionally for a part of the points, and ``merge`` puts parts together;
``softtimers.cluster`` does that on many machines. ``receive`` runs your own receive policy, a Python object, on the
simulated machine of HIP.
"""

from __future__ import annotations

import functools
import hashlib
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple, Union

from . import _sim

if TYPE_CHECKING:
    import pyarrow

__all__ = [
    "ARMED",
    "NOW",
    "Column",
    "Costs",
    "Experiment",
    "Parameter",
    "Received",
    "columns",
    "csv",
    "experiments",
    "merge",
    "receive",
    "run",
    "sweep",
]


class Parameter(NamedTuple):
    """A parameter of an experiment."""

    name: str
    about: str
    #: As the command takes it, the paper's value.
    default: str


class Column(NamedTuple):
    """A column of an experiment's results."""

    name: str
    about: str


class Experiment(NamedTuple):
    """An experiment of a paper."""

    name: str
    about: str
    #: The model, in a paragraph.
    details: str
    parameters: List[Parameter]
    columns: List[Column]


def experiments() -> List[Experiment]:
    """All experiments, with their parameters and columns."""
    return [
        Experiment(
            name,
            about,
            details,
            [Parameter(*named, default) for named, default in parameters],
            [Column(*column) for column in columns],
        )
        for name, about, details, parameters, columns in _sim.experiments()
    ]


def run(
    experiment: str,
    *,
    seed: int = 1,
    seeds: int = 1,
    precision: Optional[str] = None,
    machine: Union[str, Mapping[str, Any], None] = None,
    progress: Optional[Callable[[float], object]] = None,
    **parameters: Any,
) -> pyarrow.Table:
    """Runs an experiment once, and returns its rows; those with ``seeds`` above 1 are means. See ``sweep``."""
    how: Dict[str, Any] = {"seed": seed, "seeds": seeds, "precision": precision, "machine": machine}
    return sweep(experiment, {}, progress=progress, **how, **parameters)


def sweep(
    experiment: str,
    axes: Optional[Mapping[str, Iterable[Any]]] = None,
    *,
    seed: int = 1,
    seeds: int = 1,
    threads: Optional[int] = None,
    precision: Optional[str] = None,
    skip_infeasible: bool = False,
    machine: Union[str, Mapping[str, Any], None] = None,
    progress: Optional[Callable[[float], object]] = None,
    **parameters: Any,
) -> pyarrow.Table:
    """Runs an experiment at every combination of the values of ``axes``, and returns the rows of all, in order.

    - ``axes``: the values that each of some parameters takes, or ``seed``; the last varies fastest. ``None`` makes the
      table of the paper.
    - ``parameters``: those that are the same at all points; the paper's values unless given.
    - ``seeds``: runs each point with this many seeds from ``seed`` on. Columns are means then, followed by ``_sd``, the
      standard deviation of one run, ``_ci95``, half the length of the mean's 95% interval, and ``_n``, the seeds
      that had a value.
    - ``threads``: all CPUs unless given. The rows do not depend on it.
    - ``precision``: ``"delay_us=2%"`` ends a point before its last seed when that column's interval is so narrow.
    - ``skip_infeasible``: points that are not possible have a row without values, and a ``reason``.
    - ``machine``: another than the paper's, ``"alpha-3000"`` or ``"pentium-ii"``, or a mapping as ``tomllib`` reads it from
      the file of ``softtimers sim machine``.
    - ``progress``: called with the finished share, from 0 to 1, some twenty times a second.

    Raises ``ValueError`` for an invalid value or combination; its message says what is allowed. Ctrl-C ends the run.
    """
    import pyarrow

    how = _how(seed, seeds, threads, precision, skip_infeasible, machine, progress)
    found = _sim.sweep(experiment, parameters, None if axes is None else dict(axes), how)
    arrays = [pyarrow.array(values, type=pyarrow.type_for_alias(kind)) for _, kind, values in found]
    return pyarrow.table(arrays, names=[name for name, _, _ in found])


def columns(
    experiment: str,
    axes: Optional[Mapping[str, Iterable[Any]]] = None,
    *,
    seed: int = 1,
    seeds: int = 1,
    threads: Optional[int] = None,
    precision: Optional[str] = None,
    skip_infeasible: bool = False,
    machine: Union[str, Mapping[str, Any], None] = None,
    progress: Optional[Callable[[float], object]] = None,
    **parameters: Any,
) -> Dict[str, List[Any]]:
    """As ``sweep``, but returns a dictionary of lists, by name of the column, without pyarrow."""
    how = _how(seed, seeds, threads, precision, skip_infeasible, machine, progress)
    found = _sim.sweep(experiment, parameters, None if axes is None else dict(axes), how)
    return {name: values for name, _, values in found}


def csv(
    experiment: str,
    axes: Optional[Mapping[str, Iterable[Any]]] = None,
    *,
    part: str = "1/1",
    build: Optional[str] = None,
    seed: int = 1,
    seeds: int = 1,
    threads: Optional[int] = None,
    precision: Optional[str] = None,
    skip_infeasible: bool = False,
    machine: Union[str, Mapping[str, Any], None] = None,
    progress: Optional[Callable[[float], object]] = None,
    **parameters: Any,
) -> str:
    """As ``sweep``, but returns the text that ``softtimers sim EXPERIMENT --csv`` prints for the same.

    - ``part``: ``"I/N"`` runs every N-th point from the I-th on, as ``--part`` does; for ``merge``.
    - ``build``: the SHA-256 of the program that the column of that name shows, as 64 hexadecimal digits. Unless given it
      is that of this package's library, so that parts of different builds are not merged.

    The command numbers a sweep by the texts of its axes too: give ``"0.25"`` where its line has ``0.25``, or ``"500us"``.
    """
    how = _how(seed, seeds, threads, precision, skip_infeasible, machine, progress)
    build = _build() if build is None else build
    return _sim.csv(experiment, parameters, None if axes is None else dict(axes), how, part, build)


def merge(texts: Iterable[str]) -> str:
    """Puts the parts of one sweep together, in whatever order they are: byte for byte the text of one run.

    Raises ``ValueError`` if a text is cut off or of another sweep, or if points are missing or there twice.
    """
    return _sim.merge(list(texts))


#: The answer of a policy: by an interrupt, when the next packet comes.
ARMED = None
#: The answer of a policy: poll again at once.
NOW = 0


class Costs(NamedTuple):
    """The costs of the receiving machine's work, in nanoseconds; the defaults are those of HIP's Table 2."""

    interrupt: int = 5_000
    #: At least 1.
    poll: int = 500
    #: Of 1,500 bytes; of a packet in proportion.
    transfer: int = 500
    #: Between interrupts and polls.
    switch: int = 1_000


class Received(NamedTuple):
    """The results of a run: the columns of HIP's Table 3."""

    packets: int
    #: CPU time for each packet, in microseconds.
    overhead_us: float
    #: The mean time from an arrival to the end of the interrupt or poll that takes it, in microseconds.
    delay_us: float
    #: The longest such time, in nanoseconds.
    longest_delay_ns: int
    interrupts: int
    #: Whether they found packets or not.
    polls: int
    #: Empty polls.
    unsuccessful: int
    #: Changes between interrupts and polls.
    switches: int


def receive(policy: Union[str, Any], packets: Iterable[Tuple[int, int]], costs: Union[str, Costs] = "hip") -> Received:
    """Receives packets under a policy, on the simulated machine of the paper on HIP.

    - ``packets``: of each the time of its arrival, in whole nanoseconds, and its length in bytes; in the order of the
      times, which count from the first.
    - ``policy``: the name of a policy of the library, with settings if necessary: ``"interrupts"``, ``"hip"``,
      ``"delay-bound:time=500us"``; or your own object.
    - ``costs``: those of ``"hip"``, of the ``"cm5"``, or ``Costs``.

    An object has the method ``looked(began, ended, found)``. It is called after each interrupt and each poll, with its
    begin and end in nanoseconds and the packets that it took, and returns when to look next: ``ARMED``, ``NOW``, or a
    time in nanoseconds. The first look is by an interrupt. It may have

    - ``arrived(at)``, called for each packet, in order;
    - ``idle(now)``, called when the CPU has no other work after a look; it returns as ``looked`` does;
    - ``next()``, which returns the decision that holds, also before the first look.

    An exception of the object ends the run and is raised here.
    """
    return Received(*_sim.receive(policy, packets, costs))


@functools.lru_cache(maxsize=None)
def _build() -> str:
    with open(_sim.__file__, "rb") as library:
        return hashlib.sha256(library.read()).hexdigest()


def _how(
    seed: int,
    seeds: int,
    threads: Optional[int],
    precision: Optional[str],
    skip_infeasible: bool,
    machine: Any,
    progress: Any,
) -> Dict[str, Any]:
    return {
        "seed": seed,
        "seeds": seeds,
        "threads": threads,
        "precision": precision,
        "skip_infeasible": skip_infeasible,
        "machine": machine,
        "progress": progress,
    }
