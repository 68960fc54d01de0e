"""The mpi transport in real mpirun jobs: the suite of every transport, what only processes can show, gradients."""
import re
import subprocess
import unittest

from support import BUILD, MPI_RANK, mpi_reason, mpirun


def suite():
    """{test: ranks} of the transport suite: without mpirun each test says how many it needs."""
    out = subprocess.run([MPI_RANK], capture_output=True, text=True, timeout=60).stdout
    return {name: int(ranks) for name, ranks in re.findall(r"RUN +\] (\S+)\n(?:(?!RUN).*\n)*?needs mpirun -np (\d+)", out)}


@unittest.skipIf(mpi_reason(), mpi_reason())
class MpiTransport(unittest.TestCase):
    def test_suite(self):
        tests = suite()
        self.assertGreater(len(tests), 15)
        for name, ranks in tests.items():
            if "Stopped" in name:
                continue
            with self.subTest(name):
                done = mpirun(ranks, MPI_RANK, f"--gtest_filter={name}", "--gtest_color=no", timeout=60)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertEqual(done.stdout.count("[  PASSED  ] 1 test."), ranks, done.stdout)

    def test_a_stopped_rank_is_named_and_nothing_hangs(self):
        done = mpirun(2, MPI_RANK, "--gtest_filter=*AStoppedPeer*", "--gtest_color=no", timeout=60)
        self.assertIn("[  PASSED  ] 1 test.", done.stdout, done.stdout + done.stderr)  # of rank 0
        self.assertNotEqual(done.returncode, 0)  # it left without MPI_Finalize, so mpirun has ended rank 1


@unittest.skipIf(mpi_reason(), mpi_reason())
class MpiEquivalence(unittest.TestCase):
    """Gradients over mpi equal those of one process on the whole batch."""

    def check(self, ranks, model, strategy):
        done = mpirun(ranks, BUILD / "tests/integration/equivalence_rank", model, strategy,
                      env={"OMP_NUM_THREADS": 1, "ENTRAIN_TRANSPORT": "mpi"})
        self.assertEqual(done.returncode, 0, f"{ranks} {model} {strategy}\n{done.stderr}")
        self.assertIn("over mpi", done.stderr)

    def test_local_ranks(self):
        for ranks in (2, 3, 4):
            self.check(ranks, "vgg16-small", "allreduce")
        self.check(3, "ncf-sparse-small", "allreduce")
        self.check(4, "ncf-sparse-small", "ps")
        self.check(2, "bert-small", "random-axis-allreduce")
        self.check(2, "lstm-small", "ddp")


if __name__ == "__main__":
    unittest.main()
