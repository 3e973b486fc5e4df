"""Values of any kind are taken or refused, and nothing panics: what is made up here, and the inputs that the fuzzers keep."""

import datetime
import math
import pathlib
import random
import unittest

from softtimers import sim

CORPUS = pathlib.Path(__file__).parents[3] / "fuzz" / "corpus" / "sim_sweep"
# A part that no sweep has points in: all is read and checked, and nothing runs.
NOTHING = "1000001/1000001"
REFUSED = (ValueError, TypeError, OverflowError)
WORDS = ["none", "yes", "polled", "apache", "5", "-1", "5kpps", "40us", "1e9", "nan", "", "\0", "\ud800", "'", "1,2", "\n"]


class Other:
    """What nobody passes."""

    def __str__(self):
        raise ValueError("no text")


def value(made):
    """One value, of any kind."""
    return made.choice(
        [
            lambda: made.choice(WORDS),
            lambda: made.choice([None, True, False, math.inf, -math.inf, math.nan, -0.0, 1e308, 5e-324]),
            lambda: made.choice([-1, 1]) * made.getrandbits(made.choice([3, 16, 63, 64, 200])),
            lambda: made.gauss(0, 10.0 ** made.randrange(-12, 12)),
            lambda: datetime.timedelta(microseconds=made.randrange(-(10**9), 10**15)),
            lambda: made.choice([b"5", [], {}, (), Other(), object(), range(3), {"hip": {"ring": 5}}]),
            lambda: [(made.getrandbits(made.choice([8, 64, 65])), made.getrandbits(made.choice([8, 16, 17])))],
        ]
    )()


class ValuesTest(unittest.TestCase):
    def test_any_value_of_any_parameter_is_taken_or_refused(self):
        made, taken = random.Random(1), 0
        for experiment in sim.experiments():
            for parameter in experiment.parameters:
                for _ in range(20):
                    values = [parameter.default if made.random() < 0.3 else value(made) for _ in range(made.randrange(1, 4))]
                    how = {parameter.name: values[0]} if made.random() < 0.5 else {"axes": {parameter.name: values}}
                    for name in ("seed", "seeds", "threads", "precision", "machine"):
                        if made.random() < 0.05:
                            how[name] = value(made)
                    with self.subTest(experiment=experiment.name, how=repr(how)):
                        taken += self.is_taken(experiment.name, how)
        self.assertGreater(taken, 100)

    def test_the_corpus_of_sweeps_is_read_or_refused(self):
        inputs = sorted(CORPUS.iterdir())
        self.assertGreater(len(inputs), 5)
        taken = 0
        for experiment in sim.experiments():
            for path in inputs:
                axes = [line.partition("=") for line in path.read_bytes().decode().splitlines()]
                axes = {name: values.split(",") for name, _, values in axes}
                for one in [axes, *({name: values} for name, values in axes.items())]:
                    with self.subTest(experiment=experiment.name, axes=one):
                        taken += self.is_taken(experiment.name, {"axes": one})
        self.assertGreater(taken, 5)

    def is_taken(self, experiment, how):
        try:
            text = sim.csv(experiment, part=NOTHING, **how)
        except REFUSED:
            return False
        self.assertEqual(text.count("\n"), 1)
        return True

    def test_any_answer_of_a_policy_ends_a_run_or_is_raised(self):
        made, packets = random.Random(1), [(number * 10_000, 60) for number in range(5)]

        class Any:
            def looked(self, *look):
                return value(made) if made.random() < 0.05 else made.choice([sim.ARMED, sim.NOW, made.getrandbits(17)])

            idle = next = looked

        ended = 0
        for _ in range(500):
            try:
                ended += sim.receive(Any(), packets).packets == len(packets)
            except REFUSED:
                pass
        self.assertGreater(ended, 0)


if __name__ == "__main__":
    unittest.main()
