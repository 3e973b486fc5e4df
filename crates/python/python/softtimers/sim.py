"""The papers on a simulated machine, as tables.

    import softtimers.sim

    table = softtimers.sim.run("livelock", kernel="polled", rate=8000)          # a pyarrow.Table
    table = softtimers.sim.sweep("livelock", {"quota": [5, 10, None]}, rate=8000)
    frame = table.to_pandas()                                                    # or polars.from_arrow(table)

Names and values are those of the command ``softtimers sim``, with ``_`` for ``-``, and so are the rows: ``experiments()``
lists them. A parameter that is a time takes seconds, a ``datetime.timedelta``, or text with a unit, such as ``"40us"``; a
rate takes a number a second, or ``"5kpps"``; a switch takes a bool; no limit is ``None``. Columns that are times have a
name that ends with ``_ns`` and are whole nanoseconds. A column has the same type in every run with as many seeds. For a seed everything repeats bit for bit, on any machine.

Tables need pyarrow (``pip install pyarrow``); ``columns`` has the same as lists, and needs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional

from . import _softtimers

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Column", "Experiment", "Parameter", "columns", "experiments", "run", "sweep"]


class Parameter(NamedTuple):
    """What can be set."""

    name: str
    about: str
    #: As the command takes it, the paper's value.
    default: str


class Column(NamedTuple):
    """What is found."""

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
        for name, about, details, parameters, columns in _softtimers.experiments()
    ]


def run(
    experiment: str,
    *,
    seed: int = 1,
    seeds: int = 1,
    progress: Optional[Callable[[float], object]] = None,
    **parameters: Any,
) -> pyarrow.Table:
    """Runs an experiment once, and returns its rows; those with ``seeds`` above 1 are means. See ``sweep``."""
    return sweep(experiment, {}, seed=seed, seeds=seeds, progress=progress, **parameters)


def sweep(
    experiment: str,
    axes: Optional[Mapping[str, Iterable[Any]]] = None,
    *,
    seed: int = 1,
    seeds: int = 1,
    threads: Optional[int] = None,
    skip_infeasible: bool = False,
    progress: Optional[Callable[[float], object]] = None,
    **parameters: Any,
) -> pyarrow.Table:
    """Runs an experiment at every combination of the values of ``axes``, and returns the rows of all, in order.

    - ``axes``: the values that each of some parameters takes, or ``seed``; the last varies fastest. ``None`` makes the
      table of the paper.
    - ``parameters``: those that are the same at all points; the paper's values unless given.
    - ``seeds``: runs each point with so many seeds from ``seed`` on. Columns are means then, followed by ``_sd``, the
      standard deviation of one run, ``_ci95``, half the length of the mean's 95% interval, and ``_n``, the seeds
      that had a value.
    - ``threads``: all CPUs unless given. The rows do not depend on it.
    - ``skip_infeasible``: points that are not possible have a row without values, and a ``reason``.
    - ``progress``: called with the share that is done, from 0 to 1, some twenty times a second.

    Raises ``ValueError`` for a value or a combination that is not possible; it says what is. Ctrl-C ends the run.
    """
    import pyarrow

    found = _softtimers.sweep(
        experiment,
        parameters,
        axes if axes is None else dict(axes),
        seed=seed,
        seeds=seeds,
        threads=threads,
        skip_infeasible=skip_infeasible,
        progress=progress,
    )
    arrays = [pyarrow.array(values, type=pyarrow.type_for_alias(kind)) for _, kind, values in found]
    return pyarrow.table(arrays, names=[name for name, _, _ in found])


def columns(
    experiment: str,
    axes: Optional[Mapping[str, Iterable[Any]]] = None,
    *,
    seed: int = 1,
    seeds: int = 1,
    threads: Optional[int] = None,
    skip_infeasible: bool = False,
    progress: Optional[Callable[[float], object]] = None,
    **parameters: Any,
) -> Dict[str, List[Any]]:
    """As ``sweep``, but returns a dictionary of lists, by name of the column, without pyarrow."""
    found = _softtimers.sweep(
        experiment,
        parameters,
        axes if axes is None else dict(axes),
        seed=seed,
        seeds=seeds,
        threads=threads,
        skip_infeasible=skip_infeasible,
        progress=progress,
    )
    return {name: values for name, _, values in found}
