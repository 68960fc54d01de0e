"""Tuning: nothing is lost on kill -9, nothing tried twice; `--strategy auto` trains as a fixed strategy does."""
import json
import os
import pathlib
import signal
import struct
import tempfile
import time
import unittest

from support import free_of_ranks, newest_checkpoint, ranks_of, read_tensors, result, run, start


def trials_in(log):
    """The trials of a log, each line whole."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [line for line in lines if "trial" in line]


def floats(data):
    return struct.unpack(f"<{len(data) // 4}f", data)


class Tune(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def tune(self, *extra, model="cnn7-small", cluster="local:2", space="sync"):
        return ["tune", "--model", model, "--cluster", cluster, "--space", space, "--steps", "1", "--most-steps", "1", "--json",
                *extra]

    def test_kill_and_resume_loses_and_repeats_nothing(self):
        out = self.folder / "killed"
        log = out / "trials.jsonl"
        kept = []
        for round_ in range(3):
            job = start(*self.tune("--trials", "12", *(["--resume", out] if round_ else ["--out", out])))
            deadline = time.monotonic() + 100
            while time.monotonic() < deadline and job.poll() is None:
                if log.exists() and log.read_bytes().count(b'"trial"') >= len(kept) + 4:
                    break
                time.sleep(0.01)
            ranks = ranks_of(job.pid)
            os.kill(job.pid, signal.SIGKILL)
            for pid in ranks.values():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            job.communicate(timeout=30)
            while not free_of_ranks(ranks.values()):
                time.sleep(0.01)
            whole = log.read_bytes().rsplit(b"\n", 1)[0].decode()
            now = [json.loads(line) for line in whole.splitlines()]
            now = [line for line in now if "trial" in line]
            self.assertEqual(now[:len(kept)], kept, "what was in the log before the kill is still there")
            kept = now
        done = result(run(*self.tune("--trials", "12", "--resume", out)))
        self.assertEqual(done["trials"], 12)
        trials = trials_in(log)
        self.assertEqual(trials[:len(kept)], kept)
        self.assertEqual([t["trial"] for t in trials], list(range(len(trials))), "no number twice, none left out")
        proposed = [json.dumps({**t["strategy"], "id": ""}, sort_keys=True) for t in trials
                    if t["origin"] not in ("builder", "confirm")]
        self.assertEqual(len(proposed), 12)
        self.assertEqual(len(set(proposed)), 12, "no strategy is tried twice")

    def test_result_is_a_strategy_that_trains(self):
        out = self.folder / "tuned"
        done = result(run(*self.tune("--trials", "4", "--out", out)))
        for key in ("best_step_time_s", "best_baseline", "best_baseline_step_time_s", "speedup", "hit_rate", "trials"):
            self.assertIn(key, done)
        self.assertGreaterEqual(done["speedup"], 1)
        self.assertEqual(len(done["baselines"]), 10)
        self.assertEqual(done["batch_size"], 32, "as train's default")
        train = ("train", "--model", "cnn7-small", "--steps", 4, "--strategy", out / "best.json", "--json")
        same, other = run(*train, "--cluster", "local:2"), run(*train, "--cluster", "local:3", "--batch-size", 2)
        result(same), result(other)
        self.assertNotIn("tuned for", same.stderr)
        for words in ("tuned for another job", "batch size 32, here 2", "cluster local:2, here local:3"):
            self.assertIn(words, other.stderr)

    def test_the_table_compares_with_ddp_and_says_what_is_next(self):
        out = self.folder / "table"
        args = [arg for arg in self.tune("--trials", "2", "--out", out) if arg != "--json"]
        done = run(*args)
        self.assertEqual(done.returncode, 0, done.stderr)
        for words in ("vs ddp", "final round", f"Written to {out}", "entrain train --model cnn7-small --cluster local:2"):
            self.assertIn(words, done.stdout)
        found = json.loads((out / "result.json").read_text())
        self.assertEqual(next(b for b in found["baselines"] if b["name"] == "ddp")["round"], "final")
        rounds = [b["round"] for b in found["baselines"]]
        self.assertEqual(rounds, sorted(rounds), "the final round first")

    def test_shapes_are_searched_beside_one_host_and_pipelines(self):
        out = self.folder / "shapes"
        args = self.tune("--trials", "4", "--batch-size", "4", model="transformer-small",
                         cluster="lab:3x1gbit", space="all")
        done = result(run(*args, "--out", out))
        origins = {b["origin"] for b in done["baselines"]}
        self.assertLessEqual({"one host", "pipeline"}, origins)
        ran = {b["name"] for b in done["baselines"] if b["origin"] == "builder"}
        self.assertEqual(len(ran) + len(done["left_out"]), 10, "each builder was run, or it is said why not")
        certificate = done["certificate"]
        self.assertGreater(certificate["bound_s"], 0)
        self.assertGreater(certificate["vs_one_host"], 0)
        self.assertTrue(certificate["binds"])
        best = out / "best.json"
        trained = result(run("train", "--model", "transformer-small", "--cluster", "lab:3x1gbit", "--batch-size", 4, "--steps", 4,
                             "--strategy", best, "--json"))
        self.assertGreater(trained["first_loss"], 0)
        trials = trials_in(out / "trials.jsonl")
        result(run(*args, "--resume", out))
        after = trials_in(out / "trials.jsonl")
        self.assertEqual(after[:len(trials)], trials)
        first_looks = [json.dumps({**t["strategy"], "id": ""}, sort_keys=True) for t in after
                       if t["origin"] not in ("builder", "confirm")]
        self.assertEqual(len(set(first_looks)), len(first_looks), "nothing is tried twice")

    def test_a_model_that_mixes_examples_keeps_its_micro_batches(self):
        out = self.folder / "norm"
        result(run(*self.tune("--trials", "3", "--batch-size", "2", "--out", out, model="resnet20-small", space="all")))
        shapes = [t["strategy"]["shape"] for t in trials_in(out / "trials.jsonl") if "shape" in t["strategy"]]
        self.assertTrue(shapes)
        for shape in shapes:
            replicas = max(len(cell["ranks"]) for cell in shape["cells"])
            self.assertEqual(shape.get("micro_batches", 0) or replicas, 2)

    def test_replayed_compute(self):
        profile = self.folder / "g.json"
        result(run("graph", "--model", "cnn7-small", "--batch-size", 2, "--profile-out", profile, "--json"))
        done = result(run(*self.tune("--trials", "2", "--out", self.folder / "replay", "--compute", f"replay:{profile}")))
        self.assertGreater(done["best_step_time_s"], 0)

    def test_bad_input(self):
        out = self.folder / "one"
        out.mkdir()
        (out / "trials.jsonl").write_text("")
        for args, words in (
                (self.tune("--out", out), "--resume"),
                (self.tune("--resume", self.folder / "none"), "no trials there"),
                (self.tune("--out", self.folder / "x", "--mode", "best"), "published"),
                (self.tune("--out", self.folder / "x", model="vgg17"), "vgg16"),
                (self.tune("--out", self.folder / "x", "--compute", "slow"), "replay:FILE")):
            done = run(*args)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)

    def test_auto_ends_with_the_parameters_of_a_fixed_strategy(self):
        for model, space in (("cnn7-small", "sync"), ("transformer-small", "all")):
            with self.subTest(space=space):
                done, parameters = {}, {}
                for strategy in (("allreduce",), ("auto", "--space", space)):
                    out = self.folder / space / strategy[0]
                    done = result(run("train", "--model", model, "--cluster", "local:2", "--batch-size", 2, "--steps", 150,
                                      "--strategy", *strategy, "--out", out, "--json"))
                    parameters[strategy[0]], _ = read_tensors(newest_checkpoint(out))
                trials = trials_in(out / "trials.jsonl")
                if space == "sync":
                    self.assertEqual(len(done["auto"]["tunes"]), 1, "it settled")
                    self.assertGreater(len(trials), 8)
                    self.assertFalse(any("shape" in t["strategy"] for t in trials))
                else:
                    self.assertIn("shape", trials[0]["strategy"])
                    self.assertTrue(done["shape"])
                self.expect_same_parameters(parameters["allreduce"], parameters["auto"])

    def expect_same_parameters(self, one, other):
        compared = 0
        for name, data in one.items():
            if not name.startswith("model."):
                continue
            compared += 1
            expected, got = floats(data), floats(other[name])
            scale = max(map(abs, expected), default=0) + 1e-6
            worst = max((abs(a - b) for a, b in zip(expected, got)), default=0)
            self.assertLess(worst / scale, 1e-3, name)
        self.assertGreater(compared, 0, sorted(one))


if __name__ == "__main__":
    unittest.main()
