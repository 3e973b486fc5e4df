"""Runs the test suites of others' packages on softtimers' event loop, as their releases have them.

    python tests/suites.py --record FILE --into DIR [NAME ...]     # for cargo lab publish
    python tests/suites.py --into DIR [NAME ...]

Makes an environment of the pinned packages (suites.txt) in DIR, installs this tree's package into it unless PYTHONPATH has
one, unpacks the tests that their source releases have, and runs them with this loop in the place of asyncio's. A test that fails runs again, on this loop and on the default one: it fails
only here if it fails three times in a row, and not there. Ends with 1 if one does, with 77 if the packages cannot be installed.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

HERE = Path(__file__).resolve().parent

# For tests that make their loops themselves.
NO_PLUGINS = [f"-pno:{plugin}" for plugin in ("asyncio", "looptime_plugin", "looptime_timeproxies", "looptime_chronometers")]

# Each by pytest, in a directory with these parts of its source release, so that the installed package is what is tested. What
# asks for a network, other programs or a build of the package's own stays out, as in the package's own configuration.
SUITES = {
    "aiohttp": {
        "parts": ["tests", "pytest.ini"],
        "options": ["-o", "addopts=--strict-markers -m 'not dev_mode and not autobahn and not internal'", *NO_PLUGINS],
    },
    "looptime": {"parts": ["tests", "pyproject.toml", "README.md"], "options": []},
    "aiotools": {"parts": ["tests", "pyproject.toml"], "options": []},
    "anyio": {"parts": ["tests", "pyproject.toml"], "options": ["-k", "asyncio and not uvloop", *NO_PLUGINS]},
    # Half of its tests are of asyncio's own loop.
    "uvloop": {"parts": ["tests", "pyproject.toml"], "options": ["-k", "AIO", *NO_PLUGINS]},
    # Its reactor on asyncio; the tests come with the package.
    "twisted": {"parts": [], "options": ["--pyargs", "twisted.internet.test", "-k", "Asyncio", *NO_PLUGINS]},
}


def replaced():
    """Puts the loop in the place of asyncio's, for whatever is run next in this process."""
    sys.path.insert(0, str(HERE))
    import conformance

    conformance.replace_loops("")
    # uvloop's tests ask whether a loop is asyncio's by the module of its class.
    asyncio.SelectorEventLoop.__module__ = "asyncio.unix_events"


class Outcomes:
    """A plugin of pytest that runs only some tests, if they are named, and notes what becomes of each."""

    def __init__(self, chosen):
        self.chosen = set(chosen)
        self.skipped, self.run, self.failed = set(), set(), set()

    def pytest_collection_modifyitems(self, items):
        if self.chosen:
            items[:] = [item for item in items if item.nodeid in self.chosen]

    def pytest_collectreport(self, report):
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_runtest_logreport(self, report):
        if report.skipped and not hasattr(report, "wasxfail"):
            self.skipped.add(report.nodeid)
        elif report.when == "call":
            self.run.add(report.nodeid)
        if report.failed:
            self.failed.add(report.nodeid)


def inside(loop, file):
    """Runs pytest in this process, in this directory and on a loop; a file says with what, and gets the outcomes."""
    if loop == "softtimers":
        replaced()
    import pytest

    asked = json.loads(Path(file).read_text())
    outcomes = Outcomes(asked["chosen"])
    pytest.main(asked["arguments"], plugins=[outcomes])
    found = {"run": len(outcomes.run), "skipped": len(outcomes.skipped), "failed": sorted(outcomes.failed)}
    Path(file).write_text(json.dumps(found))
    # Some suites leave threads behind.
    os._exit(0)


def environment(into):
    """The Python of an environment that has the packages of suites.txt; made if it is not there."""
    python, wanted, made = into / "venv/bin/python", HERE / "suites.txt", into / "venv/suites.txt"
    if not made.is_file() or made.read_text() != wanted.read_text():
        subprocess.run([sys.executable, "-m", "venv", "--clear", into / "venv"], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--requirement", wanted], check=True)
        made.write_text(wanted.read_text())
    if "PYTHONPATH" not in os.environ:
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", HERE.parent], check=True)
    return python


def version(package):
    pins = dict(line.lower().split("==") for line in (HERE / "suites.txt").read_text().splitlines() if "==" in line)
    return pins[package]


def unpacked(python, into, package):
    """The directory with the tests of a package."""
    release, parts = f"{package}-{version(package)}", SUITES[package]["parts"]
    directory = into / release
    if not directory.is_dir():
        directory.mkdir()
        if parts:
            archive = into / f"{release}.tar.gz"
            if not archive.is_file():
                source = ["--no-deps", "--no-binary", ":all:", "--dest", into, f"{package}=={version(package)}"]
                subprocess.run([python, "-m", "pip", "download", "--quiet", *source], check=True)
            with tarfile.open(archive) as file:
                named = [member for member in file.getmembers() if member.name.split("/")[1:2] and member.name.split("/")[1] in parts]
                for member in named:
                    member.name = member.name.partition("/")[2]
                file.extractall(directory, members=named, filter="data")
    return directory


def ask(python, directory, loop, options, chosen=()):
    """What became of the tests, or of the chosen ones: how many ran and were skipped, and those that failed."""
    file = directory / f"{loop}.json"
    arguments = [*options, "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:codspeed", "--timeout=120"]
    file.write_text(json.dumps({"chosen": sorted(chosen), "arguments": arguments}))
    with open(directory / f"{loop}.log", "ab") as log:
        command = [python, "-B", __file__, "--inside", loop, file]
        subprocess.run(command, cwd=directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=3600)
    found = json.loads(file.read_text())
    if "failed" not in found or not (found["run"] or chosen):
        raise SystemExit(f"{directory.name} did not run: see {log.name}")
    return found


def suite(python, directory, package):
    options = SUITES[package]["options"]
    found = ask(python, directory, "softtimers", options)
    here = set(found["failed"])
    for loop in ("default", "softtimers", "softtimers"):
        if here:
            again = set(ask(python, directory, loop, options, here)["failed"])
            here = here - again if loop == "default" else here & again
    row = [f"{package} {version(package)}", found["run"], found["skipped"], len(found["failed"]), len(here)]
    print("{}: {} run, {} skipped, {} failed, {} only here".format(*row), flush=True)
    for test in sorted(here):
        print(f"fails only here: {test}")
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, required=True, metavar="DIR", help="where the environment and the tests go")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write the counts")
    parser.add_argument("names", nargs="*", choices=[*SUITES, []], help="only these")
    asked = parser.parse_args()
    asked.into.mkdir(parents=True, exist_ok=True)
    into = asked.into.resolve()
    names = asked.names or SUITES
    try:
        python = environment(into)
        directories = [unpacked(python, into, package) for package in names]
    except subprocess.CalledProcessError as error:
        print(f"skipped: {error}")
        sys.exit(77)
    rows = [suite(python, directory, package) for directory, package in zip(directories, names)]
    if asked.record:
        sys.path.insert(0, str(HERE / "../bench"))
        import results

        columns = ["tests of", "run", "skipped", "failed", "fail only here"]
        results.write(asked.record, "cargo xtask full suites", [results.table("suites", [(name, 0) for name in columns], rows)])
    sys.exit(any(row[-1] for row in rows))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        inside(*sys.argv[2:])
    main()
