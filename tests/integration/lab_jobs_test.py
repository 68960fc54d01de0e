"""Jobs on emulated hosts. Skips where a lab cannot be made."""
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

from support import ENTRAIN, free_of_ranks, ranks_of, result, run, start


def lab_works():
    done = run("lab", "check")
    return "yes, used" in done.stdout and not done.stdout.split("yes, used")[0].count("userspace")


@unittest.skipUnless(lab_works(), "no network namespaces here: entrain lab check says why")
class LabJobs(unittest.TestCase):
    def test_train_with_servers_of_their_own(self):
        r = result(run("train", "--model", "ncf-sparse-small", "--cluster", "lab:2x1gbit+1x10gbit/server", "--strategy",
                       "ps", "--steps", "6", "--json"))
        self.assertEqual(len(r["bytes_sent_by_rank"]), 3)

    def test_probe_writes_a_cluster_that_train_reads(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "cluster.yml")
            done = run("probe", "--cluster", "lab:1x1gbit+1x100mbit", "--megabytes", "2", "--out", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("gbit", path.read_text())
            r = result(run("train", "--model", "vgg16-small", "--cluster", path, "--steps", "5", "--json"))
            self.assertGreater(r["link_bound_s"], 0)

    def test_in_user_space(self):
        r = result(run("train", "--model", "vgg16-small", "--cluster", "lab:2x100mbit", "--steps", "5", "--json",
                       env={"ENTRAIN_LAB": "userspace"}))
        self.assertGreaterEqual(r["step_time_median_s"], 0.5 * r["link_bound_s"])

    def test_cut_off_host_is_named(self):
        """The ranks run on hosts of our own making, so that we can take one link down."""
        job = start("train", "--model", "vgg16-small", "--cluster", "lab:3x1gbit", "--steps", "1000000", "--timeout", "12")
        try:
            deadline = time.monotonic() + 60
            ranks = {}
            while len(ranks) < 3 and time.monotonic() < deadline:
                ranks = ranks_of(job.pid)
                time.sleep(0.1)
            time.sleep(4)
            subprocess.run(["nsenter", f"--net=/proc/{ranks[2]}/ns/net", "ip", "link", "set", "eth0", "down"], check=True)
            began = time.monotonic()
            _, errors = job.communicate(timeout=40)
            self.assertEqual(job.returncode, 1, errors)
            self.assertIn("rank 2", errors)
            self.assertIn("has been silent for 4 s; it is given up after 12 s", errors)  # named long before it is given up
            self.assertLess(time.monotonic() - began, 30)
            self.assertTrue(free_of_ranks(ranks.values()))
        finally:
            if job.poll() is None:
                job.kill()
                job.communicate()

    def test_kill_leaves_no_namespace(self):
        count = lambda: len(subprocess.run(["lsns", "-t", "net", "-n"], capture_output=True, text=True).stdout.splitlines())
        before = count()
        job = start("train", "--model", "vgg16-small", "--cluster", "lab:2x1gbit", "--steps", "1000000")
        time.sleep(3)
        os.kill(job.pid, signal.SIGKILL)
        job.communicate()
        deadline = time.monotonic() + 15
        while count() > before and time.monotonic() < deadline:
            time.sleep(0.2)
        self.assertEqual(count(), before)


if __name__ == "__main__":
    unittest.main()
