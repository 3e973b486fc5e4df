from typing import Any, Iterable, Optional, Union

__all__ = ["csv", "experiments", "merge", "receive", "sweep"]

def experiments() -> list[
    tuple[str, str, str, list[tuple[tuple[str, str], str]], list[tuple[str, str]]]
]: ...
def sweep(
    experiment: str,
    parameters: dict[str, Any],
    axes: Optional[dict[str, Iterable[Any]]],
    how: dict[str, Any],
) -> list[tuple[str, str, list[Any]]]: ...
def csv(
    experiment: str,
    parameters: dict[str, Any],
    axes: Optional[dict[str, Iterable[Any]]],
    how: dict[str, Any],
    part: str,
    build: str,
) -> str: ...
def merge(texts: list[str]) -> str: ...
def receive(
    policy: Any, packets: Iterable[tuple[int, int]], machine: Union[str, tuple[int, int, int, int]]
) -> tuple[int, float, float, int, int, int, int, int]: ...
