"""The simulator as a library."""

import datetime
import hashlib
import signal
import threading
import unittest

from softtimers_papers import _sim
from softtimers import sim


# A mapping that contains itself.
ENDLESS: "dict[str, object]" = {}
ENDLESS["endless"] = ENDLESS


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
            ("hip", {"seeds": 20, "precision": "delay_us"}, "a precision is COLUMN=SHARE"),
            ("hip", {"seeds": 20, "precision": "speed=1%"}, "there are packets, overhead_us"),
            ("hip", {"seeds": 5, "precision": "delay_us=1%"}, "more than ten seeds"),
            ("hip", {"machine": "vax"}, "machine=vax: one of alpha-3000, pentium-ii"),
            ("hip", {"machine": {"based-on": "vax"}}, "based-on=vax: one of alpha-3000"),
            ("hip", {"machine": {"hip": {"ring": 0}}}, "hip.ring=0: a whole number from 1 to 65536, or None"),
            ("hip", {"machine": {"hip": {"rings": 1}}}, "hip.rings: no such key"),
            ("hip", {"machine": {}}, "hip.interrupt is missing"),
            ("hip", {"machine": ENDLESS}, "no section endless"),
            ("callout", {"machine": "pentium-ii"}, "callout has none to be set"),
            ("hip", {"trace": "file.pcap"}, "files are read by the command"),
            ("hip", {"trace": []}, "there are no packets"),
            ("hip", {"trace": [(2, 60), (1, 60)]}, "1 packets come before"),
        ):
            with self.assertRaises(ValueError, msg=(experiment, arguments)) as caught:
                sim.columns(experiment, **{"axes": {}, **arguments})
            self.assertIn(says, str(caught.exception))

    def test_a_machine_a_precision_and_packets_of_yours_are_those_of_the_command(self):
        packets = [(number * 1_000_000, 1_500) for number in range(100)]
        machine = {"based-on": "pentium-ii", "hip": {"interrupt": "7us", "poll": 5e-7, "ring": None}}
        found = [
            sim.columns("hip", {}, scheme="interrupts", trace=packets, machine=machine)
            for machine in (None, "pentium-ii", machine)
        ]
        self.assertEqual([columns["packets"] for columns in found], 3 * [[100]])
        overheads = [columns["overhead_us"][0] for columns in found]
        # An interrupt of the papers and the transfer of 1,500 bytes; then the other interrupts.
        self.assertEqual(overheads[0], 5.5)
        self.assertAlmostEqual(overheads[2], overheads[1] + 7.0 - 4.45)
        self.assertNotIn("machine_sha256", found[0])
        self.assertEqual(len({columns["machine_sha256"][0] for columns in found[1:]}), 2)
        self.assertEqual(len({columns["trace_sha256"][0] for columns in found}), 1)
        certain = sim.columns("hip", {}, trace=packets, seeds=20, precision="delay_us=1%")
        self.assertEqual(set(certain["seeds"]), {10})

    def test_types_are_those_of_the_columns_and_not_of_what_was_found(self):
        def types(axes, **arguments):
            how = {"seed": 1, "seeds": 1, "threads": 1, "precision": None, "machine": None, "progress": None}
            arguments = {**how, "skip_infeasible": True, **arguments}
            return {name: kind for name, kind, _ in _sim.sweep("pacing", {"duration": "10ms"}, axes, arguments)}

        found = types({"burst": ["12us"]}, seed=(1 << 64) - 1)
        self.assertEqual(found, types({"burst": ["12us", "60us"]}), "the second is not possible")
        self.assertEqual((found["seed"], found["burst_ns"], found["reason"]), ("uint64", "int64", "string"))
        self.assertEqual(types({"seed": [(1 << 64) - 1]})["seed"], "uint64")


class TextTest(unittest.TestCase):
    def test_a_merge_of_nothing_is_refused(self):
        with self.assertRaisesRegex(ValueError, "nothing to merge"):
            sim.merge([])

    def test_parts_are_merged_in_any_order_and_only_with_their_own(self):
        sweep = {"experiment": "slowstart", "axes": {"packets": [5, 20, 100]}, "seed": 7}
        whole = sim.csv(**sweep)
        parts = [sim.csv(**sweep, part=f"{number}/4") for number in (4, 2, 1, 3)]
        self.assertEqual(sim.merge(parts), whole)
        self.assertEqual(sim.merge(iter([whole])), whole)
        other = sim.csv("slowstart", {"packets": [5, 20, 100]}, seed=8, part="1/4")
        built = sim.csv(**sweep, part="1/4", build=64 * "0")
        for texts, says in (
            (parts[:3], "1 of 3 points are missing, the first is 3"),
            ([*parts, parts[1]], "file '5', line 2: point 2 is in an earlier file"),
            ([parts[0], parts[1], other], "of another sweep"),
            ([parts[0], parts[1], built], "of another sweep"),
            ([whole[:-1]], "cut off"),
            (["seed\n"], "no part of a sweep"),
        ):
            with self.assertRaises(ValueError) as caught:
                sim.merge(texts)
            self.assertIn(says, str(caught.exception))

    def test_the_library_is_the_build_unless_another_is_named(self):
        def build(**arguments):
            header, row = (line.split(",") for line in sim.csv("slowstart", {}, packets=5, **arguments).splitlines())
            return row[header.index("build")]

        with open(_sim.__file__, "rb") as library:
            self.assertEqual(build(), hashlib.sha256(library.read()).hexdigest())
        self.assertEqual(build(build=64 * "A"), 64 * "a")

    def test_a_part_and_a_build_that_are_none_are_refused(self):
        for arguments, says in (
            ({"part": "3/2"}, "part=3/2: a part is I/N"),
            ({"part": "0/2"}, "part=0/2"),
            ({"build": "0123"}, "64 hexadecimal digits"),
            ({"build": 64 * "é"}, "64 hexadecimal digits"),
        ):
            with self.assertRaises(ValueError) as caught:
                sim.csv("slowstart", {}, packets=5, **arguments)
            self.assertIn(says, str(caught.exception))


MS = 1_000_000


class PolicyTest(unittest.TestCase):
    packets = [(number * MS, 1_500) for number in range(100)]

    def test_a_policy_says_when_the_machine_looks(self):
        class Every(list):
            def looked(self, began, ended, found):
                self.append((began, ended, found))
                return began + 10 * MS

        every = Every()
        received = sim.receive(every, self.packets)
        self.assertEqual((received.packets, received.interrupts, received.unsuccessful), (100, 1, 0))
        self.assertEqual(received.polls, len(every) - 1)
        # The first packet by an interrupt of 5 us and a transfer; the next look when it wanted it, and ten packets then.
        self.assertEqual(every[:2], [(0, 5_500, 1), (10 * MS, 10 * MS + 500 + 10 * 500, 10)])
        self.assertEqual(sum(found for _, _, found in every), 100)

    def test_it_is_told_of_packets_and_asked_where_it_wants_to_be(self):
        class Asked:
            answer, arrivals, idles = sim.NOW, [], []

            def arrived(self, at):
                self.arrivals.append(at)

            def idle(self, now):
                self.idles.append(now)
                return sim.ARMED

            def looked(self, began, ended, found):
                self.answer = sim.ARMED
                return self.answer

            def next(self):
                return self.answer

        asked = Asked()
        received = sim.receive(asked, self.packets[:5])
        self.assertEqual(asked.arrivals, [at for at, _ in self.packets[:5]])
        self.assertGreaterEqual(len(asked.idles), 5)
        self.assertEqual((received.packets, received.polls + received.interrupts > 0), (5, True))

    def test_armed_for_ever_is_interrupts_and_costs_count(self):
        class Armed:
            def looked(self, *look):
                return sim.ARMED

        self.assertEqual(sim.receive(Armed(), self.packets), sim.receive("interrupts", self.packets))
        costs = sim.Costs(interrupt=7_000, transfer=1_000)
        self.assertEqual(sim.receive(Armed(), self.packets, costs).overhead_us, 8.0)
        self.assertEqual(sim.receive(Armed(), self.packets, "cm5").overhead_us, 20.0)

    def test_what_it_raises_ends_the_run_and_is_raised(self):
        class Raises:
            calls = 0

            def looked(self, began, ended, found):
                self.calls += 1
                if self.calls == 3:
                    raise LookupError("the third look")
                return ended

        raises = Raises()
        with self.assertRaisesRegex(LookupError, "the third look"):
            sim.receive(raises, self.packets)
        self.assertEqual(raises.calls, 3)

        class Wrong:
            answer = "soon"

            def looked(self, *look):
                return self.answer

        with self.assertRaises(TypeError):
            sim.receive(Wrong(), self.packets)
        Wrong.answer = -1
        with self.assertRaises(OverflowError):
            sim.receive(Wrong(), self.packets)
        Wrong.answer = (1 << 64) - 1
        self.assertEqual(sim.receive(Wrong(), self.packets).packets, 100)

    def test_what_is_refused_says_what_is_possible(self):
        for arguments, says in (
            (("nothing", self.packets), "policy 'nothing'"),
            (("delay-bound:time=soon", self.packets), "quota=PACKETS, time=TIME"),
            (("delay-bound:quota", self.packets), "quota=PACKETS, time=TIME"),
            (("delay-bound:idle=never", self.packets), "quota=PACKETS, time=TIME"),
            (("delay-bound:", self.packets), "quota=PACKETS, time=TIME"),
            (("delay-bound:quota=5,quota=9", self.packets), "each once"),
            (("delay-bound:time=1ms,time=2ms", self.packets), "each once"),
            (("delay-bound:idle=poll,idle=wake-up", self.packets), "each once"),
            (("interrupts:quota=5", self.packets), "interrupts does not have all of these settings"),
            (("interrupts", []), "no packets"),
            (("interrupts", [(2, 60), (1, 60)]), "1 packets come before"),
            (("interrupts", self.packets, "vax"), "hip, cm5, or four costs"),
            (("interrupts", self.packets, sim.Costs(poll=0)), "at least a nanosecond"),
        ):
            with self.assertRaises(ValueError) as caught:
                sim.receive(*arguments)
            self.assertIn(says, str(caught.exception))
        with self.assertRaises(AttributeError):
            sim.receive(object(), self.packets)
        self.assertEqual(sim.receive("delay-bound:time=500us", self.packets).packets, 100)


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
