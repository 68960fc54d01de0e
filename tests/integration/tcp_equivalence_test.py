"""Gradients over tcp, every rank a process, equal those of one process on the whole batch."""
import subprocess
import unittest

from support import BUILD, ENTRAIN


class TcpEquivalence(unittest.TestCase):
    def check(self, launch, model, strategy):
        done = subprocess.run([ENTRAIN, "launch", *launch, "--", BUILD / "tests/integration/equivalence_rank", model,
                               strategy], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, f"{launch} {model} {strategy}\n{done.stderr}")

    def test_local_ranks(self):
        for ranks in (2, 3, 4):
            self.check(["-n", str(ranks)], "vgg16-small", "allreduce")
        self.check(["-n", "3"], "ncf-sparse-small", "allreduce")
        self.check(["-n", "3"], "ncf-sparse-small", "ps")
        self.check(["-n", "2"], "bert-small", "random-axis-allreduce")
        self.check(["-n", "2"], "lstm-small", "ddp")


if __name__ == "__main__":
    unittest.main()
