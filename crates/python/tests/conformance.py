"""Runs CPython's own tests of asyncio on softtimers' event loop, and beside it on the default one.

    python tests/conformance.py [MODULE[.CLASS] ...]        # of test.test_asyncio, such as test_events
    python tests/conformance.py --replaced                  # of the parts that are replaced
    python tests/conformance.py --record FILE PYTHON ...    # the same by each of these interpreters; for cargo lab publish

Ends with 1 if a test fails on this loop, three times, that passes on the default one; many of them ask for times that a
loaded machine does not keep. Tests take a loop class in four ways, and each
is given this one: by name (``asyncio.SelectorEventLoop``), by the default policy, as a base class, and as a selector.
"""

import io
import json
import os
import signal
import subprocess
import sys
import unittest

# Those that run loops.
MODULES = [
    "test_base_events",
    "test_buffered_proto",
    "test_events",
    "test_futures",
    "test_locks",
    "test_queues",
    "test_runners",
    "test_selector_events",
    "test_sendfile",
    "test_server",
    "test_sock_lowlevel",
    "test_streams",
    "test_subprocess",
    "test_taskgroups",
    "test_tasks",
    "test_timeouts",
    "test_unix_events",
    "test_waitfor",
    "test_selectors",
]

# Those of timers, of the wait for descriptors, of signals and child processes, and of what tasks make of them. They ask the
# default loop only where a test fails on this one.
REPLACED = [
    "test_selectors",
    "test_selector_events",
    "test_base_events",
    "test_events.EPollEventLoopTests",
    "test_sock_lowlevel.EPollEventLoopTests",
    "test_unix_events",
    "test_tasks",
]


def replace_loops(module):
    import asyncio
    import selectors
    import warnings
    from asyncio import selector_events, unix_events
    from unittest import mock

    import softtimers.asyncio
    from softtimers._selector import Selector

    class Loop(softtimers.asyncio.EventLoop):
        """Takes a selector as the tests give one: a mock is used, a real one is closed, for the loop has its own."""

        def __init__(self, selector=None):
            super().__init__()
            if isinstance(selector, mock.Mock):
                self._selector.close()
                self._selector = selector
            elif selector is not None:
                selector.close()

    warnings.simplefilter("ignore", DeprecationWarning)
    asyncio.SelectorEventLoop = asyncio.EventLoop = Loop
    unix_events.SelectorEventLoop = unix_events.EventLoop = Loop
    if module == "test_selector_events":
        selector_events.BaseSelectorEventLoop = Loop  # Elsewhere a loop without sendfile is wanted by that name.
    # The class of the default policy has another name in Python 3.14.
    for policy in ("_UnixDefaultEventLoopPolicy", "_DefaultEventLoopPolicy"):
        if hasattr(unix_events, policy):
            getattr(unix_events, policy)._loop_factory = Loop
    selectors.EpollSelector = selectors.DefaultSelector = Selector


def run_one(module, ours):
    # A shell gives its background processes a SIGINT that is ignored; some tests wait for one.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if ours:
        replace_loops(module.partition(".")[0])
    package = "test" if module == "test_selectors" else "test.test_asyncio"
    tests = unittest.defaultTestLoader.loadTestsFromName(f"{package}.{module}")
    result = unittest.TextTestRunner(stream=io.StringIO(), verbosity=0).run(tests)
    failed = {str(test.id()): text for test, text in result.failures + result.errors}
    failed.update({str(test.id()): "unexpected success" for test in result.unexpectedSuccesses})
    print(json.dumps({"run": result.testsRun, "failed": failed, "skipped": len(result.skipped)}), file=sys.__stdout__)


def ask(module, loop):
    command = [sys.executable, __file__, "--one", module, loop]
    # A test may print to either; the result is the last line.
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=900)
    lines = done.stdout.splitlines()
    try:
        return json.loads(lines[-1])
    except (IndexError, ValueError):
        why = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        return {"run": 0, "failed": {module: why[0]}, "skipped": 0}


# What differs by design.
KNOWN = {
    "test_above_fd_setsize": "one wait returns at most 1,024 descriptors; the others are ready in the next",
}


def fails_only_here(module, found):
    failed = {name: text for name, text in found["softtimers"]["failed"].items() if name.split(".")[-1] not in KNOWN}
    for _ in range(2):
        failed = {name: text for name, text in failed.items() if name not in found["default"]["failed"]}
        if not failed:
            break
        again = ask(module, "softtimers")["failed"]
        failed = {name: text for name, text in failed.items() if name in again}
    return failed


def main(modules, brief=False):
    new, known, total = {}, 0, {"default": [0, 0, 0], "softtimers": [0, 0, 0]}
    print(f"Python {sys.version.split()[0]}: run, failed, skipped")
    for module in modules:
        found = {loop: {"run": 0, "failed": {}, "skipped": 0} for loop in total}
        found["softtimers"] = ask(module, "softtimers")
        if found["softtimers"]["failed"] or not brief:
            found["default"] = ask(module, "default")
        for loop, result in found.items():
            for place, count in enumerate((result["run"], len(result["failed"]), result["skipped"])):
                total[loop][place] += count
        if all("No module named" in str(result["failed"].get(module)) for result in found.values()):
            continue  # This Python has no such tests.
        counts = {loop: (result["run"], len(result["failed"]), result["skipped"]) for loop, result in found.items()}
        print(f"{module:22} softtimers {counts['softtimers']}  default {counts['default']}", flush=True)
        known += sum(name.split(".")[-1] in KNOWN for name in found["softtimers"]["failed"])
        new.update(fails_only_here(module, found))
    print(f"{'all':22} softtimers {tuple(total['softtimers'])}  default {tuple(total['default'])}")
    for name, why in KNOWN.items():
        print(f"known to differ: {name}: {why}")
    for name, text in new.items():
        print(f"\nfails only here: {name}\n{text}")
    return {**total, "known": known}, len(new)


def record(path, pythons):
    """Runs all by each of the interpreters, and writes a file of what they found."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))
    import results

    rows = []
    for python in pythons:
        done = subprocess.run([python, "-B", __file__, "--row"], stdout=subprocess.PIPE, text=True)
        sys.stdout.write(done.stdout)
        rows.append(json.loads(done.stdout.splitlines()[-1]))
    columns = ["Python", "run", "skipped", "failed", "differ by design", "fail only here"]
    command = "python crates/python/tests/conformance.py --record FILE PYTHON ..."
    results.write(path, command, [results.table("asyncio", [(name, 0) for name in columns], rows)], python=None)


def by_command(arguments):
    if arguments[:1] == ["--one"]:
        return run_one(arguments[1], ours=arguments[2] == "softtimers")
    if arguments[:1] == ["--record"]:
        return record(arguments[1], arguments[2:])
    if arguments == ["--row"]:
        total, new = main(REPLACED, brief=True)
        run, failed, skipped = total["softtimers"]
        return print(json.dumps([sys.version.split()[0], run, skipped, failed, total["known"], new]))
    if arguments == ["--replaced"]:
        _, new = main(REPLACED, brief=True)
    else:
        _, new = main(arguments or MODULES)
    sys.exit(1 if new else 0)


if __name__ == "__main__":
    by_command(sys.argv[1:])
