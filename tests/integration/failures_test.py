"""A rank that is killed, stopped or cut off ends the job on every rank, by its name, and nothing is left."""
import os
import pathlib
import signal
import socket
import time
import unittest

from support import free_of_ranks, ranks_of, start

TIMEOUT_S = 6


class Failures(unittest.TestCase):
    def start_job(self, *extra, cluster="local:3", model="vgg16-small", timeout=TIMEOUT_S):
        """A job that is training, and the processes of its ranks."""
        job = start("train", "--model", model, "--cluster", cluster, "--steps", "1000000", "--timeout", timeout, *extra)
        self.addCleanup(self.end, job)
        wanted = 4 if cluster.startswith("lab") else 3
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            ranks = ranks_of(job.pid)
            if len(ranks) == wanted and all(self.cpu_seconds(pid) > 1.5 for pid in ranks.values()):
                time.sleep(1.5)  # past the rendezvous and the first step
                return job, ranks
            time.sleep(0.1)
        self.fail("the job did not start")

    @staticmethod
    def cpu_seconds(pid):
        try:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            return 0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @staticmethod
    def end(job):
        if job.poll() is None:
            job.kill()
        job.communicate()

    def expect_end(self, job, ranks, culprit, within):
        began = time.monotonic()
        _, errors = job.communicate(timeout=within + 20)
        took = time.monotonic() - began
        self.assertEqual(job.returncode, 1, errors)
        self.assertIn(f"rank {culprit}", errors)
        self.assertTrue(free_of_ranks(ranks.values()), "a process is left")
        return errors, took

    def test_killed_rank_is_named_once_for_all(self):
        for strategy in ("allreduce", "ps"):
            job, ranks = self.start_job("--strategy", strategy)
            os.kill(ranks[1], signal.SIGKILL)
            errors, _ = self.expect_end(job, ranks, 1, 5)
            self.assertEqual(errors.count("rank 1 on 127.0.0.1 was killed by signal 9"), 1, errors)
            self.assertLessEqual(errors.count("closed the connection"), 1, errors)
            self.assertIn("entrain: the same from rank", errors)  # the others have noticed

    def test_killed_rank_zero(self):
        job, ranks = self.start_job()
        os.kill(ranks[0], signal.SIGKILL)
        self.expect_end(job, ranks, 0, 5)

    def test_stopped_rank_is_named_after_the_deadline(self):
        job, ranks = self.start_job()
        os.kill(ranks[2], signal.SIGSTOP)
        errors, _ = self.expect_end(job, ranks, 2, TIMEOUT_S + 5)
        self.assertNotIn("rank 1 (", errors.replace("[rank 1]", ""))  # the neighbour that only waits is not blamed

    def test_a_rank_that_pauses_is_named_in_the_log_and_waited_for(self):
        job, ranks = self.start_job(timeout=60)
        os.kill(ranks[2], signal.SIGSTOP)
        time.sleep(8)
        os.kill(ranks[2], signal.SIGCONT)
        time.sleep(5)
        self.assertIsNone(job.poll())
        before = self.cpu_seconds(ranks[1])
        time.sleep(2)
        self.assertGreater(self.cpu_seconds(ranks[1]), before, "it trains on")
        job.send_signal(signal.SIGINT)
        _, errors = job.communicate(timeout=60)
        self.assertIn("has been silent for 4 s; it is given up after 60 s", errors)

    def test_killed_launcher_leaves_nothing(self):
        job, ranks = self.start_job()
        job.kill()
        job.communicate()
        deadline = time.monotonic() + 10
        while not free_of_ranks(ranks.values()) and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertTrue(free_of_ranks(ranks.values()))

    def test_strangers_do_not_disturb(self):
        job, ranks = self.start_job()
        ports = self.listening_ports([job.pid, *ranks.values()])
        for port in ports:
            for junk in (b"", b"GET / HTTP/1.0\r\n\r\n", b"\xff" * 4096):
                with socket.create_connection(("127.0.0.1", port), timeout=2) as stranger:
                    try:
                        stranger.sendall(junk)
                        stranger.settimeout(0.2)
                        stranger.recv(64)
                    except OSError:
                        pass
        time.sleep(2)
        self.assertIsNone(job.poll())
        self.assertEqual(ranks_of(job.pid), ranks)
        job.send_signal(signal.SIGINT)
        job.communicate(timeout=30)

    @staticmethod
    def listening_ports(pids):
        """TCP ports that these processes listen on; checks that all are on loopback."""
        inodes = set()
        for pid in pids:
            for fd in os.listdir(f"/proc/{pid}/fd"):
                try:
                    link = os.readlink(f"/proc/{pid}/fd/{fd}")
                except OSError:
                    continue
                if link.startswith("socket:["):
                    inodes.add(link[8:-1])
        ports = []
        for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                address, port = fields[1].split(":")
                assert address == "0100007F", f"listens on {address}"
                ports.append(int(port, 16))
        return ports

    def test_interrupt_ends_in_order(self):
        job, ranks = self.start_job()
        job.send_signal(signal.SIGINT)
        _, errors = job.communicate(timeout=30)
        self.assertNotIn("Traceback", errors)
        self.assertTrue(free_of_ranks(ranks.values()))


if __name__ == "__main__":
    unittest.main()
