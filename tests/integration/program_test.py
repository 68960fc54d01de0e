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
        self.expect(2, ["unknown verb 'vreb'"], "vreb")
        self.expect(2, ["'trian'", "did you mean train?"], "trian", "--model", "vgg16-small")
        self.expect(2, ["'stat'", "did you mean stats?"], "dataset", "stat")
        self.expect(2, ["unknown verb 'nosuch'"], "help", "nosuch")
        self.expect(2, ["unknown verb 'stat'", "stats", "entrain dataset --help"], "help", "dataset", "stat")
        self.expect(2, ["--modle", "did you mean --model"], "train", "--modle", "vgg16-small")
        self.expect(2, ["--steps"], "train", "--model", "vgg16-small", "--steps", "-1")

    def test_unknown_names(self):
        self.expect(2, ["nosuch", "vgg16-32", "bert-small"], "train", "--model", "nosuch", "--cluster", "local:2")
        self.expect(2, ["nosuch", "allreduce", "ps-lb"], "train", "--model", "vgg16-small", "--cluster", "local:2",
                    "--strategy", "nosuch")
        self.expect(2, ["nosuch"], "graph", "--model", "nosuch")
        self.expect(2, ["'vgg61-32'", "did you mean vgg16-32?"], "train", "--model", "vgg61-32")
        self.expect(2, ["\"alreduce\"", "did you mean allreduce?"], "train", "--model", "vgg16-small", "--strategy", "alreduce")
        self.expect(2, ["\"all-reduce\"", "did you mean allreduce?"], "demo", "--strategy", "all-reduce+fp16")

    def test_a_number_out_of_range_is_answered_in_a_short_line(self):
        for verb in (["train", "--model", "vgg16-small"], ["tune", "--model", "vgg16-small", "--cluster", "local:2"], ["demo"],
                     ["graph", "--model", "vgg16-small"]):
            done = run(*verb, "--batch-size", 0)
            self.assertEqual(done.returncode, 2)
            self.assertIn("--batch-size: 0 is not allowed; it must be above 0", done.stderr)
            self.assertLess(len(done.stderr), 120)

    def test_folders_that_cannot_be_made(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "file")
            file.write_text("")
            for out in (file, file / "below", "/proc/entrain"):
                for verb in (["train", "--model", "vgg16-small", "--steps", 1],
                             ["tune", "--model", "vgg16-small", "--cluster", "local:2", "--trials", 1],
                             ["bench", "optimizers"], ["experiment", "symmetry"]):
                    done = run(*verb, "--out", out)
                    self.assertIn(done.returncode, (1, 2), done.stdout)
                    self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                    self.assertIn(str(out), done.stderr)
                    self.assertNotIn("filesystem error", done.stderr)

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
        self.expect(2, ["--epochs 3", "--data", "--steps"], "train", "--model", "vgg16-small", "--epochs", 3)
        self.expect(2, ["--epochs", "--steps"], *here, "--epochs", 3)

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
        for verb in ("train", "graph", "probe", "explain", "simulate", "what-if", "demo", "launch", "lab"):
            done = run(verb, "--help")
            self.assertEqual(done.returncode, 0)
            self.assertIn(verb, done.stdout)
            self.assertEqual(run("help", verb).stdout, done.stdout)

    def test_the_program_alone_and_help_list_the_verbs(self):
        alone, asked = run(), run("help")
        self.assertEqual((alone.returncode, asked.returncode), (2, 0))
        self.assertEqual(alone.stdout, asked.stdout)
        for verb in ("demo", "train", "tune", "env"):
            self.assertRegex(alone.stdout, rf"(?m)^  {verb} ")

    def test_env_tells_what_was_built_in(self):
        e = result(run("env", "--json"))
        for key in ("version", "compiler", "libtorch", "cuda", "nccl", "mpi", "tls", "blas", "cores", "memory_bytes", "lab",
                    "launcher"):
            self.assertIn(key, e)
        self.assertEqual(sorted(e["lab"]), ["root", "user", "userspace"])
        self.assertEqual(e["launcher"], "none")
        shown = run("env", env={"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29400"})
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("torchrun", shown.stdout)

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

    def test_what_if(self):
        found = result(run("what-if", "--model", "vgg16-small", "--cluster", "lab:2x1gbit", "--vary", "hosts=1,2,4",
                           "--vary", "link=100mbit,1gbit", "--global-batch", "16", "--json"))
        self.assertEqual([(p["hosts"], p["slowest_link_gbit"]) for p in found["points"]],
                         [(hosts, gbit) for hosts in (1, 2, 4) for gbit in (0.1, 1)])
        self.assertIn("from 2 hosts on 1 Gbit/s, 16 examples per update: 4 hosts give", found["better_buy"])

    def test_train_reports(self):
        r = result(run("train", "--model", "vgg16-small", "--cluster", "local:3", "--strategy", "ps", "--steps", "6",
                       "--batch-size", "2", "--json"))
        for key in ("step_time_median_s", "step_time_p10_s", "step_time_p90_s", "compute_time_s", "bytes_sent_per_rank",
                    "link_bound_s", "link_bound_best_s", "first_loss", "last_loss", "comm_share"):
            self.assertIn(key, r)
        self.assertGreater(r["bytes_sent_per_rank"], 0)

    def test_ranks_of_one_host_have_no_link_bound(self):
        for cluster, words in (("local:3", "link bound   none"), ("local:1", "nothing is sent")):
            done = run("train", "--model", "vgg16-small", "--cluster", cluster, "--steps", 4, "--batch-size", 2)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(words, done.stdout)
            self.assertNotIn("0 us", done.stdout)
        self.assertNotIn("not hidden", done.stdout)

    def test_compute_is_never_longer_than_the_step(self):
        for extra in ([], ["--pipeline", 2, "--micro-batches", 4]):
            r = result(run("train", "--model", "transformer-small", "--steps", 8, "--batch-size", 8, *extra, "--json"))
            self.assertLessEqual(r["compute_time_s"], r["step_time_median_s"])
            self.assertEqual(r["comm_share"], 0)

    def test_results_say_where_they_are(self):
        with tempfile.TemporaryDirectory() as folder:
            out, saved, trace = (pathlib.Path(folder, name) for name in ("run", "s.safetensors", "t.json"))
            done = run("train", "--model", "transformer-small", "--steps", 2, "--batch-size", 4, "--micro-batches", 2, "--out",
                       out, "--save", saved, "--trace", trace)
            self.assertEqual(done.returncode, 0, done.stderr)
            for path in (out, saved, trace):
                self.assertIn(f"written to   {path} ", done.stdout)
            self.assertIn(f"--resume {out}", done.stdout)

    def test_epochs_are_passes_through_the_data(self):
        with tempfile.TemporaryDirectory() as folder:
            text = pathlib.Path(folder, "words.txt")
            text.write_text("the quick brown fox jumps over the lazy dog\n" * 300)
            job = ("train", "--model", "lstm-small", "--data", f"text:{text}", "--batch-size", 4, "--json")
            steps = {(ranks, epochs): result(run(*job, "--cluster", f"local:{ranks}", "--epochs", epochs))["steps"]
                     for ranks, epochs in ((1, 1), (1, 2), (2, 1), (1, 0.5))}
            self.assertGreater(steps[1, 1], 10)
            self.assertEqual(steps[1, 2], 2 * steps[1, 1])
            self.assertEqual(steps[2, 1], steps[1, 1] // 2)
            self.assertAlmostEqual(steps[1, 0.5], steps[1, 1] / 2, delta=0.5)

    def test_a_rule_that_never_exchanges_is_warned_of(self):
        job = ("train", "--model", "cnn7-small", "--cluster", "local:2", "--batch-size", 2, "--optimizer", "lsgd", "--steps", 4)
        self.assertIn("exchanges every 64", run(*job, "--period", 64).stderr)
        self.assertNotIn("exchanges every", run(*job, "--period", 2).stderr)

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

    def by_hand(self, *flags_of_rank):
        """As on a cluster of one's own: every rank by itself, rank 0 runs the rendezvous. Exit codes, and outputs."""
        with tempfile.TemporaryDirectory() as folder:
            cluster = pathlib.Path(folder, "cluster.yml")
            cluster.write_text("nodes:\n  - {address: 127.0.0.1, chief: true}\n  - {address: 127.0.0.2}\n")
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            ranks = [start("train", "--model", "vgg16-small", "--cluster", cluster, "--steps", "5", "--json", *flags_of_rank[rank],
                           env={"ENTRAIN_RANK": str(rank), "ENTRAIN_WORLD": "2", "ENTRAIN_TOKEN": "secret",
                                "ENTRAIN_RENDEZVOUS": f"127.0.0.1:{port}", "ENTRAIN_BIND": f"127.0.0.{rank + 1}",
                                "ENTRAIN_SERVE": "1" if rank == 0 else "0", "OMP_NUM_THREADS": "1"})
                     for rank in (0, 1)]
            outputs = [rank.communicate(timeout=60) for rank in ranks]
            return [rank.returncode for rank in ranks], outputs

    def test_ranks_started_by_hand(self):
        codes, outputs = self.by_hand((), ())
        self.assertEqual(codes, [0, 0], outputs)
        self.assertEqual(len(json.loads(outputs[0][0])["bytes_sent_by_rank"]), 2)

    def test_ranks_started_by_hand_with_different_settings_are_refused(self):
        for first, second, words in (
                (("--lr", "0.1"), ("--lr", "0.2"), "optimizer.learning_rate is 0.2 on rank 1 and 0.1 on rank 0"),
                ((), ("--optimizer", "adam"), "optimizer.base is adam on rank 1 and sgd on rank 0"),
                ((), ("--optimizer", "lsgd-async"), "optimizer.rule is lsgd-async on rank 1 and sgd on rank 0"),
                (("--optimizer", "easgd-async"), ("--optimizer", "easgd-async", "--seed", "3"), "seed is 3 on rank 1 and 0 on rank 0"),
                (("--micro-batches", "2"), ("--micro-batches", "4"), "pipeline.micro_batches is 4 on rank 1 and 2 on rank 0"),
                ((), ("--batch-size", "7"), "batch_size is 7 on rank 1 and 32 on rank 0")):
            with self.subTest(words):
                codes, outputs = self.by_hand(first, second)
                self.assertEqual(codes, [2, 2], outputs)
                for _, err in outputs:
                    self.assertIn(words, err)

    def test_a_rank_started_by_hand_is_checked_too(self):
        with tempfile.TemporaryDirectory() as folder:
            args = ("train", "--model", "vgg16-small", "--steps", 1, "--out", folder)
            result(run(*args, "--json"))
            done = run(*args, env={"ENTRAIN_RANK": "0", "ENTRAIN_WORLD": "2", "ENTRAIN_RENDEZVOUS": "127.0.0.1:1"})
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("--resume", done.stderr)

    def test_readme_and_page_show_the_example(self):
        root = pathlib.Path(__file__).resolve().parents[2]
        source = (root / "examples/train.cc").read_text().split("\n", 1)[1]  # without its first comment
        for page in ("README.md", "docs/cpp.md"):
            text = (root / page).read_text()
            self.assertEqual(text.split("```cpp\n")[1].split("```")[0].strip(), source.strip(), page)

    def test_example(self):
        done = run("launch", "-n", "2", "--", BUILD / "examples/train")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("loss", done.stdout)


if __name__ == "__main__":
    unittest.main()
