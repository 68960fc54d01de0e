"""Flags and files that are wrong: exit code 2 and one line that says how, before anything is started, within a GiB."""
import concurrent.futures
import gzip
import os
import pathlib
import resource
import subprocess
import tempfile
import unittest

from support import ENTRAIN

HUGE = 9223372036854775808
TRAIN = ("train", "--model", "vgg16-small", "--cluster", "local:2")

# By flag of `train`: values and words of the line that refuses them.
FLAGS = {
    "--steps": [("0", "above 0"), ("-1", "above 0"), ("1.5", "whole number"), ("x", "not a number"), ("", "not a number"),
                (HUGE, "whole number"), ("1000000000", "less than 1000000000")],
    "--seed": [("-1", "from 0 to 18446744073709551615"), ("1.5", "whole number"), (2**64, "whole number"), ("", "empty")],
    "--seconds": [("nan", "not a number"), ("inf", "number from"), ("-1", "0 or more"), ("1e300", "number from")],
    "--epochs": [("nan", "not a number"), ("0", "above 0"), ("inf", "number from")],
    "--timeout": [("nan", "not a number"), ("inf", "number from"), ("0", "above 0"), ("-3", "above 0"), ("1e31", "number from")],
    "--lr": [("nan", "number from"), ("inf", "number from"), ("0", "learning rate is 0"), ("-1", "learning rate is -1"), ("x", "not a number")],
    "--weight-decay": [("nan", "number from"), ("inf", "number from"), ("-1", "weight decay is -1")],
    "--clip": [("nan", "number from"), ("-1", "clip norm is -1")],
    "--warmup": [("nan", "number from"), ("1", "warm-up is 1")],
    "--lr-schedule": [("steep", "rate schedule is 'steep'")],
    "--optimizer": [("magic", "unknown optimizer 'magic'")],
    "--base": [("magic", "base is 'magic'")],
    "--period": [("0", "period is 0"), (HUGE, "whole number")],
    "--batch-size": [("0", "above 0"), (HUGE - 1, "at most 16777216"), (HUGE, "at most 16777216")],
    "--global-batch": [("0", "above 0"), ("16777217", "at most 16777216")],
    "--checkpoint-every": [("-1", "0 or more"), (HUGE, "whole number")],
    "--test-every": [("-1", "0 or more"), ("nan", "not a number")],
    "--resume": [("", "empty")],
    "--out": [("", "empty")],
    "--data": [("", "empty")],
    "--strategy": [("", "empty"), ("nothere.json", "nothere.json"), ("ps+magic", "ps+magic")],
    "--device": [("tpu", "tpu")],
    "--compute": [("imagined", "imagined"), ("replay:nothere", "nothere")],
    "--pipeline": [("0", "devices is 0"), ("2147483647", "up to 4096"), (HUGE, "whole number")],
    "--micro-batches": [("0", "is 0"), ("2147483647", "up to 65536")],
    "--shape": [("x", "shape: 'x'"), ("@9", "rank 9"), ("@0*nan", "nan"), ("@0-1048576", "0 to 4095")],
    "--reshape": [("x", "--reshape 'x'"), ("0=@0", "at least 1")],
    "--switch": [("x", "--switch 'x'"), ("5=nothere", "nothere")],
    "--port": [("0", "0"), ("65536", "65536")],
    "--ssh-port": [("-1", "-1")],
    "--on-nonfinite": [("pray", "pray")],
}
CLUSTERS = [("", "empty"), ("local:0", "rank count is"), ("a\nb", "\"a b\" is neither a file"), ("local:4097", "1 to 4096"), ("lab:4xnangbit", "rate is"), ("/dev/zero", "/dev/zero")]
OTHERS = [
    (("tune", "--model", "vgg16-small", "--cluster", "local:2", "--trials", "nan"), "not a number"),
    (("graph", "--model", "vgg16-small", "--batch-size", HUGE - 1), "at most 16777216"),
    (("pipeline", "plan", "--model", "transformer-32", "--devices", "2147483647"), "4096"),
    (("pipeline", "plan", "--model", "transformer-32", "--devices", "4", "--memory", "nan"), "nan"),
    (("dataset", "stats", "/dev/zero"), "/dev/zero"),
    (("dataset", "stats", "nothere.jsonl"), "nothere.jsonl"),
]


def refusal(words, data=1 << 30):
    """Exit code and lines of stderr of a process that may take so many bytes of memory of its own."""
    def limit_data():
        resource.setrlimit(resource.RLIMIT_DATA, (data, data))
    done = subprocess.run([ENTRAIN, *map(str, words)], capture_output=True, text=True, timeout=60, env={**os.environ, "OMP_NUM_THREADS": "1"},
                          preexec_fn=limit_data)
    return done.returncode, [line for line in done.stderr.splitlines() if line.strip()]


class Malformed(unittest.TestCase):
    def expect_refused(self, table):
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for (words, wanted), (code, lines) in zip(table, pool.map(refusal, (words for words, _ in table))):
                with self.subTest(words=words):
                    self.assertEqual((code, len(lines)), (2, 1), lines)
                    self.assertIn(wanted, lines[0])
                    self.assertLess(len(lines[0]), 400)

    def test_flags_of_train(self):
        self.expect_refused([((*TRAIN, flag, value), words) for flag, values in FLAGS.items() for value, words in values])

    def test_clusters(self):
        self.expect_refused([(("train", "--model", "vgg16-small", "--cluster", cluster), words) for cluster, words in CLUSTERS])

    def test_examples_of_all_ranks_together(self):
        code, lines = refusal((*TRAIN, "--batch-size", 16777216))
        self.assertEqual(code, 2, lines)
        self.assertIn("--batch-size 16777216 for each of 2 ranks: allowed: 1 or more, at most 16777216 examples per update", lines[0])

    def test_other_verbs(self):
        self.expect_refused(OTHERS)

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            f = pathlib.Path(folder)
            (f / "deep.jsonl").write_text('{"trial": ' + "[" * 200_000 + "\n")
            (f / "bomb.jsonl.gz").write_bytes(gzip.compress(b"0" * (300 << 20), 9))
            node = '{"var_name": "w%d", "partitioner": "60000", "AllReduceSynchronizer": {}}'
            (f / "shards.json").write_text('{"node_config": [' + ",".join(node % i for i in range(150)) + "]}")
            (f / "devices.json").write_text('{"pipeline": {"devices": 2147483647, "micro_batches": 2147483647}}')
            (f / "devices.yml").write_text("nodes: [{address: a, gpus: 2147483647}]")
            (f / "nan.json").write_text('{"model": "vgg16-small", "variables": [{"name": "w", "shape": [2], "forward_s": "NaN"}]}')
            self.expect_refused([
                (("dataset", "stats", f / "deep.jsonl"), "nested too deeply"),
                (("dataset", "stats", f / "bomb.jsonl.gz"), "100 times as much"),
                ((*TRAIN, "--strategy", f / "shards.json"), "65536 shards"),
                ((*TRAIN, "--strategy", f / "devices.json"), "devices is 2147483647"),
                (("train", "--model", "vgg16-small", "--cluster", f / "devices.yml"), "allowed: 0 to 1024"),
                (("train", "--cluster", "local:2", "--compute", f"replay:{f / 'nan.json'}"), "forward_s is nan"),
                (("tune", "--cluster", "local:2", "--model", "vgg16-small", "--compute", f"replay:{f / 'nan.json'}"), "forward_s is nan"),
            ])

    def test_a_checkpoint_of_another_seed(self):
        for way in ((), ("--shape", "@0"), ("--optimizer", "lsgd")):
            with tempfile.TemporaryDirectory() as folder:
                here = ("train", "--model", "bert-small", "--batch-size", 2, *way)
                code, lines = refusal((*here, "--steps", 2, "--seed", 7, "--out", folder), data=8 << 30)
                self.assertEqual(code, 0, lines)
                code, lines = refusal((*here, "--steps", 4, "--resume", folder), data=8 << 30)
                self.assertEqual(code, 2, lines)
                self.assertIn("a checkpoint of --seed 7, not of 0", lines[-1])


if __name__ == "__main__":
    unittest.main()
