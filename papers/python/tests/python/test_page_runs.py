"""The snippets of papers/docs/sim-python.md run, one after the other, as on the page; ranges have fewer values."""

import os
import pathlib
import re
import tempfile
import unittest

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "sim-python.md"


class PageRunsTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(directory.name)
        # The page's own words for what the reader has.
        self.names = {
            "axes": {"rate": [2_000, 8_000], "kernel": ["polled"]},
            "packets": [(number * 40_000, 1_500) for number in range(100)],
        }

    def run_snippet(self, text):
        text = re.sub(r"range\(([\d_]+), ([\d_]+), [\d_]+\)", r"range(\1, \2, 6_000)", text)
        exec(compile(text, PAGE.name, "exec"), self.names)

    def test_all(self):
        snippets = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
        self.assertEqual(len(snippets), 5)
        for number, snippet in enumerate(snippets, 1):
            try:
                self.run_snippet(snippet)
            except Exception as error:
                raise AssertionError(f"snippet {number} of {PAGE.name} does not run:\n{snippet}") from error
        # What they leave is what the page says of it.
        self.assertEqual(self.names["frame"].shape[0], self.names["table"].num_rows)
        self.assertTrue(pathlib.Path("figure-6-3.png").read_bytes().startswith(b"\x89PNG"))
        self.assertEqual(len(self.names["text"].splitlines()), 1 + 2, "a header, and a line for each of two rates")
