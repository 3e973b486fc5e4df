"""The snippets of docs/python.md are Python, name what there is, and run."""

import ast
import asyncio
import importlib
import inspect
import pathlib
import re
import unittest

import softtimers.asyncio

PAGE = pathlib.Path(__file__).parents[4] / "docs" / "python.md"
# What needs no other package.
MODULES = ["asyncio"]


class Receiver(asyncio.DatagramProtocol):
    def __init__(self):
        self.received = []

    def datagram_received(self, data, _address):
        self.received.append(data)


class PageTest(unittest.TestCase):
    def setUp(self):
        self.snippets = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
        self.assertEqual(len(self.snippets), 2)

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
        self.assertGreater(found, 0)

    def test_they_run(self):
        # The page's own words for what the reader has.
        self.names = {"datagrams": [bytes([number]) for number in range(5)]}
        for snippet in self.snippets:
            found = eval(compile(snippet, PAGE.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), self.names)
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
