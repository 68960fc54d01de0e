"""Bad input gives exit code 2 (or 1) and one clear line; good input a result."""
import json
import os
import pathlib
import socket
import subprocess
import tempfile
import unittest

from support import BUILD, ENTRAIN, result, run, start


class BadInput(unittest.TestCase):
    def expect(self, code, words, *args, env=None):
        done = run(*args, env=env)
        self.assertEqual(done.returncode, code, done.stderr)
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        self.assertEqual(len(lines), 1, done.stderr)
        for word in words:
            self.assertIn(word, lines[0])

    def test_usage(self):
        self.expect(2, ["--model"], "train")
        self.expect(2, ["vreb"], "vreb")
        self.expect(2, ["--modle", "did you mean --model"], "train", "--modle", "vgg16-small")
        self.expect(2, ["--steps"], "train", "--model", "vgg16-small", "--steps", "-1")

    def test_unknown_names(self):
        self.expect(2, ["nosuch", "vgg16-32", "bert-small"], "train", "--model", "nosuch", "--cluster", "local:2")
        self.expect(2, ["nosuch", "allreduce", "ps-lb"], "train", "--model", "vgg16-small", "--cluster", "local:2",
                    "--strategy", "nosuch")
        self.expect(2, ["nosuch"], "graph", "--model", "nosuch")

    def test_results_that_cannot_be_written(self):
        here = ("train", "--model", "vgg16-small", "--steps", 2)
        with tempfile.TemporaryDirectory() as folder:
            f = pathlib.Path(folder)
            (f / "old").write_text("stays")
            self.expect(2, ["--save", "no such folder"], *here, "--save", f / "no/where")
            self.expect(2, ["--save", str(f), "folder"], *here, "--save", f)
            self.expect(2, ["--save", "/proc/x", "cannot write"], *here, "--save", "/proc/x")
            self.expect(2, ["--save", "cannot write", "too long"], *here, "--save", f / ("x" * 250))
            self.expect(2, ["nosuch"], "train", "--model", "nosuch", "--save", f / "old")
            self.assertEqual((f / "old").read_text(), "stays")
            self.assertEqual(os.listdir(f), ["old"])

    def test_flags_without_use(self):
        here = ("train", "--model", "vgg16-small", "--steps", 2)
        self.expect(2, ["--checkpoint-every 5", "--out"], *here, "--checkpoint-every", 5)
        self.expect(2, ["--period", "sgd", "lsgd"], *here, "--period", 4)
        self.expect(2, ["--schedule", "--pipeline"], *here, "--schedule", "gpipe")
        self.expect(2, ["--strategy ps", "lsgd"], *here, "--cluster", "local:2", "--strategy", "ps", "--optimizer", "lsgd")
        self.expect(2, ["1O=ps", "10=ps"], *here, "--switch", "1O=ps")
        self.expect(2, ["nosuch"], "demo", "--model", "nosuch")

    def test_clusters(self):
        self.expect(2, ["local:0"], "train", "--model", "vgg16-small", "--cluster", "local:0")
        self.expect(2, ["lab:4x1parsec"], "train", "--model", "vgg16-small", "--cluster", "lab:4x1parsec")
        self.expect(2, ["nothere.yml"], "train", "--model", "vgg16-small", "--cluster", "nothere.yml")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "bad.yml")
            path.write_text("nodes:\n  - {address: 10.0.0.1\n  - oops: [")
            self.expect(2, ["bad.yml:3:"], "train", "--model", "vgg16-small", "--cluster", path)
            path.write_text("nodes:\n  - {address: 10.0.0.1, network_bandwith: 3}\n")
            self.expect(2, ["network_bandwith", "network_bandwidth"], "train", "--model", "vgg16-small", "--cluster", path)

    def test_strategy_of_another_model(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "s.json")
            path.write_text(json.dumps({"id": "x", "node_config": [
                {"var_name": "other.weight", "AllReduceSynchronizer": {"group": 0}}]}))
            done = run("train", "--model", "vgg16-small", "--cluster", "local:2", "--strategy", path, "--steps", "2")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("other.weight", done.stderr)

    def test_explain(self):
        here = ("--model", "ncf-sparse-small", "--cluster", "lab:2x1gbit")
        self.expect(2, ["nosuch", "ps-lb"], "explain", "nosuch", *here)
        self.expect(2, ["nosuch", "ps-lb"], "simulate", "ps", "nosuch", *here)
        self.expect(2, ["nosuch", "vgg16-32"], "explain", "ps", "--model", "nosuch", "--cluster", "lab:2x1gbit")
        self.expect(2, ["--cluster"], "explain", "ps", "--model", "ncf-sparse-small")
        self.expect(2, ["local:1"], "explain", "ps", "--model", "ncf-sparse-small", "--cluster", "local:1")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "s.json")
            path.write_text(json.dumps({"id": "x", "node_config": [
                {"var_name": "other.weight", "AllReduceSynchronizer": {"group": 0}}]}))
            self.expect(2, ["other.weight", "another model"], "explain", path, *here)

    def test_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            done = run("train", "--model", "vgg16-small", "--cluster", "local:2",
                       env={"ENTRAIN_RANK": "0", "ENTRAIN_WORLD": "2", "ENTRAIN_RENDEZVOUS": f"127.0.0.1:{port}",
                            "ENTRAIN_TOKEN": "secret", "ENTRAIN_SERVE": "1", "ENTRAIN_TIMEOUT": "3"})
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(str(port), done.stderr)

    def test_no_privilege_for_the_lab(self):
        nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        if os.geteuid() != 0 or subprocess.run([*nobody, ENTRAIN, "--version"], capture_output=True).returncode != 0:
            self.skipTest("cannot run the program as nobody here")
        done = subprocess.run([*nobody, ENTRAIN, "train", "--model", "vgg16-small", "--cluster", "lab:2x1gbit"],
                              capture_output=True, text=True, env={**os.environ, "ENTRAIN_LAB": "root"})
        self.assertIn(done.returncode, (1, 2))
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("entrain lab check", done.stderr)


class Verbs(unittest.TestCase):
    def test_help(self):
        for verb in ("train", "graph", "probe", "explain", "simulate", "demo", "launch", "lab"):
            done = run(verb, "--help")
            self.assertEqual(done.returncode, 0)
            self.assertIn(verb, done.stdout)

    def test_graph(self):
        g = result(run("graph", "--model", "ncf-sparse-small", "--json"))
        for variable in g["variables"]:
            for key in ("name", "shape", "dtype", "sparse", "bytes", "ready_order", "forward_s", "backward_s", "flops"):
                self.assertIn(key, variable)
        self.assertTrue(any(v["sparse"] for v in g["variables"]))
        self.assertTrue(g["edges"])

    def test_explain_and_simulate(self):
        here = ("--model", "vgg16-small", "--cluster", "lab:1x10gbit+3x1gbit")
        e = result(run("explain", "ps", *here, "--json"))
        self.assertEqual(e["shares"]["ps"]["share"], 1)
        self.assertTrue(e["links"][0]["binds"])
        self.assertTrue(e["baseline"]["differences"])
        self.assertIn("link bound", run("explain", "byteps", *here).stdout)
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder, "trace.json")
            rows = result(run("simulate", "ps", "allreduce", *here, "--trace", trace, "--json"))["strategies"]
            self.assertEqual(len(rows), 2)
            self.assertTrue(json.loads(trace.read_text())["traceEvents"])

    def test_train_reports(self):
        r = result(run("train", "--model", "vgg16-small", "--cluster", "local:3", "--strategy", "ps", "--steps", "6",
                       "--batch-size", "2", "--json"))
        for key in ("step_time_median_s", "step_time_p10_s", "step_time_p90_s", "compute_time_s", "bytes_sent_per_rank",
                    "link_bound_s", "link_bound_best_s", "first_loss", "last_loss", "comm_share"):
            self.assertIn(key, r)
        self.assertGreater(r["bytes_sent_per_rank"], 0)

    def test_strategies_train_the_same(self):
        losses = [result(run("train", "--model", "bert-small", "--cluster", "local:2", "--strategy", s, "--steps", "5",
                             "--batch-size", "2", "--json"))["last_loss"] for s in ("allreduce", "ps", "byteps")]
        for loss in losses:
            self.assertAlmostEqual(loss, losses[0], places=4)

    def test_switch_between_steps(self):
        plain = result(run("train", "--model", "vgg16-small", "--cluster", "local:2", "--steps", "6", "--json"))
        switched = result(run("train", "--model", "vgg16-small", "--cluster", "local:2", "--steps", "6", "--json",
                              "--switch", "2=ps", "--switch", "4=ddp"))
        self.assertEqual(switched["strategy"], "ddp")
        self.assertAlmostEqual(plain["last_loss"], switched["last_loss"], places=4)

    def test_ranks_started_by_hand(self):
        """As on a cluster of one's own: every rank by itself, rank 0 runs the rendezvous."""
        with tempfile.TemporaryDirectory() as folder:
            cluster = pathlib.Path(folder, "cluster.yml")
            cluster.write_text("nodes:\n  - {address: 127.0.0.1, chief: true}\n  - {address: 127.0.0.2}\n")
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            ranks = [start("train", "--model", "vgg16-small", "--cluster", cluster, "--steps", "5", "--json",
                           env={"ENTRAIN_RANK": str(rank), "ENTRAIN_WORLD": "2", "ENTRAIN_TOKEN": "secret",
                                "ENTRAIN_RENDEZVOUS": f"127.0.0.1:{port}", "ENTRAIN_BIND": f"127.0.0.{rank + 1}",
                                "ENTRAIN_SERVE": "1" if rank == 0 else "0", "OMP_NUM_THREADS": "1"})
                     for rank in (0, 1)]
            outputs = [rank.communicate(timeout=60) for rank in ranks]
            self.assertEqual([rank.returncode for rank in ranks], [0, 0], outputs)
            self.assertEqual(len(json.loads(outputs[0][0])["bytes_sent_by_rank"]), 2)

    def test_a_rank_started_by_hand_is_checked_too(self):
        with tempfile.TemporaryDirectory() as folder:
            args = ("train", "--model", "vgg16-small", "--steps", 1, "--out", folder)
            result(run(*args, "--json"))
            done = run(*args, env={"ENTRAIN_RANK": "0", "ENTRAIN_WORLD": "2", "ENTRAIN_RENDEZVOUS": "127.0.0.1:1"})
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("--resume", done.stderr)

    def test_readme_shows_the_example(self):
        root = pathlib.Path(__file__).resolve().parents[2]
        source = (root / "examples/train.cc").read_text().split("\n", 1)[1]  # without its first comment
        readme = (root / "README.md").read_text()
        self.assertEqual(readme.split("```cpp\n")[1].split("```")[0].strip(), source.strip())

    def test_example(self):
        done = run("launch", "-n", "2", "--", BUILD / "examples/train")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("loss", done.stdout)


if __name__ == "__main__":
    unittest.main()
