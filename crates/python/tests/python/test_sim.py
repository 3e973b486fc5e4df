"""The simulator as a library."""

import datetime
import signal
import threading
import unittest

from softtimers import _softtimers, sim


class ValuesTest(unittest.TestCase):
    def test_every_experiment_is_listed_with_what_it_takes_and_finds(self):
        experiments = sim.experiments()
        self.assertIn("livelock", [experiment.name for experiment in experiments])
        for experiment in experiments:
            self.assertTrue(experiment.about and experiment.details and experiment.parameters and experiment.columns)
            self.assertTrue(all(parameter.name.isidentifier() for parameter in experiment.parameters))

    def test_rows_repeat_and_do_not_depend_on_threads(self):
        found = [
            sim.columns("slowstart", {"packets": [5, 20]}, seed=3, threads=threads, seeds=2) for threads in (1, 2, 1)
        ]
        self.assertEqual(found[0], found[1])
        self.assertEqual(found[0], found[2])

    def test_values_are_taken_in_python_s_way_or_the_commands(self):
        takes = [40e-6, datetime.timedelta(microseconds=40), "40us"]
        found = [sim.columns("pacing", {}, target=target, duration="100ms") for target in takes]
        self.assertEqual(found[0], found[1])
        self.assertEqual(found[0], found[2])
        self.assertEqual(set(found[0]["target_ns"]), {40_000})

    def test_what_is_refused_says_what_is_possible(self):
        for experiment, arguments, says in (
            ("nothing", {}, "there are hip"),
            ("slowstart", {"nothing": 1}, "no parameter 'nothing'"),
            ("slowstart", {"packets": 0}, "packets=0: a whole number from 1"),
            ("slowstart", {"packets": "many"}, "a whole number"),
            ("pacing", {"target": -1.0}, "a time from"),
            ("pacing", {"target": float("nan")}, "a time from"),
            ("slowstart", {"axes": {"packets": []}}, "at least one value"),
            ("slowstart", {"axes": {"packets": [1]}, "packets": 1}, "swept, and set"),
            ("slowstart", {"axes": {"seed": [1]}, "seeds": 2}, "one of the two"),
            ("slowstart", {"seeds": 0}, "from 1 to 1000"),
            ("slowstart", {"seeds": -1}, "from 1 to 1000"),
            ("slowstart", {"threads": -1}, "from 1 to 1024"),
            ("slowstart", {"seed": -1}, "seed: a whole number from 0"),
            ("slowstart", {"seed": 1 << 64}, "seed: a whole number from 0"),
            ("slowstart", {"axes": {"seed": [-1]}}, "seed: a whole number from 0"),
            ("slowstart", {"threads": 0}, "from 1 to 1024"),
        ):
            with self.assertRaises(ValueError, msg=(experiment, arguments)) as caught:
                sim.columns(experiment, **{"axes": {}, **arguments})
            self.assertIn(says, str(caught.exception))

    def test_types_are_those_of_the_columns_and_not_of_what_was_found(self):
        def types(axes, **arguments):
            arguments = {"seed": 1, "seeds": 1, "threads": 1, "skip_infeasible": True, "progress": None, **arguments}
            return {name: kind for name, kind, _ in _softtimers.sweep("pacing", {"duration": "10ms"}, axes, **arguments)}

        found = types({"burst": ["12us"]}, seed=(1 << 64) - 1)
        self.assertEqual(found, types({"burst": ["12us", "60us"]}), "the second is not possible")
        self.assertEqual((found["seed"], found["burst_ns"], found["reason"]), ("uint64", "int64", "string"))
        self.assertEqual(types({"seed": [(1 << 64) - 1]})["seed"], "uint64")

    def test_a_table_has_the_same_values(self):
        try:
            import pyarrow
        except ImportError:
            self.skipTest("there is no pyarrow")
        table = sim.sweep("slowstart", {"packets": [5, 20]})
        self.assertEqual(table.to_pydict(), sim.columns("slowstart", {"packets": [5, 20]}))
        self.assertEqual(table.schema.field("packets").type, pyarrow.int64())
        # A column without a value has the type that it has elsewhere.
        tables = [
            sim.run("livelock", kernel="polled", quota=quota, duration="10ms", seed=seed)
            for quota, seed in [(5, 1), (None, (1 << 64) - 1)]
        ]
        self.assertEqual(pyarrow.concat_tables(tables).column("seed").to_pylist(), [1, (1 << 64) - 1])
        self.assertEqual(tables[1].column("quota").null_count, 1)
        self.assertEqual(sim.run("slowstart", packets=5).num_rows, len(sim.columns("slowstart", {}, packets=5)["seed"]))


# Far longer than anybody waits.
LONG = {"experiment": "pacing", "axes": {"seed": range(1_000)}, "duration": "100s"}
# Points that end far sooner than anybody looks.
QUICK = {"experiment": "slowstart", "axes": {"seed": range(200_000)}, "threads": 1}


class LongRunTest(unittest.TestCase):
    def test_ctrl_c_ends_a_run(self):
        def interrupt(*_):
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, interrupt)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        for run in (LONG, QUICK):
            with self.subTest(run), self.assertRaises(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, 0.1)
                sim.columns(**run)

    def test_progress_is_said_and_may_end_a_run(self):
        shares = []

        def progress(share):
            shares.append(share)
            if len(shares) == 3:
                raise StopIteration

        for run in (LONG, QUICK):
            shares.clear()
            with self.subTest(run), self.assertRaises(StopIteration):
                sim.columns(**run, progress=progress)
            self.assertEqual(shares, sorted(shares))
            self.assertLess(shares[-1], 1.0)
        sim.columns("slowstart", {}, progress=shares.append)
        self.assertEqual(shares[-1], 1.0)

    def test_other_threads_run_meanwhile(self):
        seen, ended = [], threading.Event()

        def progress(_):
            if ended.is_set():
                raise StopIteration

        def other():
            seen.append(sum(range(100_000)))
            ended.set()

        thread = threading.Timer(0.05, other)
        thread.start()
        with self.assertRaises(StopIteration):
            sim.columns(**LONG, progress=progress)
        thread.join()
        self.assertEqual(len(seen), 1)


if __name__ == "__main__":
    unittest.main()
