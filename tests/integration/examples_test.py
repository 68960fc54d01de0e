"""The programs in examples/, as a user runs them: built with the tests, started by the launcher."""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from support import BUILD, ENTRAIN, newest_checkpoint

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


class Examples(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def launch(self, name, *args, cluster="local:2"):
        done = subprocess.run([ENTRAIN, "launch", "--cluster", cluster, "--", BUILD / "examples" / name, *map(str, args)],
                              capture_output=True, text=True, timeout=300, cwd=self.folder, env=os.environ)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def losses(self, text):
        return [float(value) for value in re.findall(r"loss ([-\d.e]+)", text)]

    def expect_learning(self, text):
        losses = self.losses(text)
        self.assertGreater(len(losses), 1, text)
        self.assertLess(losses[-1], losses[0], text)

    def test_every_example_is_run_here(self):
        text = pathlib.Path(__file__).read_text()
        for example in EXAMPLES.glob("*.cc"):
            self.assertIn(f'"{example.stem}"', text)

    def test_plain(self):
        self.expect_learning(self.launch("train"))

    def test_own_loop(self):
        self.expect_learning(self.launch("own_loop"))

    def test_own_loop_with_a_host_that_only_serves(self):
        self.expect_learning(self.launch("own_loop", cluster="lab:2x1gbit+1x1gbit/server"))

    def test_data(self):
        self.expect_learning(self.launch("data"))

    def test_gan(self):
        radii = [float(value) for value in re.findall(r"radius ([\d.]+)", self.launch("gan"))]
        self.assertEqual(len(radii), 4)
        self.assertLess(max(radii), 10)  # neither collapsed nor away: GANs promise no more
        self.assertGreater(min(radii), 0.1)

    def test_apart(self):
        text = self.launch("apart")
        self.expect_learning(text)
        self.assertIn("6 exchanges", text)

    def test_pipeline_on_threads_on_ranks_and_with_replicas(self):
        for cluster in ("local:1", "local:2", "local:4"):
            with self.subTest(cluster=cluster):
                text = self.launch("pipeline", cluster=cluster)
                self.expect_learning(text)
                self.assertRegex(text, r"layers per cell: \d \d\n")

    def test_shaped(self):
        text = self.launch("shaped", self.folder / "run", cluster="local:3")
        self.expect_learning(text)
        self.assertIn("rank 0 was sent 0 bytes", text)
        self.assertEqual(newest_checkpoint(self.folder / "run").stem.split("-")[1].lstrip("0"), "100")
        again = self.launch("shaped", self.folder / "server", cluster="lab:3x1gbit+1x1gbit/server")
        for loss, expected in zip(self.losses(again), self.losses(text), strict=True):
            self.assertAlmostEqual(loss, expected, delta=1e-3 * expected)

    def test_checkpoints(self):
        whole = self.launch("checkpoints", self.folder / "whole", 60)
        self.assertIn("from step 0", whole)
        self.launch("checkpoints", self.folder / "halves", 40)
        halves = self.launch("checkpoints", self.folder / "halves", 60)
        self.assertIn("from step 40", halves)
        self.assertEqual(self.losses(halves), self.losses(whole))

    def test_auto(self):
        self.expect_learning(self.launch("auto", 300))
        self.assertIn("node_config", json.loads((self.folder / "strategy.json").read_text()))

    def test_tune(self):
        text = self.launch("tune", 3)
        self.assertRegex(text, r"ps: [\d.]+ ms expected")
        self.assertRegex(text, r"tuned: [\d.]+ ms, ddp [\d.]+ ms")
        self.assertTrue((self.folder / "tuned.json").exists())


if __name__ == "__main__":
    unittest.main()
