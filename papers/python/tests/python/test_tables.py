"""The simulator's tables: pyarrow's, and what pandas and polars make of them."""

import unittest

from softtimers import sim

try:
    import pandas
    import polars
    import pyarrow
except ImportError as error:
    missing = error.name
else:
    missing = None


@unittest.skipIf(missing, f"there is no {missing}")
class TableTest(unittest.TestCase):
    def test_a_table_has_the_same_values(self):
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

    def test_pandas_and_polars_have_the_same_values(self):
        sweep = {"axes": {"quota": [5, None], "seed": [1, (1 << 64) - 1]}, "kernel": "polled", "duration": "50ms"}
        table, lists = sim.sweep("livelock", **sweep), sim.columns("livelock", **sweep)
        of_polars = polars.from_arrow(table)
        self.assertEqual(of_polars.to_dict(as_series=False), lists)
        types = (of_polars.schema[name] for name in ("seed", "quota", "output_pps", "kernel"))
        self.assertEqual(list(types), [polars.UInt64, polars.Int64, polars.Float64, polars.String])
        of_pandas = table.to_pandas()
        self.assertEqual(list(of_pandas), list(lists))
        for name, values in lists.items():
            found = [None if pandas.isna(value) else value for value in of_pandas[name]]
            self.assertEqual(found, values, name)
        # Whole numbers without a value are floats in pandas, unless it is asked for its own types.
        kept = table.to_pandas(types_mapper={pyarrow.int64(): pandas.Int64Dtype()}.get)
        self.assertEqual(kept["quota"].dtype, pandas.Int64Dtype())


if __name__ == "__main__":
    unittest.main()
