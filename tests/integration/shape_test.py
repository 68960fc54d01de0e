"""Jobs of any shape: the same training whatever the shape, re-shaped, killed while re-shaped, and refused."""
import json
import os
import pathlib
import signal
import tempfile
import time
import unittest

from support import free_of_ranks, newest_checkpoint, ranks_of, result, run, start


class Case(unittest.TestCase):
    """A smooth model: a kink turns rounding into another gradient."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def command(self, *extra, cluster="local:3", steps=6, model="transformer-small"):
        return ["train", "--model", model, "--cluster", cluster, "--global-batch", 12, "--steps", steps, "--lr", "0.05",
                "--optimizer", "momentum", "--json", *extra]

    def report(self, *extra, **settings):
        return result(run(*self.command(*extra, **settings)))

    def expect_same(self, got, expected):
        for loss in ("first_loss", "last_loss"):
            self.assertAlmostEqual(got[loss], expected[loss], delta=2e-5 * expected[loss], msg=loss)


class SameTraining(Case):
    def test_of_every_shape_on_processes(self):
        alone = self.report("--shape", "@0")
        self.assertNotAlmostEqual(alone["first_loss"], alone["last_loss"], places=3)
        path = self.folder / "shape.txt"
        path.write_text("# the last layers on one host\n0-3@0*.2,1-2*.4\n4-5@0\nm=6\n")
        for shape in ("@0-2", "@0*.5,1*.25,2*.25", "@1,2 m=4", "0-2@2 3-5@0,1 m=6 schedule=gpipe remat=never", path):
            with self.subTest(shape=str(shape)):
                report = self.report("--shape", shape)
                self.expect_same(report, alone)
                self.assertEqual(report["global_batch"], 12)

    def test_with_servers_and_of_a_strategy_file(self):
        alone = self.report("--shape", "@0")
        cluster = {"cluster": "lab:2x1gbit+1x1gbit/server"}
        self.expect_same(self.report("--shape", "0-2@0 3-5@0,1 m=4", "--strategy", "ps", **cluster), alone)
        path = self.folder / "strategy.json"
        path.write_text(json.dumps({"shape": {"cells": [{"begin": 0, "end": 6, "ranks": [0, 1], "shares": [0.25, 0.75]}]}}))
        self.expect_same(self.report("--shape", path, cluster="local:2"), alone)

    def test_of_a_job_that_is_reshaped(self):
        plain = self.report()
        changed = self.report("--reshape", "2=0-2@0 3-5@1,2 m=4", "--reshape", "4=@2 m=3")
        self.expect_same(changed, plain)
        self.assertEqual(changed["shape"], "@2 m=3")

    def test_goes_on_from_a_checkpoint_under_another_shape(self):
        whole = self.report()
        out = self.folder / "run"
        self.report("--shape", "0-2@1 3-5@2,0 m=4", "--out", out, steps=3)
        resumed = self.report("--shape", "@1", "--resume", out)
        self.assertEqual(resumed["first_step"], 3)
        self.assertAlmostEqual(resumed["last_loss"], whole["last_loss"], delta=2e-5 * whole["last_loss"])


class Killed(Case):
    def wait_for(self, job, log, words):
        """The lines of `log` until one has the words."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            self.assertIsNone(job.poll(), "the job ended by itself")
            if words in log.read_text():
                return
            time.sleep(0.02)
        self.fail(f"no {words!r} in:\n{log.read_text()}")

    def test_while_layers_move(self):
        """59 MB to each of two hosts over 100 Mbit/s take about 10 s, of which the job is left one."""
        out, log = self.folder / "run", self.folder / "log"
        whole = self.report(model="vgg16-32", steps=4)
        settings = ["--checkpoint-every", 1, "--out", out, "--timeout", 20]
        for culprit in (1, 0):
            with self.subTest(culprit=culprit), open(log, "w", encoding="utf-8") as errors:
                resume = ["--resume", out] if out.exists() else []
                command = self.command("--shape", "@0", "--reshape", "3=@1,2 m=2", *settings, *resume,
                                       model="vgg16-32", cluster="lab:3x100mbit", steps=100)
                job = start(*command, env={"ENTRAIN_LAB": "userspace"}, stderr=errors)
                try:
                    self.wait_for(job, log, "the shape becomes @1-2")
                    time.sleep(1)
                    self.assertNotIn("it is; rank", log.read_text(), "the layers have moved already")
                    ranks = ranks_of(job.pid)
                    os.kill(ranks[culprit], signal.SIGKILL)
                    job.communicate(timeout=45)
                    self.assertEqual(job.returncode, 1, log.read_text())
                    self.assertTrue([line for line in log.read_text().splitlines()
                                     if line.startswith("entrain:") and f"rank {culprit}" in line], log.read_text())
                    self.assertTrue(free_of_ranks(ranks.values()), "a process is left")
                finally:
                    if job.poll() is None:
                        job.kill()
                        job.communicate()
                self.assertTrue(newest_checkpoint(out).stem.endswith("3"))
                if culprit == 1:  # once more from the step before
                    newest_checkpoint(out).unlink()
        resumed = self.report("--shape", "0-12@2,1 13-15@2 m=4", "--resume", out, model="vgg16-32", steps=4)
        self.assertEqual(resumed["first_step"], 3)
        self.assertAlmostEqual(resumed["last_loss"], whole["last_loss"], delta=1e-4 * whole["last_loss"])


class Refused(Case):
    def test_in_one_line_that_names_field_value_and_what_is_allowed(self):
        cluster = "lab:3x1gbit+1x1gbit/server"
        for shape, words in (
                ("@0,4", ["rank 4 is not in the cluster", "allowed: 0, 1, 2"]),
                ("@0,3", ["rank 3 only serves parameters", "allowed: 0, 1, 2"]),
                ("0-2@0 4-5@1", ["cell 1 begins at layer 4", "allowed: 3"]),
                ("0-2@0 3-4@1", ["end before layer 5", "allowed: 6"]),
                ("@0*.5,1*.4", ["shares sum to 0.9", "allowed: 1"]),
                ("@0 m=13", ["micro_batches is 13", "allowed: at most 12"]),
                ("@0-2 m=2", ["micro_batches is 2", "allowed: 3 or more"]),
                ("@0 schedule=zigzag", ["schedule is 'zigzag'", "allowed: gpipe, 1f1b"]),
                ("7-2@0", ["'7-2@0' cannot be read", "allowed: cells as"])):
            for given in (shape, self.folder / "shape"):
                with self.subTest(shape=shape, given=str(given)):
                    (self.folder / "shape").write_text(shape + "\n")
                    done = run(*self.command("--shape", given, cluster=cluster))
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                    for word in words:
                        self.assertIn(word, done.stderr)

    def test_what_does_not_go_together(self):
        for words, extra in ((["--shape", "--pipeline"], ["--shape", "@0", "--pipeline", "2"]),
                             (["--shape", "--switch"], ["--shape", "@0", "--switch", "2=ps"]),
                             (["--batch-size", "--global-batch"], ["--batch-size", "3"]),
                             (["--reshape", "STEP=SHAPE"], ["--reshape", "@0"])):
            with self.subTest(extra):
                done = run(*self.command(*extra))
                self.assertNotEqual(done.returncode, 0)
                for word in words:
                    self.assertIn(word, done.stderr)


if __name__ == "__main__":
    unittest.main()
