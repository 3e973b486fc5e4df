"""The snippets of docs/python.md run, one after the other, as on the page; ranges have fewer values."""

import ast
import asyncio
import inspect
import os
import pathlib
import re
import tempfile
import unittest

import softtimers.asyncio

PAGE = pathlib.Path(__file__).parents[4] / "docs" / "python.md"


class Receiver(asyncio.DatagramProtocol):
    def __init__(self):
        self.received = []

    def datagram_received(self, data, _address):
        self.received.append(data)


class PageRunsTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(directory.name)
        # The page's own words for what the reader has.
        self.names = {
            "axes": {"rate": [2_000, 8_000], "kernel": ["polled"]},
            "datagrams": [bytes([number]) for number in range(5)],
            "packets": [(number * 40_000, 1_500) for number in range(100)],
        }

    def run_snippet(self, text):
        text = re.sub(r"range\(([\d_]+), ([\d_]+), [\d_]+\)", r"range(\1, \2, 6_000)", text)
        found = eval(compile(text, PAGE.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), self.names)
        if inspect.isawaitable(found):
            softtimers.asyncio.run(self.with_transport(found))

    async def with_transport(self, snippet):
        loop = asyncio.get_running_loop()
        listening, receiver = await loop.create_datagram_endpoint(Receiver, local_addr=("127.0.0.1", 0))
        address = listening.get_extra_info("sockname")
        sending, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=address)
        self.names["transport"] = sending
        await snippet

        async def arrived():
            while len(receiver.received) < len(self.names["datagrams"]):
                await asyncio.sleep(0.001)

        await asyncio.wait_for(arrived(), 60)
        self.assertEqual(receiver.received, self.names["datagrams"])
        sending.close()
        listening.close()

    def test_all(self):
        snippets = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
        self.assertGreater(len(snippets), 5)
        for number, snippet in enumerate(snippets, 1):
            try:
                self.run_snippet(snippet)
            except Exception as error:
                raise AssertionError(f"snippet {number} of {PAGE.name} does not run:\n{snippet}") from error
        # What they leave is what the page says of it.
        self.assertEqual(self.names["frame"].shape[0], self.names["table"].num_rows)
        self.assertTrue(pathlib.Path("figure-6-3.png").read_bytes().startswith(b"\x89PNG"))
        self.assertEqual(len(self.names["text"].splitlines()), 1 + 2, "a header, and a line for each of two rates")
