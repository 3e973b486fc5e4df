"""The notebook runs from its first cell to its last."""

import os
import pathlib
import tempfile
import unittest
from unittest import mock

try:
    import ipykernel  # noqa: F401
    import nbclient
    import nbformat
    import pandas  # noqa: F401
    import pyarrow  # noqa: F401
except ImportError as error:
    missing = error.name
else:
    missing = None

PAPERS = pathlib.Path(__file__).parent.parent.parent / "examples" / "papers.ipynb"


@unittest.skipIf(missing, f"there is no {missing}")
class NotebookTest(unittest.TestCase):
    def test_the_papers_run(self):
        notebook = nbformat.read(PAPERS, as_version=4)
        self.assertFalse(any(cell.get("outputs") for cell in notebook.cells), "it is kept without what it prints")
        with tempfile.TemporaryDirectory() as directory:
            # Nothing is left in a home directory.
            kept = dict.fromkeys(("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"), directory)
            with mock.patch.dict(os.environ, kept):
                # A cell that raises ends it with what the cell raised.
                nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute(cwd=directory)
        pictures = [
            output
            for cell in notebook.cells
            for output in cell.get("outputs", [])
            if "image/png" in output.get("data", {})
        ]
        self.assertEqual(len(pictures), 3)


if __name__ == "__main__":
    unittest.main()
