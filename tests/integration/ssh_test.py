"""Jobs whose ranks are started over ssh: a real sshd on each of five emulated hosts."""
import json
import os
import pathlib
import signal
import time
import unittest

import ssh_hosts
from support import ENTRAIN, result, run

HOSTS = 4  # of the cluster; one more is outside of it
OUTSIDE = HOSTS


@unittest.skipIf(ssh_hosts.reason(), ssh_hosts.reason())
class Ssh(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = cls.enterClassContext(ssh_hosts.Hosts(HOSTS + 1)) if hasattr(cls, "enterClassContext") else None
        if cls.hosts is None:  # Python before 3.11
            cls.hosts = ssh_hosts.Hosts(HOSTS + 1)
            cls.hosts.__enter__()
            cls.addClassCleanup(cls.hosts.__exit__)

    def setUp(self):
        self.cluster = self.hosts.cluster(range(HOSTS))

    def wait_for(self, condition, what):
        deadline = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.1)

    def assert_hosts_are_idle(self):
        self.wait_for(lambda: not self.hosts.processes(), f"left behind: {self.hosts.processes()}")

    def start_training(self, host=0):
        """A job that has begun to train."""
        out = self.hosts.folder / f"run-{time.monotonic_ns()}"
        job = self.hosts.start(host, ENTRAIN, "train", "--model", "vgg16-small", "--cluster", self.cluster, "--steps",
                               "1000000", "--timeout", "60", "--out", out)
        self.addCleanup(self.end, job)
        metrics = out / "metrics.jsonl"
        self.wait_for(lambda: job.poll() is not None or (metrics.exists() and len(metrics.read_text().splitlines()) > 3),
                      "the job did not start")
        if job.poll() is not None:
            self.fail(job.communicate()[1])
        ranks = self.hosts.ranks()
        self.assertEqual(sorted(ranks), list(range(HOSTS)))
        return job, ranks

    @staticmethod
    def end(job):
        if job.poll() is None:
            job.kill()
        job.communicate()

    def test_launch_runs_a_program_on_every_host_with_its_environment(self):
        script = "echo $RANK/$WORLD_SIZE $LOCAL_RANK $ENTRAIN_BIND \"$ODD\" $(pwd); echo to stderr >&2"
        cluster = self.hosts.cluster(range(HOSTS), workers=2)
        done = self.hosts.entrain(0, "launch", "--cluster", cluster, "--env", "ODD", "--", "sh", "-c", script,
                                  env={"ODD": "it's \"$HOME\"  `id`"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, f"0/8 0 198.18.0.1 it's \"$HOME\"  `id` {self.hosts.folder}\n")
        for rank in range(1, 2 * HOSTS):
            address = f"198.18.0.{rank // 2 + 1}"
            line = f"[rank {rank} @ {address}] {rank}/8 {rank % 2} {address} it's \"$HOME\"  `id` {self.hosts.folder}"
            self.assertIn(line, done.stderr.splitlines())
            self.assertIn(f"[rank {rank} @ {address}] to stderr", done.stderr.splitlines())
        self.assert_hosts_are_idle()

    def test_many_ranks_of_a_host_do_not_overrun_its_sshd(self):
        cluster = self.hosts.cluster([1], workers=40)  # sshd drops some of more than 10 that log in at once
        done = self.hosts.entrain(0, "launch", "--cluster", cluster, "--", "sh", "-c", "echo $RANK")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 39, done.stderr)

    def test_training_gives_the_losses_of_a_local_job(self):
        command = ["train", "--model", "vgg16-small", "--steps", "6", "--seed", "3", "--json"]
        threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        expected = result(run(*command, "--cluster", f"local:{HOSTS}", env=threads))
        # The file is on no other host than the launcher's: one of the others does not see this folder.
        hidden = self.hosts.cluster(range(HOSTS), folder=self.hosts.hidden)
        for launcher in (0, 1, OUTSIDE):
            with self.subTest(launcher=launcher):
                r = result(self.hosts.entrain(launcher, *command, "--cluster", hidden))
                self.assertEqual(r["cluster"], str(hidden))
                self.assertEqual(len(r["bytes_sent_by_rank"]), HOSTS)
                self.assertAlmostEqual(r["last_loss"], expected["last_loss"], places=4)
        self.assert_hosts_are_idle()

    def test_a_hostfile_and_a_server_of_its_own(self):
        path = self.hosts.folder / "hostfile"
        path.write_text("198.18.0.2 slots=2\n198.18.0.1\n")
        r = result(self.hosts.entrain(0, "train", "--model", "vgg16-small", "--steps", "4", "--json", "--cluster", path,
                                      "--ssh", f"{self.hosts.ssh()} -i {self.hosts.folder}/user_key", "--ssh-port",
                                      ssh_hosts.PORT))
        self.assertEqual(len(r["bytes_sent_by_rank"]), 3)
        text = self.cluster.read_text().replace("198.18.0.4, ssh_config: lab, workers: 1", "198.18.0.4, ssh_config: lab, role: server")
        self.cluster.write_text(text)
        r = result(self.hosts.entrain(0, "train", "--model", "ncf-sparse-small", "--strategy", "ps", "--steps", "4", "--json",
                                      "--cluster", self.cluster))
        self.assertEqual(len(r["bytes_sent_by_rank"]), HOSTS)

    def test_probe_writes_a_cluster_that_train_reads(self):
        measured = self.hosts.folder / "measured.yml"
        done = self.hosts.entrain(0, "probe", "--cluster", self.cluster, "--megabytes", "1", "--out", measured)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("gbit", measured.read_text())
        r = result(self.hosts.entrain(0, "train", "--model", "vgg16-small", "--cluster", measured, "--steps", "4", "--json"))
        self.assertGreater(r["link_bound_s"], 0)

    def test_tune_from_a_host_of_the_cluster_and_from_outside(self):
        for launcher in (0, OUTSIDE):
            with self.subTest(launcher=launcher):
                out = self.hosts.folder / f"tune-{launcher}"
                command = ["tune", "--model", "ncf-sparse-small", "--cluster", self.cluster, "--trials", "2", "--steps", "2",
                           "--most-steps", "2", "--json"]
                r = result(self.hosts.entrain(launcher, *command, "--out", out))
                self.assertTrue((out / "best.json").exists())
                self.assertEqual(r["cluster"], str(self.cluster))
                done = self.hosts.entrain(launcher, *command, "--out", out)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual(done.stderr.count("--resume"), 1, done.stderr)
        self.assert_hosts_are_idle()

    def test_a_killed_rank_ends_all_and_is_named_once(self):
        job, ranks = self.start_training()
        os.kill(ranks[2], signal.SIGKILL)
        _, errors = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 1, errors)
        lines = [line for line in errors.splitlines() if "entrain: " in line]
        self.assertEqual(sum("rank 2 on 198.18.0.3 was killed by signal 9" in line for line in lines), 1, errors)
        self.assertLessEqual(sum("closed the connection" in line for line in lines), 1, errors)
        self.assert_hosts_are_idle()

    def test_kill_9_of_the_launcher_leaves_nothing_behind(self):
        for launcher in (0, OUTSIDE):
            with self.subTest(launcher=launcher):
                job, _ = self.start_training(launcher)
                job.kill()
                job.communicate()
                self.assert_hosts_are_idle()

    def test_signals_end_the_job_in_order(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number=number):
                job, _ = self.start_training()
                job.send_signal(number)
                out, errors = job.communicate(timeout=90)
                self.assertEqual(job.returncode, 128 + number, errors)
                self.assertRegex(out, r"go on with +--resume")  # the ranks have saved a checkpoint
                self.assert_hosts_are_idle()

    def test_no_command_line_shows_the_token(self):
        job, ranks = self.start_training(OUTSIDE)
        variables = pathlib.Path(f"/proc/{ranks[3]}/environ").read_bytes().split(b"\0")
        token = next(v for v in variables if v.startswith(b"ENTRAIN_TOKEN=")).split(b"=")[1]
        self.assertGreater(len(token), 16)
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    self.assertNotIn(token, (entry / "cmdline").read_bytes(), entry)
                except OSError:
                    pass
        job.send_signal(signal.SIGTERM)
        job.communicate(timeout=90)

    def expect_failure(self, words, *args, code=1, host=0, env=None):
        done = self.hosts.entrain(host, *args, env=env)
        self.assertEqual(done.returncode, code, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertLessEqual(len(done.stderr.splitlines()), 2, done.stderr)  # the failure, and who has the same
        self.assert_hosts_are_idle()
        return done.stderr

    def test_what_ssh_refuses_is_explained(self):
        wrong = self.hosts.cluster(range(HOSTS), key="wrong_key")
        self.expect_failure(["Permission denied", "ssh-copy-id", "the same from ranks"], "launch", "--cluster", wrong, "--",
                            "true")
        self.cluster = self.hosts.cluster(range(HOSTS))
        strange = "ssh -F none -o UserKnownHostsFile=/dev/null -o GlobalKnownHostsFile=/dev/null"
        self.expect_failure(["Host key verification failed", "known_hosts"], "launch", "--cluster", self.cluster, "--ssh",
                            strange, "--", "true")
        self.expect_failure(["refused", "Is sshd running there"], "launch", "--cluster", self.cluster, "--ssh-port", "2299",
                            "--", "true")
        lost = self.hosts.folder / "lost.yml"
        lost.write_text("nodes: [{address: 198.18.0.1}, {address: 198.18.0.2, ssh_config: nosuch}]\n")
        self.expect_failure(["198.18.0.2", "nosuch"], "launch", "--cluster", lost, "--", "true", code=2)

    def test_what_a_host_lacks_is_named(self):
        program = self.hosts.hidden / "program"
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        self.expect_failure(["host 198.18.0.4 has no program", str(program), "same path"],
                            "launch", "--cluster", self.cluster, "--", program)
        folder = self.hosts.hidden / "folder"
        folder.mkdir()
        self.expect_failure(["host 198.18.0.4 has no folder", str(folder), "--workdir"],
                            "launch", "--cluster", self.cluster, "--workdir", folder, "--", "true")
        self.expect_failure(["nosuchprogram", "the same from ranks"], "launch", "--cluster", self.cluster, "--",
                            "nosuchprogram", host=OUTSIDE)

    def test_bad_input_is_told_once(self):
        self.expect_failure(["nosuch", "vgg16"], "train", "--model", "nosuch", "--cluster", self.cluster, code=2)
        self.expect_failure(["nosuch", "vgg16", "the same from ranks"], "train", "--model", "nosuch", "--cluster",
                            self.cluster, code=2, host=OUTSIDE)

    def test_a_rank_starts_no_ranks(self):
        done = self.hosts.entrain(0, "launch", "--cluster", self.cluster, "--", "true", env={
            "ENTRAIN_RANK": "0", "ENTRAIN_WORLD": "1", "ENTRAIN_RENDEZVOUS": "198.18.0.1:29400", "ENTRAIN_TOKEN": "x"})
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("already rank 0", done.stderr)


if __name__ == "__main__":
    unittest.main()
