"""The papers' figures and tables as plots: the model's lines beside the published points.

    import softtimers.plot

    axes = softtimers.plot.livelock("6-3")                # runs the experiment, and draws
    axes.figure.savefig("figure-6-3.png")

Every plot has the published values as open marks, where they are known, and the simulator's as a line or as filled marks of
the same colour. ``axes`` are matplotlib axes to draw into, new ones by default; keyword arguments go to ``softtimers.sim``.
``lines`` draws any other sweep in the same way. Needs matplotlib.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import sim

if TYPE_CHECKING:
    import pyarrow
    from matplotlib.axes import Axes

__all__ = ["callout", "deadline", "hip", "lines", "livelock", "pacing", "polling", "slowstart"]

#: What ``softtimers.sim`` returns: a table, or columns as lists.
Found = Union["pyarrow.Table", Mapping[str, Sequence[Any]]]


def livelock(figure: str = "6-1", *, axes: Optional[Axes] = None, **parameters: Any) -> Axes:
    """A figure of the paper on receive livelock, 6-1 and 6-3 to 7-1: a router's output by its input."""
    found = sim.columns("livelock-figures", {}, figure=figure, **parameters)
    of_user = any(share is not None for share in found["user_share"])
    y = ("user_share", "paper_user_share") if of_user else ("output_pps", "paper_pps")
    axes = lines(found, "input_pps", *y, series=["series"], axes=axes)
    axes.set(
        title=f"Receive livelock, figure {figure}",
        xlabel="input (packets/s)",
        ylabel="CPU that a user process gets (share)" if of_user else "output (packets/s)",
    )
    return axes


def pacing(*, axes: Optional[Axes] = None, **parameters: Any) -> Axes:
    """Tables VIII and IX of the paper on soft timers: the mean gap of a paced flow, by the shortest gap allowed."""
    found = sim.columns("pacing", **parameters)
    # Whole nanoseconds as they are asked for in the paper.
    found["burst_us"] = [time / 1_000 for time in found["burst_ns"]]
    found["target"] = [f"target {time / 1_000:g} µs" for time in found["target_ns"]]
    axes = lines(found, "burst_us", "mean_us", "paper_us", series=["target"], axes=axes)
    axes.set(
        title="Soft timers, pacing beside a busy web server",
        xlabel="shortest gap allowed (µs)",
        ylabel="mean gap (µs)",
    )
    return axes


def slowstart(*, axes: Optional[Axes] = None, **parameters: Any) -> Axes:
    """Tables X and XI of the paper on soft timers: how much sooner an answer is there than by slow start with delayed ACKs."""
    found = sim.columns("slowstart", **parameters)
    found["link"] = [f"{mbit} Mbit/s" for mbit in found["mbit_per_s"]]
    axes = lines(found, "packets", "reduction_delayed", "paper_reduction", series=["link"], axes=axes)
    axes.set(
        title="Soft timers, no slow start",
        xlabel="length of the answer (packets)",
        ylabel="reduction of the response time (share)",
        xscale="log",
    )
    return axes


def polling(*, axes: Optional[Axes] = None, **parameters: Any) -> Axes:
    """Table XII of the paper on soft timers: what polls gain, by the quota. The paper gives the smallest and the largest."""
    found = sim.columns("polling", **parameters)
    axes = lines(found, "quota", "gain", series=["server", "protocol"], axes=axes)
    for share in (0.03, 0.25):
        axes.axhline(share, color="gray", linestyle=":", label="published range" if share > 0.1 else None)
    axes.set(
        title="Soft timers, polls on a saturated server",
        xlabel="packets wanted in each poll",
        ylabel="more answers than with interrupts (share)",
    )
    _legend(axes, False)
    return axes


def deadline(*, axes: Optional[Axes] = None, **parameters: Any) -> Axes:
    """Table XIII of the paper on soft timers: the cost of a hardware timer for events overdue by a deadline."""
    found = sim.columns("deadline", **parameters)
    found["deadline_us"] = [time / 1_000 for time in found["deadline_ns"]]
    axes = lines(found, "deadline_us", "overhead", "paper_overhead", series=["hardware"], axes=axes)
    axes.set(
        title="Soft timers, a hardware timer behind them",
        xlabel="deadline (µs)",
        ylabel="CPU (share)",
        xscale="log",
    )
    return axes


def callout(*, axes: Optional[Axes] = None, **parameters: Any) -> Axes:
    """Table I of the paper on callouts: the cost of setting and cancelling a timer while others are outstanding."""
    found = sim.columns("callout", **parameters)
    axes = lines(found, "outstanding", "set_cancel_us", "paper_us", series=["kernel"], axes=axes)
    axes.set(
        title="Callouts: set and cancel",
        xlabel="timers outstanding",
        ylabel="time (µs)",
    )
    return axes


def hip(column: str = "overhead", *, axes: Optional[Axes] = None, **parameters: Any) -> Axes:
    """Table 3 of the paper on HIP: ``"overhead"``, CPU time for each packet, or ``"delay"``, by source and scheme."""
    if column not in ("overhead", "delay"):
        raise ValueError(f"{column}: overhead or delay")
    found = sim.columns("hip", **parameters)
    axes = _axes(axes)
    sources, schemes = _distinct(found["source"]), _distinct(found["scheme"])
    for place, scheme in enumerate(schemes):
        # Side by side, in the order of the table.
        shift = (place - (len(schemes) - 1) / 2) * 0.8 / len(schemes)
        rows = [row for row, of in enumerate(found["scheme"]) if of == scheme]
        at = [sources.index(found["source"][row]) + shift for row in rows]
        colour = f"C{place}"
        axes.plot(at, [found[f"{column}_us"][row] for row in rows], "o", color=colour, markersize=4, label=scheme)
        axes.plot(at, _numbers(found[f"paper_{column}_us"], rows), "o", color=colour, fillstyle="none", markersize=9)
    axes.set_xticks(range(len(sources)), labels=sources, rotation=20, ha="right")
    axes.set(
        title=f"HIP, Table 3: {column} for each packet",
        ylabel=f"{column} (µs)",
        yscale="log" if column == "delay" else "linear",
    )
    # In the middle there is no point: an interrupt takes at once what a poll finds a millisecond later.
    _legend(axes, place="center left" if column == "delay" else "upper left")
    return axes


def lines(
    found: Found,
    x: str,
    y: str,
    paper: Optional[str] = None,
    *,
    series: Sequence[str] = (),
    axes: Optional[Axes] = None,
) -> Axes:
    """Draws column ``y`` over column ``x`` as a line, and column ``paper`` as open marks, for each value of ``series``.

    Rows without a value of ``y`` are left out of the line. Means of several seeds have their 95% interval.
    """
    columns: Mapping[str, Sequence[Any]] = found if isinstance(found, Mapping) else found.to_pydict()
    axes = _axes(axes)
    of = list(zip(*(columns[name] for name in series))) if series else [()] * len(columns[x])
    # The names of a mean's deviation and interval are without the unit that a column of times ends with.
    interval = columns.get(f"{y[:-3] if y.endswith('_ns') else y}_ci95")
    for place, one in enumerate(_distinct(of)):
        rows = sorted((row for row, other in enumerate(of) if other == one), key=lambda row: columns[x][row])
        colour, label = f"C{place}", ", ".join(map(str, one)) or None
        at = [columns[x][row] for row in rows]
        values = _numbers(columns[y], rows)
        axes.plot(at, values, "-", color=colour, label=label)
        if interval is not None:
            half = _numbers(interval, rows)
            low, high = ([value + sign * part for value, part in zip(values, half)] for sign in (-1, 1))
            axes.fill_between(at, low, high, color=colour, alpha=0.2, linewidth=0)
        if paper is not None:
            axes.plot(at, _numbers(columns[paper], rows), "o", color=colour, fillstyle="none", markersize=5)
    axes.set(xlabel=x, ylabel=y)
    axes.set_ylim(bottom=0)
    _legend(axes, paper is not None)
    return axes


def _numbers(column: Sequence[Any], rows: List[int]) -> List[float]:
    return [float("nan") if column[row] is None else column[row] for row in rows]


def _distinct(values: Sequence[Any]) -> List[Any]:
    """In the order in which they come."""
    return list(dict.fromkeys(values))


def _axes(axes: Optional[Axes]) -> Axes:
    if axes is not None:
        return axes
    # Without pyplot: a program that draws hundreds of them need not close each.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    return figure.add_subplot()


def _legend(axes: Axes, paper: bool = True, place: str = "best") -> None:
    if paper:
        axes.plot([], [], "o", color="gray", fillstyle="none", label="published")
    handles, labels = axes.get_legend_handles_labels()
    if labels:
        axes.legend(handles, labels, fontsize="small", loc=place)
