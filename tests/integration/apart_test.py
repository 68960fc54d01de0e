"""Training apart: each worker its own parameters, and a rule that pulls them together."""
import contextlib
import json
import os
import pathlib
import signal
import tempfile
import time
import unittest

from support import newest_checkpoint, ranks_of, read_tensors, result, run, start

RULES = ("lsgd", "easgd", "eamsgd", "local-sgd", "bmuf", "parle")
ASYNCHRONOUS = ("lsgd-async", "easgd-async", "downpour", "async-ps")


class Apart(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def train(self, rule, out, steps, *extra, cluster="local:3", lr=0.05):
        return ["train", "--model", "cnn7-small", "--cluster", cluster, "--optimizer", rule, "--period", 4, "--batch-size", 2,
                "--steps", steps, "--lr", lr, "--json", *(["--out", out] if out else []), *extra]

    def assertTrains(self, out, workers, steps):
        """The last third of the losses, over all workers, is lower than the first: single ones, of two examples, are noisy."""
        first = last = 0
        for worker in range(workers):
            losses = [json.loads(line)["loss"] for line in (out / f"worker-{worker}.jsonl").read_text().splitlines()]
            self.assertEqual(len(losses), steps)
            first, last = first + sum(losses[:steps // 3]), last + sum(losses[-(steps // 3):])
        self.assertLess(last, first)

    def test_every_rule_trains(self):
        for rule in (*RULES, *ASYNCHRONOUS):
            with self.subTest(rule):
                out = self.folder / rule
                report = result(run(*self.train(rule, out, 40)))
                self.assertTrains(out, workers=3, steps=40)
                self.assertGreater(report["exchanges"], 0)
                self.assertEqual(report["lost_workers"], [])

    def test_hogwild_trains_in_threads(self):
        result(run(*self.train("hogwild", self.folder / "out", 40, "--threads", 3, cluster="local:1")))
        self.assertTrains(self.folder / "out", workers=1, steps=120)

    def test_resume_is_exact_for_synchronous_rules(self):
        for rule in RULES:
            with self.subTest(rule):
                whole, halves = self.folder / f"whole-{rule}", self.folder / f"halves-{rule}"
                result(run(*self.train(rule, whole, 22, "--checkpoint-every", 11)))
                result(run(*self.train(rule, halves, 11)))
                resumed = result(run(*self.train(rule, halves, 22, "--resume", halves, "--checkpoint-every", 11)))
                self.assertEqual(resumed["first_step"], 11)
                for worker in range(3):
                    expected, _ = read_tensors(newest_checkpoint(whole / f"worker-{worker}"))
                    got, _ = read_tensors(newest_checkpoint(halves / f"worker-{worker}"))
                    self.assertEqual(sorted(expected), sorted(got))
                    for name in expected:
                        self.assertEqual(expected[name], got[name], f"worker {worker}: {name}")

    def test_asynchronous_rules_resume_each_worker_where_it_was(self):
        for rule in ASYNCHRONOUS:
            with self.subTest(rule):
                out = self.folder / rule
                # A low rate, as in lose_a_worker: how many steps fit into a second is the machine's affair.
                result(run(*self.train(rule, out, 100000, "--seconds", 1, lr=0.002)))
                steps = [int(newest_checkpoint(out / f"worker-{k}").stem.split("-")[1]) for k in range(3)]
                resumed = result(run(*self.train(rule, out, max(steps) + 20, "--resume", out, lr=0.002)))
                self.assertEqual(resumed["first_step"], steps[0])

    def test_asynchronous_workers_save_under_one_number(self):
        out = self.folder / "run"
        result(run(*self.train("easgd-async", out, 60, "--checkpoint-every", 7)))
        kept = [{file.name for file in (out / f"worker-{k}").glob("checkpoint-*")} for k in range(3)]
        self.assertEqual(kept[0], kept[1])
        self.assertEqual(kept[0], kept[2])
        self.assertEqual(len(kept[0]), 2)

    def test_a_job_killed_while_it_saves_goes_on(self):
        for rule in ("lsgd", "downpour"):
            with self.subTest(rule):
                out = self.folder / rule
                job = start(*self.train(rule, out, 1000000, "--checkpoint-every", 1, lr=0.002))
                deadline = time.monotonic() + 60
                while time.monotonic() < deadline and not (out / "worker-1").exists():
                    time.sleep(0.05)
                time.sleep(1)
                for victim in ranks_of(job.pid).values():
                    with contextlib.suppress(ProcessLookupError):  # ended by the death of the one before
                        os.kill(victim, signal.SIGKILL)
                    time.sleep(0.05)
                job.communicate(timeout=60)
                newest = int(newest_checkpoint(out / "worker-0").stem.split("-")[1])
                resumed = result(run(*self.train(rule, out, newest + 40, "--resume", out, lr=0.002)))
                self.assertGreater(resumed["first_step"], 0)

    def test_a_diverging_run_stops_and_leaves_the_last_good_checkpoint(self):
        for rule in ("lsgd", "local-sgd", "lsgd-async", "downpour"):
            with self.subTest(rule):
                out = self.folder / rule
                result(run(*self.train(rule, out, 8)))
                done = run(*self.train(rule, out, 200, "--resume", out, "--checkpoint-every", 1, "--test-every", 1, lr=1e30))
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertRegex(done.stderr, r"rank [0-2], step [0-9]+: .*not finite|rank [0-2], step [0-9]+: the loss is")
                self.assertNotIn("json", done.stderr)
                report = result(run(*self.train(rule, out, 24, "--resume", out)))
                self.assertGreaterEqual(report["first_step"], 8)

    def test_another_run_in_the_folder_is_refused_before_it_starts(self):
        out = self.folder / "run"
        result(run(*self.train("lsgd", out, 8)))
        done = run(*self.train("lsgd", out, 8))
        self.assertEqual(done.returncode, 2)
        self.assertIn("holds checkpoints of another run", done.stderr)

    def test_a_run_is_one_file_and_leaves_its_records(self):
        out = self.folder / "run"
        first = result(run(*self.train("lsgd", out, 20, "--test-every", 10)))
        leaders = [json.loads(line) for line in (out / "leaders.jsonl").read_text().splitlines()]
        self.assertTrue(all(0 <= lead["global"] < 3 for lead in leaders) and leaders)
        tests = [json.loads(line) for line in (out / "tests.jsonl").read_text().splitlines()]
        self.assertEqual([test["step"] for test in tests], [10, 20])
        self.assertEqual(len(tests[0]["to_average"]), 3)
        self.assertEqual(len(tests[0]["to_leader"]), 3)
        self.assertTrue(all(distance > 0 for distance in tests[0]["to_leader"]), "the leader has moved on from z too")
        events = b"".join(file.read_bytes() for file in (out / "tensorboard" / "worker-0").iterdir())
        self.assertIn(b"to_leader/worker-2", events)
        for worker in range(3):
            self.assertEqual(len((out / f"worker-{worker}.jsonl").read_text().splitlines()), 20)
            self.assertTrue(list((out / "tensorboard" / f"worker-{worker}").glob("events.out.tfevents.*")))
        again = result(run("train", "--model", "cnn7-small", "--cluster", "local:3", "--strategy", out / "strategy.json",
                           "--batch-size", 2, "--steps", 20, "--json"))
        self.assertEqual(again["optimizer"], "lsgd")
        self.assertEqual(again["last_loss"], first["last_loss"])

    def test_bounded_staleness(self):
        for staleness in (0, 1, 4):
            with self.subTest(staleness):
                report = result(run(*self.train("async-ps", None, 40, "--staleness", staleness)))
                self.assertLess(report["last_loss"], report["first_loss"])
                self.assertLessEqual(report["greatest_lead"], staleness)
                self.assertEqual(report["exchanges"], 10)

    def test_staleness_zero_has_the_losses_of_synchronous_training(self):
        losses = {}
        for rule in ("sgd", "async-ps"):
            flags = ("--staleness", 0) if rule == "async-ps" else ()
            report = result(run("train", "--model", "cnn7-small", "--cluster", "local:3", "--optimizer", rule, "--batch-size", 2,
                                "--steps", 20, "--lr", 0.01, "--json", *flags))
            losses[rule] = (report["first_loss"], report["last_loss"])
        for expected, got in zip(losses["sgd"], losses["async-ps"]):
            self.assertAlmostEqual(expected, got, delta=1e-3 * expected)

    def test_a_strategy_of_asynchronous_servers_trains_as_one(self):
        names = [variable["name"] for variable in result(run("graph", "--model", "cnn7-small", "--json"))["variables"]]
        servers = [{"var_name": name, "PSSynchronizer": {"reduction_destination": "127.0.0.1", "sync": True, "staleness": 2}}
                   for name in names]
        file = self.folder / "stale.json"
        file.write_text(json.dumps({"id": "stale", "node_config": servers}))
        job = ("train", "--model", "cnn7-small", "--cluster", "local:3", "--strategy", file, "--batch-size", 2, "--steps", 20,
               "--lr", 0.01, "--json")
        report = result(run(*job))
        self.assertEqual(report["optimizer"], "async-ps")
        self.assertLessEqual(report["greatest_lead"], 2)
        servers[1]["PSSynchronizer"]["staleness"] = 0
        file.write_text(json.dumps({"id": "mixed", "node_config": servers}))
        done = run(*job)
        self.assertEqual(done.returncode, 2)
        self.assertIn("the same sync and staleness", done.stderr)

    def lose_a_worker(self, rule, how, *extra):
        # Made-up examples are few and each worker's own: at a high rate a long run is no learning any more.
        job = start(*self.train(rule, self.folder / f"{rule}-{how}", 100000, "--seconds", 8, *extra, lr=0.002))
        log = self.folder / f"{rule}-{how}" / "worker-2.jsonl"
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not (log.exists() and log.stat().st_size > 0):
            time.sleep(0.05)
        victim = ranks_of(job.pid)[2]
        os.kill(victim, how)
        out, err = job.communicate(timeout=120)
        self.assertEqual(job.returncode, 0, err)
        return json.loads(out), err

    def test_asynchronous_rules_go_on_without_a_killed_worker(self):
        for rule in ASYNCHRONOUS:
            with self.subTest(rule):
                report, err = self.lose_a_worker(rule, signal.SIGKILL)
                self.assertEqual(report["lost_workers"], [2])
                self.assertIn("rank 2 was lost (signal 9)", err)
                self.assertLess(report["last_loss"], report["first_loss"])

    def test_asynchronous_rules_go_on_without_a_stopped_worker(self):
        for rule, *flags in (("lsgd-async",), ("async-ps", "--staleness", 1)):
            with self.subTest(rule):
                report, _ = self.lose_a_worker(rule, signal.SIGSTOP, *flags)
                self.assertEqual(report["lost_workers"], [2])
                self.assertLess(report["last_loss"], report["first_loss"])

    def test_a_synchronous_rule_ends_cleanly_when_a_worker_dies(self):
        job = start(*self.train("lsgd", None, 100000, "--timeout", 20))
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and len(ranks_of(job.pid)) < 3:
            time.sleep(0.05)
        time.sleep(2)
        os.kill(ranks_of(job.pid)[1], signal.SIGKILL)
        _, err = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 1)
        self.assertIn("rank 1", err)
        self.assertEqual(ranks_of(job.pid), {})

    def test_bad_settings_are_refused_with_the_allowed_range(self):
        for flags, words in ((("--period", 0), "period is 0, allowed: 1 or more"),
                             (("--pull", 1.5), "pull strength is 1.5, allowed: more than 0 and less than 1"),
                             (("--period", 4, "--local-period", 8), "local period is 8, allowed: 1 to the (global) period, 4"),
                             (("--groups", 3), "a group of one worker"),
                             (("--proximal", -0.5), "proximal strength is -0.5, allowed: 0 to less than 1"),
                             (("--strategy", "auto"), "gradients are not synchronized under lsgd"),
                             (("--optimizer", "lgsd"), "unknown optimizer 'lgsd'; allowed: sgd, lsgd")):
            with self.subTest(words):
                flags = flags if "--optimizer" in flags else ("--optimizer", "lsgd", *flags)
                done = run("train", "--model", "cnn7-small", "--cluster", "local:3", "--steps", 4, *flags)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main()
