"""The snippets of papers/docs/sim-python.md are Python, name what there is, and the first of them runs; `test_page_runs` runs the others,
which need other packages."""

import ast
import importlib
import pathlib
import re
import unittest

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "sim-python.md"
# What needs no other package.
MODULES = ["sim"]


class PageTest(unittest.TestCase):
    def setUp(self):
        self.snippets = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
        self.assertEqual(len(self.snippets), 5)

    def test_all_are_python(self):
        for snippet in self.snippets:
            compile(snippet, PAGE.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    def test_what_they_name_is_there(self):
        found = 0
        for module in MODULES:
            loaded = importlib.import_module(f"softtimers.{module}")
            for name in re.findall(rf"softtimers\.{module}\.(\w+)", "".join(self.snippets)):
                self.assertTrue(hasattr(loaded, name), f"softtimers.{module}.{name}")
                found += 1
        self.assertGreater(found, 5)
