"""Pipelines train as one process does, go on from their checkpoints, and fail with a clear word."""
import json
import os
import pathlib
import random
import signal
import tempfile
import time
import unittest

from support import free_of_ranks, newest_checkpoint, ranks_of, result, run, start

MODELS = ("transformer-small", "unet-small", "resnet20-small")
PARTS = ("compute_s", "recompute_s", "bubble_s", "imbalance_s", "transfer_s", "update_s")


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.count = 0

    def command(self, *extra, model="transformer-small", steps=4, out=None):
        if out is None:
            self.count += 1
            out = self.folder / f"run-{self.count}"
        settings = {"--global-batch": "8", "--micro-batches": "4", "--lr": "0.05"}
        missing = [word for flag in settings if flag not in extra for word in (flag, settings[flag])]
        return ["train", "--model", model, "--steps", steps, "--out", out, "--json", *missing, *extra], out

    def losses(self, *extra, **keywords):
        """Rank 0's loss by step, and what the program says of the run."""
        command, out = self.command(*extra, **keywords)
        report = result(run(*command))
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        return {line["step"]: line["loss"] for line in lines if "loss" in line}, report

    def expect_same(self, expected, got, what):
        self.assertEqual(sorted(expected), sorted(got), what)
        for step, loss in expected.items():
            self.assertAlmostEqual(loss, got[step], delta=1e-5 * max(1, abs(loss)), msg=f"{what}, step {step}")


class SameLoss(Case):
    """In whatever cells, on whatever ranks, in whatever order."""

    def compare(self, reference, ways, model):
        expected, report = self.losses(*reference, model=model)
        self.assertNotAlmostEqual(expected[0], expected[3], places=4)  # it learns something
        for way in ways:
            with self.subTest(model=model, way=" ".join(way)):
                got, other = self.losses(*way, model=model)
                self.expect_same(expected, got, f"{model} {way}")
                self.assertAlmostEqual(report["last_loss"], other["last_loss"], delta=1e-5 * max(1, report["last_loss"]))

    def test_threads_and_ranks(self):
        for model in MODELS:
            self.compare([], [["--pipeline", "2", "--cells", "threads"], ["--pipeline", "2", "--cluster", "local:2"]], model)

    def test_whole_batch(self):
        """Where no layer mixes examples, micro-batches make no difference, nor does --pipeline to plain training."""
        plain, _ = self.losses("--micro-batches", "1", "--optimizer", "adam", "--lr", "0.002", "--clip", "1")
        piped, _ = self.losses("--pipeline", "2", "--optimizer", "adam", "--lr", "0.002", "--clip", "1")
        self.expect_same(plain, piped, "whole batch")
        _, plain = self.losses("--micro-batches", "1", "--cluster", "local:2")
        _, piped = self.losses("--pipeline", "2", "--cluster", "local:4")
        self.assertAlmostEqual(plain["last_loss"], piped["last_loss"], delta=1e-5 * plain["last_loss"])

    def test_replicas(self):
        for model in MODELS:
            two_pipelines = ["--cluster", "local:4", "--pipeline", "2", "--global-batch", "16", "--strategy"]
            self.compare(["--cluster", "local:2", "--global-batch", "16"], [[*two_pipelines, "allreduce"], [*two_pipelines, "ps"]], model)

    def test_replicas_of_threads(self):
        _, ranks = self.losses("--cluster", "local:2")  # whose loss is that of all, where threads know their own
        _, threads = self.losses("--cluster", "local:2", "--pipeline", "2", "--cells", "threads")
        self.assertAlmostEqual(ranks["last_loss"], threads["last_loss"], delta=1e-5 * ranks["last_loss"])

    def test_schedules_and_remat(self):
        kinds = [["--schedule", "gpipe", "--remat", "never"], ["--schedule", "1f1b", "--remat", "always"],
                 ["--schedule", "interleaved", "--chunks", "2", "--remat", "except-last"]]
        ways = [["--pipeline", "2", *kind, *where] for kind in kinds
                for where in (["--cells", "threads"], ["--cluster", "local:2"])]
        self.compare([], ways, "transformer-small")
        self.compare([], [["--pipeline", "2", *kinds[2], "--cluster", "local:2"]], "unet-small")

    def test_clip(self):
        """By the norm of all cells' gradients, tied parameters counted once."""
        plain, _ = self.losses()
        clipped, _ = self.losses("--clip", "0.1")
        self.assertGreater(abs(plain[3] - clipped[3]), 1e-4 * plain[3])  # it matters
        for way in (["--cells", "threads"], ["--cluster", "local:2"]):
            self.expect_same(clipped, self.losses("--clip", "0.1", "--pipeline", "2", *way)[0], f"clip {way}")

    def test_uneven_micro_batches(self):
        expected, _ = self.losses("--micro-batches", "3")
        for way in (["--cells", "threads"], ["--cluster", "local:2"]):
            self.expect_same(expected, self.losses("--micro-batches", "3", "--pipeline", "2", *way)[0], f"uneven {way}")


class Resume(Case):
    def test_with_other_cells(self):
        """Two ranks, twice, then three threads, then one process: as one run that is never interrupted."""
        legs = [["--cluster", "local:2", "--pipeline", "2"], ["--cluster", "local:2", "--pipeline", "2"],
                ["--pipeline", "3", "--cells", "threads"], []]
        for optimizer in ("adam", "momentum"):
            for model in ("transformer-small", "resnet20-small"):
                with self.subTest(optimizer=optimizer, model=model):
                    rule = ["--optimizer", optimizer, "--lr", "0.002" if optimizer == "adam" else "0.02"]
                    whole, _ = self.losses(*rule, model=model, steps=12)
                    out = self.folder / f"legs-{optimizer}-{model}"
                    for i, leg in enumerate(legs):
                        resume = ["--resume", out] if i else []
                        got, report = self.losses(*rule, *leg, *resume, model=model, steps=3 * (i + 1), out=out)
                        self.assertEqual(report["first_step"], 3 * i)
                        self.assertTrue(newest_checkpoint(out).stem.endswith(str(3 * (i + 1))))
                    self.expect_same(whole, got, f"{optimizer} {model}")

    def test_replicas_to_one_pipeline(self):
        """Rank 0's pipeline holds what all replicas agree on."""
        out = self.folder / "replicas"
        self.losses("--cluster", "local:4", "--pipeline", "2", "--optimizer", "adam", steps=3, out=out)
        rest = ["--cluster", "local:2", "--optimizer", "adam", "--resume", out]
        reports = [self.losses(*rest, *way, steps=6, out=self.folder / name)[1]
                   for name, way in (("plain", []), ("threads", ["--pipeline", "2", "--cells", "threads"]))]
        self.assertAlmostEqual(reports[0]["last_loss"], reports[1]["last_loss"], delta=1e-5 * reports[0]["last_loss"])


class Failure(Case):
    TIMEOUT_S = 8

    def start_job(self, world, *extra):
        """A job of one pipeline that has saved, the processes of its ranks, and its folder."""
        command, out = self.command("--cluster", f"local:{world}", "--pipeline", world, "--checkpoint-every", "5", "--timeout",
                                    self.TIMEOUT_S, "--optimizer", "adam", *extra, steps=1000000)
        job = start(*command)
        self.addCleanup(self.end, job)
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline and not list(out.glob("checkpoint-*.safetensors")):
            self.assertIsNone(job.poll(), "the job ended by itself")
            time.sleep(0.05)
        ranks = ranks_of(job.pid)
        self.assertEqual(sorted(ranks), list(range(world)))
        return job, ranks, out

    @staticmethod
    def end(job):
        if job.poll() is None:
            job.kill()
        job.communicate()

    def expect_end(self, job, ranks, culprit):
        _, errors = job.communicate(timeout=self.TIMEOUT_S + 25)
        self.assertEqual(job.returncode, 1, errors)
        self.assertTrue(free_of_ranks(ranks.values()), "a process is left")
        return [line for line in errors.splitlines() if line.startswith("entrain:") and f"rank {culprit}" in line], errors

    def test_stopped_rank_is_named_after_the_deadline(self):
        for culprit in (0, 1):
            with self.subTest(culprit=culprit):
                job, ranks, _ = self.start_job(2)
                os.kill(ranks[culprit], signal.SIGSTOP)
                lines, errors = self.expect_end(job, ranks, culprit)
                self.assertTrue(lines, errors)

    def test_killed_rank_is_named_and_the_job_goes_on(self):
        job, ranks, out = self.start_job(3)
        os.kill(ranks[1], signal.SIGKILL)
        lines, errors = self.expect_end(job, ranks, 1)
        self.assertTrue(lines, errors)
        self.assertIn("entrain: the same from rank", errors)  # the others have noticed

        saved = int(newest_checkpoint(out).stem.split("-")[1])
        command, _ = self.command("--pipeline", "2", "--cells", "threads", "--resume", out, "--optimizer", "adam",
                                  steps=saved + 2, out=out)
        resumed = result(run(*command))
        self.assertEqual(resumed["first_step"], saved)


class BadInput(Case):
    def expect(self, words, *extra, **keywords):
        command, _ = self.command(*extra, **keywords)
        done = run(*command)
        self.assertEqual(done.returncode, 2, done.stderr)
        lines = [line for line in done.stderr.splitlines() if all(word in line for word in words)]
        self.assertTrue(lines, f"{words} not in a line of:\n{done.stderr}")
        self.assertFalse(done.stdout)

    def test_settings(self):
        self.expect(["--micro-batches 9", "8 examples", "1 to 8"], "--micro-batches", "9", "--pipeline", "2")
        self.expect(["--micro-batches 9", "8 examples", "1 to 8"], "--micro-batches", "9", "--pipeline", "2", "--cluster",
                    "local:2")
        self.expect(["schedule", "zigzag", "gpipe", "1f1b", "interleaved"], "--pipeline", "2", "--schedule", "zigzag")
        self.expect(["remat", "sometimes", "except-last"], "--pipeline", "2", "--remat", "sometimes")
        self.expect(["cells", "hosts", "threads", "ranks"], "--pipeline", "2", "--cells", "hosts")
        self.expect(["chunks", "2", "1f1b"], "--pipeline", "2", "--chunks", "2", "--schedule", "1f1b")
        self.expect(["devices", "0", "1 or more"], "--pipeline", "0")

    def test_cells(self):
        self.expect(["50", "layers", "allowed: 1 to"], "--pipeline", "50", "--cells", "threads")
        self.expect(["--pipeline 3", "4 ranks", "--cells threads"], "--pipeline", "3", "--cluster", "local:4")
        self.expect(["--pipeline 4", "2 ranks"], "--pipeline", "4", "--cells", "ranks", "--cluster", "local:2")

    def test_balance(self):
        self.expect(["balance", "1,1,1", "3 cells", "2"], "--pipeline", "2", "--balance", "1,1,1")
        self.expect(["1,1", "layers"], "--pipeline", "2", "--balance", "1,1")
        self.expect(["balance", "0", "1 or more"], "--pipeline", "2", "--balance", "0,6")

    def test_what_does_not_go_together(self):
        self.expect(["--pipeline", "--optimizer sgd"], "--pipeline", "2", "--optimizer", "lsgd", "--cluster", "local:2")
        self.expect(["--pipeline", "--switch"], "--pipeline", "2", "--cluster", "local:2", "--switch", "2=ps")
        ranks = ("--cluster", "local:2", "--cells", "ranks")  # refused with a GPU, too
        self.expect(["--device", "cpu"], "--pipeline", "2", "--device", "cuda", *ranks)


class Reports(Case):
    def check_breakdown(self, report, cells):
        parts = report["pipeline"]
        self.assertGreater(parts["wall_s"], 0)
        self.assertEqual(len(parts["balance"]), cells)
        for part in PARTS:
            self.assertGreaterEqual(parts[part], 0, part)
        total = sum(parts[part] for part in PARTS)
        self.assertAlmostEqual(total + parts["other_s"], parts["wall_s"], delta=1e-6)

    def is_whole(self, report):
        return abs(report["pipeline"]["other_s"]) <= 0.03 * report["pipeline"]["wall_s"]

    def check_trace(self, path, devices, cells):
        events = [e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "X"]
        self.assertEqual({e["tid"] for e in events}, set(range(cells)))
        for event in events:  # a track is on its own device only
            self.assertEqual(event["tid"] % devices, event["pid"], event)
            self.assertGreaterEqual(event["dur"], 0)
        for cell in range(cells):
            for kind in ("forward", "backward"):
                found = [e for e in events if e["tid"] == cell and e["cat"] == kind]
                self.assertEqual(len(found), 4, f"{kind} of cell {cell}")  # one a micro-batch

    def test_breakdown_and_trace(self):
        # Steps long enough that starting a thread or reading a clock is none of it.
        long = {"model": "transformer-small", "steps": 8}
        chunks = ["--schedule", "interleaved", "--chunks", "2"]
        for name, way, cells in (("threads", ["--cells", "threads"], 2), ("ranks", ["--cluster", "local:2"], 2),
                                 ("chunks", ["--cells", "threads", *chunks], 4), ("one", [], 1)):
            with self.subTest(name):
                trace = self.folder / f"{name}.json"
                devices = 1 if name == "one" else 2
                for _ in range(3):  # a busy machine may take a core away between two parts, but not each time
                    _, report = self.losses("--pipeline", devices, *way, "--global-batch", "64", "--remat", "always", "--trace",
                                            trace, **long)
                    if self.is_whole(report):
                        break
                self.assertTrue(self.is_whole(report), report["pipeline"])
                self.check_breakdown(report, cells)
                self.check_trace(trace, devices, cells)
                self.assertEqual((report["pipeline"]["devices"], report["pipeline"]["micro_batches"]), (devices, 4))
                self.assertGreater(report["pipeline"]["recompute_s"], 0)

    def test_table(self):
        command, _ = self.command("--pipeline", "2", "--balance", "2,4")
        done = run(*[word for word in command if word != "--json"])
        self.assertEqual(done.returncode, 0, done.stderr)
        for word in ("compute", "recompute", "bubble", "imbalance", "transfer", "update", "[2,4]"):
            self.assertIn(word, done.stdout)


class Text(Case):
    def test_learns(self):
        """Sentences of a small grammar: what follows a word is mostly given by it."""
        draw = random.Random(1)
        words = {"subject": ["the cat", "a dog", "my bird", "one fish"], "verb": ["sees", "hears", "follows"],
                 "object": ["the moon", "a river", "some stones"]}
        sentences = (" ".join(draw.choice(words[part]) for part in ("subject", "verb", "object")) for _ in range(3000))
        text = self.folder / "text.txt"
        text.write_text(" .\n".join(sentences))
        way = ["--data", f"text:{text}", "--optimizer", "adam", "--lr", "0.003", "--clip", "1"]
        alone, one = self.losses(*way, steps=40)
        piped, two = self.losses(*way, "--pipeline", "2", "--cluster", "local:2", steps=40)
        self.assertLess(piped[39], 0.6 * piped[0])
        self.assertAlmostEqual(alone[39], piped[39], delta=1e-3)
        self.assertAlmostEqual(one["test_loss"], two["test_loss"], delta=1e-3)
        self.assertLess(two["test_loss"], 0.6 * piped[0])


if __name__ == "__main__":
    unittest.main()
