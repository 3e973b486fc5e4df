"""Paths of ``softtimers wan`` from tests, with the program that ``SOFTTIMERS`` names."""

import re
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from softtimers import wan


PAGE = Path(__file__).parents[4] / "docs" / "wan-tests.md"
# What the page takes for granted: a server that answers, and a client that asks again until its time is over.
SERVER = """
import socket, threading
import pytest

class Server:
    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            _, client = self.socket.recvfrom(99)
            self.socket.sendto(b"answer", client)

@pytest.fixture
def server():
    return Server()
"""
CLIENT = """
import socket, time

class Client:
    def __init__(self, host, port):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.connect((host, port))
        self.socket.settimeout(0.2)

    def ask(self, name, timeout=20):
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            self.socket.send(name.encode())
            try:
                return self.socket.recv(99).decode()
            except OSError:
                pass
        return None

"""
ENDED = """
paths = []

def test_one(wan):
    paths.append(wan("127.0.0.1:9", rtt="10ms"))
    assert paths[0].report()["up"]["set"]["delay_ns"] == 5_000_000

def test_it_was_ended():
    assert paths[0]._process.returncode == 0
"""


class Wan(unittest.TestCase):
    def setUp(self):
        self.server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(self.server.close)
        self.server.bind(("127.0.0.1", 0))
        self.server.settimeout(20)
        self.to = "127.0.0.1:%d" % self.server.getsockname()[1]

    def send(self, path, number):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            for _ in range(number):
                client.sendto(b"x", (path.host, path.port))
        until = time.monotonic() + 20
        while path.report()["up"]["measured"]["offered"] < number and time.monotonic() < until:
            time.sleep(0.01)

    def test_what_is_lost_is_known(self):
        with wan.start(self.to, rtt="20ms", seed=7) as path:
            begin = time.monotonic()
            self.send(path, 1)
            self.server.recv(9)
            self.assertGreaterEqual(time.monotonic() - begin, 0.01)
            self.assertEqual(path.lost("up"), 0)
            path.set("up", loss="100%")
            self.send(path, 20)
            until = time.monotonic() + 20
            while path.lost("up") < 20 and time.monotonic() < until:
                time.sleep(0.01)
            self.assertEqual((path.lost("up"), path.lost("down")), (20, 0))
        self.assertEqual(path.end()["up"]["measured"]["lost"], 20)
        self.assertEqual(path.report()["up"]["measured"]["delivered"], 1)

    def test_a_scenario_changes_the_path(self):
        steps = [{"at": "1ms", "way": "up", "outage": "400ms"}, {"at": "500ms", "loss": "0%"}]
        begin = time.monotonic()
        with socket.create_server(("127.0.0.1", 0)) as server:
            to = "127.0.0.1:%d" % server.getsockname()[1]
            with wan.start(to, tcp=True, scenario=steps) as path:
                time.sleep(0.05)
                with socket.create_connection((path.host, path.port), timeout=20) as client:
                    client.sendall(b"hello")
                    accepted, _ = server.accept()
                    with accepted:
                        accepted.settimeout(20)
                        self.assertEqual(accepted.recv(5), b"hello")
                self.assertGreaterEqual(time.monotonic() - begin, 0.4)
                self.assertGreater(path.lost("up"), 0)

    def test_mistakes_are_said(self):
        with self.assertRaisesRegex(wan.WanError, "loss"):
            wan.start(self.to, loss="200%")
        with wan.start(self.to) as path:
            with self.assertRaisesRegex(wan.WanError, "error: .*los"):
                path.set(los="1%")

    def test_the_fixture_of_the_page_ends_its_paths(self):
        if subprocess.run([sys.executable, "-c", "import pytest"], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("Python has no pytest")
        files = dict(re.findall(r"^```python\n# (\w+\.py)[^\n]*\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL))
        self.assertEqual(set(files), {"conftest.py", "test_client.py"})
        files["conftest.py"] += SERVER
        files["test_client.py"] = CLIENT + files["test_client.py"] + ENDED
        with tempfile.TemporaryDirectory() as place:
            for name, text in files.items():
                Path(place, name).write_text(text)
            done = subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=place, capture_output=True, text=True
            )
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("3 passed", done.stdout)


if __name__ == "__main__":
    unittest.main()
