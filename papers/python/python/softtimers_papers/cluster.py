"""Sweeps of the simulator on many machines, by Dask.

    from dask.distributed import Client
    import softtimers.cluster

    client = Client("tcp://scheduler:8786")                  # or Client(LocalCluster()), or a cluster of dask-jobqueue
    text = softtimers.cluster.sweep(client, "livelock", {"rate": range(1_000, 13_000, 100)}, seeds=20)

The text is that of ``softtimers.sim.csv`` in one process, byte for byte, whichever worker had which part and however
many workers were lost meanwhile. Every worker needs the same build of this package: parts of different builds are not
merged.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, Optional

from . import sim

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["sweep"]

#: Parts for each thread of the cluster: a lost or slow part is a small share of the whole.
PARTS_PER_THREAD = 16


def sweep(
    client: Client,
    experiment: str,
    axes: Optional[Mapping[str, Iterable[Any]]] = None,
    *,
    chunks: Optional[int] = None,
    retries: int = 5,
    progress: Optional[Callable[[float], object]] = None,
    **arguments: Any,
) -> str:
    """Runs a sweep on the workers of ``client``, and returns the text of ``softtimers.sim.csv``.

    - ``chunks``: the number of parts; 16 for each thread that the cluster has now, unless given. A part takes every
      ``chunks``-th point, so that each has cheap and expensive ones.
    - ``retries``: how often a failed part is tried again. A part whose worker is lost is given to another by Dask, up
      to ``distributed.scheduler.allowed-failures`` times, and after that counts as failed.
    - ``progress``: called with the share of the parts that is done, from 0 to 1, after each.
    - ``arguments``: those of ``softtimers.sim.csv``, except ``part`` and ``threads``: each part has one thread.

    Raises the error of a part that has failed more than ``retries`` times; unfinished parts are cancelled.
    """
    from distributed import as_completed

    for name in ("part", "threads"):
        if name in arguments:
            raise TypeError(f"{name}: a part of a sweep on a cluster has its own")
    if chunks is None:
        chunks = PARTS_PER_THREAD * max(1, sum(client.nthreads().values()))
    axes = None if axes is None else {name: _values(values) for name, values in axes.items()}
    run = uuid.uuid4().hex
    parts: Dict[str, int] = {}

    def submit(number: int, attempt: int) -> Any:
        key = f"softtimers-{experiment}-{run}-{number}-{attempt}"
        parts[key] = number
        part = f"{number + 1}/{chunks}"
        # A unique key, so that an earlier run's results on the cluster are not used for this one.
        return client.submit(sim.csv, experiment, axes, part=part, threads=1, key=key, **arguments)

    pending = {submit(number, 0) for number in range(chunks)}
    attempts = [0] * chunks
    texts: List[Optional[str]] = [None] * chunks
    try:
        completed = as_completed(pending)
        for future in completed:
            pending.discard(future)
            number = parts.pop(future.key)
            if future.status == "finished":
                texts[number] = future.result()
                # Gathered: the worker forgets it.
                future.release()
                if progress is not None:
                    progress(sum(text is not None for text in texts) / chunks)
            elif attempts[number] < retries and not isinstance(future.exception(), ValueError):
                attempts[number] += 1
                again = submit(number, attempts[number])
                pending.add(again)
                completed.add(again)
            else:
                future.result()
    finally:
        client.cancel(list(pending))
    return sim.merge(text for text in texts if text is not None)


def _values(values: Iterable[Any]) -> Any:
    """A range stays a range: it goes to the workers with every part."""
    return values if isinstance(values, range) else list(values)
