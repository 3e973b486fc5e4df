"""Plots: the numbers that they show are those that were found and those that were published."""

import io
import math
import unittest

from softtimers import sim

try:
    from softtimers import plot
    import matplotlib

    matplotlib.use("Agg")
except ImportError:
    matplotlib = None


def shown(axes, marker):
    """The points of all lines with this marker, but those without a value and those of the legend."""
    drawn = [line.get_xydata() for line in axes.get_lines() if line.get_marker() == marker]
    return sorted((float(x), float(y)) for points in drawn for x, y in points if not math.isnan(y))


def paired(found, x, y):
    return sorted((float(at), float(value)) for at, value in zip(found[x], found[y]) if value is not None)


@unittest.skipIf(matplotlib is None, "there is no matplotlib")
class PlotTest(unittest.TestCase):
    def test_a_figure_of_the_paper_has_the_models_line_and_the_published_points(self):
        for figure, y, paper in (("6-3", "output_pps", "paper_pps"), ("7-1", "user_share", "paper_user_share")):
            found = sim.columns("livelock-figures", {}, figure=figure, packets=1000)
            axes = plot.livelock(figure, packets=1000)
            self.assertEqual(shown(axes, "None"), paired(found, "input_pps", y))
            self.assertEqual(shown(axes, "o"), paired(found, "input_pps", paper))
            labels = [text.get_text() for text in axes.get_legend().get_texts()]
            self.assertEqual(labels, [*dict.fromkeys(found["series"]), "published"])

    def test_tables_are_drawn(self):
        pacing, callout = plot.pacing(duration="50ms"), plot.callout(iterations=100)
        found = sim.columns("callout", iterations=100)
        self.assertEqual(shown(callout, "o"), paired(found, "outstanding", "paper_us"))
        self.assertEqual(len({point[0] for point in shown(pacing, "None")}), 6)
        for name, x, y, paper in (
            ("slowstart", "packets", "reduction_delayed", "paper_reduction"),
            ("deadline", "deadline_us", "overhead", "paper_overhead"),
        ):
            short = {"duration": "10ms"} if name == "deadline" else {}
            axes, found = getattr(plot, name)(**short), sim.columns(name, **short)
            if name == "deadline":
                found["deadline_us"] = [time / 1_000 for time in found["deadline_ns"]]
            self.assertEqual(shown(axes, "None"), paired(found, x, y))
            self.assertEqual(shown(axes, "o"), paired(found, x, paper))
        axes, found = plot.polling(packets=500), sim.columns("polling", packets=500)
        solid = [line.get_ydata() for line in axes.get_lines() if line.get_linestyle() == "-"]
        gains = sorted(float(gain) for gains in solid for gain in gains if not math.isnan(gain))
        self.assertEqual(gains, sorted(gain for gain in found["gain"] if gain is not None))
        for column in ("overhead", "delay"):
            axes = plot.hip(column)
            found = sim.columns("hip")
            drawn = [value for _, value in shown(axes, "o")]
            columns = [*found[f"{column}_us"], *(value for value in found[f"paper_{column}_us"] if value is not None)]
            self.assertEqual(sorted(drawn), sorted(columns))
        with self.assertRaisesRegex(ValueError, "overhead or delay"):
            plot.hip("interrupts")

    def test_means_have_their_interval_and_a_picture_can_be_saved(self):
        found = sim.columns("livelock", {"rate": [8_000, 4_000]}, kernel="unmodified", duration="100ms", seeds=3)
        axes = plot.lines(found, "offered_pps", "output_pps")
        self.assertEqual(len(axes.collections), 1)
        picture = io.BytesIO()
        axes.figure.savefig(picture, format="png")
        self.assertEqual(picture.getvalue()[:4], b"\x89PNG")


if __name__ == "__main__":
    unittest.main()
