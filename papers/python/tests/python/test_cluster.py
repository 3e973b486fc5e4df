"""Sweeps on a local cluster of two processes, of which one is killed."""

import os
import signal
import unittest

from softtimers import cluster, sim

try:
    from distributed import Client, LocalCluster
except ImportError:
    LocalCluster = None

# Each of the 48 points takes some hundredths of a second, so a part is under way for a while.
SWEEP = {
    "experiment": "livelock",
    "axes": {"kernel": ["unmodified", "polled"], "rate": range(1_000, 13_000, 500)},
    "duration": "4s",
    "seeds": 2,
}


@unittest.skipIf(LocalCluster is None, "there is no distributed")
class ClusterTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        local = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
        cls.addClassCleanup(local.close)
        cls.client = Client(local)
        cls.addClassCleanup(cls.client.close)

    def test_a_worker_that_is_killed_loses_no_point(self):
        killed = []

        def kill_one(share):
            if killed or share == 1:
                return
            at_work = {worker for worker, tasks in self.client.processing().items() if tasks}
            workers = self.client.run(os.getpid)
            for worker, process in workers.items():
                if worker in at_work:
                    os.kill(process, signal.SIGKILL)
                    killed.append((worker, process, share))
                    return

        text = cluster.sweep(self.client, **SWEEP, chunks=16, progress=kill_one)
        self.assertEqual(len(killed), 1)
        self.assertLess(killed[0][2], 1)
        with self.assertRaises(ProcessLookupError):
            os.kill(killed[0][1], 0)
        self.assertEqual(text, sim.csv(**SWEEP))

    def test_more_parts_than_points_are_the_whole(self):
        shares = []
        text = cluster.sweep(self.client, "slowstart", {"packets": [5, 20, 100]}, chunks=5, progress=shares.append)
        self.assertEqual(text, sim.csv("slowstart", {"packets": [5, 20, 100]}))
        self.assertEqual(shares, [0.2, 0.4, 0.6, 0.8, 1.0])

    def test_what_is_refused_is_not_tried_again(self):
        with self.assertRaisesRegex(ValueError, "packets=0: a whole number from 1"):
            cluster.sweep(self.client, "slowstart", {"packets": [0]}, retries=1_000_000)
        with self.assertRaisesRegex(TypeError, "part"):
            cluster.sweep(self.client, "slowstart", part="1/2")

    def test_the_error_of_a_part_that_fails_each_time_is_raised(self):
        with self.assertRaises(TypeError):
            cluster.sweep(self.client, "slowstart", chunks=2, retries=2, build=5)


if __name__ == "__main__":
    unittest.main()
