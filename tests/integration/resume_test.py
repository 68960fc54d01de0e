"""Checkpoints: a killed job goes on from its newest one, bit for bit."""
import array
import contextlib
import json
import os
import pathlib
import shutil
import signal
import tempfile
import time
import unittest

from support import newest_checkpoint, ranks_of, read_tensors, result, run, start


class Resume(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def train(self, out, steps, *extra, strategy="allreduce", model="cnn7-small"):
        return ["train", "--model", model, "--cluster", "local:2", "--strategy", strategy, "--optimizer", "adam",
                "--batch-size", "2", "--steps", steps, "--out", out, "--json", *extra]

    def parameters(self, out):
        tensors, metadata = read_tensors(newest_checkpoint(out))
        return tensors, int(metadata["step"])

    def test_a_job_that_diverges_keeps_its_last_good_checkpoint(self):
        out = self.folder / "diverged"
        result(run(*self.train(out, 4)))
        good, _ = self.parameters(out)
        done = run(*self.train(out, 40, "--resume", out, "--checkpoint-every", 1), "--lr", "1e30")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"rank \d+, step 5: the loss is")
        kept, newest = self.parameters(out)
        self.assertEqual(newest, 4, "the parameters of step 5 give a loss that is not finite")
        self.assertEqual(kept, good)
        self.assertTrue(list(out.glob("checkpoint-*5.safetensors.not-finite")))
        again = result(run(*self.train(out, 6, "--resume", out), "--lr", "1e-4"))
        self.assertEqual(again["first_step"], 4)

    def test_resume_is_bit_exact(self):
        for strategy in ("allreduce", "ps"):
            whole, halves = self.folder / f"whole-{strategy}", self.folder / f"halves-{strategy}"
            result(run(*self.train(whole, 12, strategy=strategy)))
            result(run(*self.train(halves, 6, strategy=strategy)))
            resumed = result(run(*self.train(halves, 12, "--resume", halves, strategy=strategy)))
            self.assertEqual(resumed["first_step"], 6)
            expected, step = self.parameters(whole)
            got, other = self.parameters(halves)
            self.assertEqual((step, other), (12, 12))
            self.assertEqual(sorted(expected), sorted(got))
            for name in expected:
                self.assertEqual(expected[name], got[name], f"{strategy}: {name}")

    def test_four_ranks_checkpoint_resumes_on_two_and_three(self):
        def train(out, ranks, steps, lr, *extra, strategy="ps"):
            return result(run("train", "--model", "cnn7-small", "--cluster", f"local:{ranks}", "--strategy", strategy,
                              "--optimizer", "momentum", "--lr", lr, "--batch-size", 4, "--steps", steps, "--out", out,
                              "--json", *extra))

        def numbers(out):
            tensors, step = self.parameters(out)
            return {name: array.array("f", data) for name, data in tensors.items() if name.startswith("model.")}, step

        four = self.folder / "four"
        train(four, 4, 10, 0.01)
        expected, step = numbers(four)
        self.assertEqual(step, 10)
        self.assertTrue(expected)
        for ranks, strategy in ((2, "allreduce"), (3, "partitioned-ps")):
            out = self.folder / f"on-{ranks}"
            shutil.copytree(four, out)
            # At this rate a step changes nothing that float shows: what is saved after it is what was resumed.
            resumed = train(out, ranks, 11, 1e-30, "--resume", out, strategy=strategy)
            self.assertEqual(resumed["first_step"], 10)
            got, step = numbers(out)
            self.assertEqual(step, 11)
            self.assertEqual(sorted(expected), sorted(got))
            for name in expected:
                self.assertEqual(len(expected[name]), len(got[name]), name)
                self.assertLess(max(abs(a - b) for a, b in zip(expected[name], got[name])), 1e-20, name)
            on = train(out, ranks, 41, 0.01, "--resume", out, strategy=strategy)
            self.assertEqual(on["first_step"], 11)
            self.assertLess(on["last_loss"], on["first_loss"])

    def test_kill_around_a_checkpoint_leaves_a_readable_one(self):
        out = self.folder / "killed"
        steps = 0
        for round_ in range(4):
            resume = ["--resume", out] if round_ else []
            job = start(*self.train(out, 100000, "--checkpoint-every", "1", *resume))
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:  # until it has gone on
                found = list(out.glob("checkpoint-*.safetensors")) if out.exists() else []
                if found and int(newest_checkpoint(out).stem.split("-")[1]) > steps + 2:
                    break
                time.sleep(0.02)
            time.sleep(0.013 * round_)
            for pid in ranks_of(job.pid).values():
                with contextlib.suppress(ProcessLookupError):  # ended by the death of the one before
                    os.kill(pid, signal.SIGKILL)
            job.communicate(timeout=30)
            _, steps = self.parameters(out)
            self.assertGreater(steps, 0)
        self.assertLessEqual(len(list(out.glob("checkpoint-*.safetensors"))), 3)
        result(run(*self.train(out, steps + 2, "--resume", out)))

    def test_interrupt_saves(self):
        out = self.folder / "interrupted"
        job = start(*self.train(out, 1000000))
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not (out / "metrics.jsonl").exists():
            time.sleep(0.1)
        time.sleep(2)
        job.send_signal(signal.SIGINT)
        job.communicate(timeout=40)
        _, step = self.parameters(out)
        self.assertGreater(step, 0)
        lines = (out / "metrics.jsonl").read_text().splitlines()
        self.assertGreaterEqual(len(lines), step)

    def start_and_wait(self, out, *extra, steps=1000000):
        """A job that has made steps, and the processes of its ranks."""
        job = start(*self.train(out, steps, *extra))
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not (out / "metrics.jsonl").exists():
            time.sleep(0.1)
        return job, ranks_of(job.pid)

    def test_a_signal_to_any_rank_ends_the_job_with_a_checkpoint(self):
        for rank, number, other in ((1, signal.SIGTERM, ()), (0, signal.SIGHUP, ()), (1, signal.SIGINT, ("--micro-batches", 2))):
            out = self.folder / f"rank-{rank}-{number}"
            job, ranks = self.start_and_wait(out, *other)
            os.kill(ranks[rank], number)
            printed, errors = job.communicate(timeout=60)
            self.assertEqual(job.returncode, 128 + number, errors)
            self.assertTrue(json.loads(printed)["interrupted"])
            self.assertGreater(self.parameters(out)[1], 0)
            self.assertIn(f"rank 0 ended after signal {int(number)}", errors)
            if rank != 0:
                self.assertIn(f"rank {rank} was told to end by signal {int(number)}", errors)

    def test_a_signal_to_one_rank_without_a_launcher(self):
        out = self.folder / "hangup"
        job = start("train", "--model", "cnn7-small", "--steps", 1000000, "--out", out)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not (out / "metrics.jsonl").exists():
            time.sleep(0.1)
        job.send_signal(signal.SIGHUP)
        _, errors = job.communicate(timeout=40)
        self.assertEqual(job.returncode, 128 + signal.SIGHUP, errors)
        self.assertGreater(self.parameters(out)[1], 0)

    def test_a_lost_rank_restarts_the_job_from_its_newest_checkpoint(self):
        steps = 400
        undisturbed, disturbed = self.folder / "undisturbed", self.folder / "disturbed"
        result(run(*self.train(undisturbed, steps)))
        job, _ = self.start_and_wait(disturbed, "--restarts", 2, "--checkpoint-every", 10, steps=steps)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not list(disturbed.glob("checkpoint-*.safetensors")):
            time.sleep(0.02)
        os.kill(ranks_of(job.pid)[1], signal.SIGKILL)
        printed, errors = job.communicate(timeout=100)
        self.assertEqual(job.returncode, 0, errors)
        self.assertIn("rank 1 on 127.0.0.1 was killed by signal 9 (Killed): the job is started again", errors)
        self.assertIn("restart 1 of 2", errors)
        self.assertGreaterEqual(json.loads(printed)["first_step"], 10)
        self.assertEqual(self.parameters(disturbed), self.parameters(undisturbed))

    def test_restarts_need_checkpoints(self):
        done = run(*self.train(self.folder / "none", 5, "--restarts", 1))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--checkpoint-every", done.stderr)

    def test_interrupt_of_one_process(self):
        out = self.folder / "alone"
        job = start("train", "--model", "cnn7-small", "--steps", 1000000, "--out", out)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not (out / "metrics.jsonl").exists():
            time.sleep(0.1)
        job.send_signal(signal.SIGINT)
        printed, errors = job.communicate(timeout=40)
        self.assertEqual(job.returncode, 128 + signal.SIGINT, errors)
        self.assertIn(f"--resume {out}", printed)
        result(run("train", "--model", "cnn7-small", "--steps", self.parameters(out)[1] + 2, "--resume", out, "--json"))

    def test_another_runs_folder_is_refused_at_the_start(self):
        out = self.folder / "twice"
        result(run(*self.train(out, 3)))
        done = run(*self.train(out, 3))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--resume", done.stderr)

    def test_wrong_resume_is_refused(self):
        done = run(*self.train(self.folder / "a", 5, "--resume", self.folder / "nothing"))
        self.assertEqual(done.returncode, 2, done.stderr)
        result(run(*self.train(self.folder / "b", 3)))
        done = run(*self.train(self.folder / "c", 6, "--resume", self.folder / "b", model="vgg16-small"))
        self.assertEqual(done.returncode, 2, done.stderr)


if __name__ == "__main__":
    unittest.main()
