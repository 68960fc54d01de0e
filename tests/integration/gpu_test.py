"""Jobs on GPUs as real processes: ranks that share one, and NCCL between ranks that have one each.

NCCL refuses two ranks on one GPU of one host. With another NCCL_HOSTID for each rank it takes them for ranks of
different hosts, so that one GPU is enough to test it."""
import shutil
import subprocess
import unittest

from support import ENTRAIN, result, run

JOB = ["train", "--model", "vgg16-small", "--batch-size", "4", "--steps", "6", "--lr", "0.01", "--json"]


def gpu_reason():
    """Why there can be no GPU jobs here; empty: there can."""
    if shutil.which("nvidia-smi") is None or subprocess.run(["nvidia-smi"], capture_output=True).returncode != 0:
        return "no GPU here"
    done = run("graph", "--model", "vgg16-small", "--device", "cuda", "--repeats", "1")
    return "" if done.returncode == 0 else done.stderr


REASON = gpu_reason()


@unittest.skipIf(REASON, REASON)
class Gpu(unittest.TestCase):
    def close(self, a, b):
        self.assertAlmostEqual(a["last_loss"], b["last_loss"], delta=5e-4 * b["last_loss"])

    def test_ranks_that_share_a_gpu_say_so_and_train_as_on_the_cpu(self):
        cpu = result(run(*JOB, "--cluster", "local:2"))
        done = run(*JOB, "--cluster", "local:2", "--device", "cuda")
        self.close(result(done), cpu)
        self.assertIn("through host memory", done.stderr)

    def test_nccl_gives_the_same(self):
        cpu = result(run(*JOB, "--cluster", "local:2"))
        for strategy in ["allreduce", "parallax", "ps"]:
            job = " ".join([str(ENTRAIN), *JOB, "--device", "cuda", "--strategy", strategy])
            done = subprocess.run([ENTRAIN, "launch", "--cluster", "local:2", "--", "sh", "-c",
                                   f"NCCL_HOSTID=host$RANK NCCL_SOCKET_IFNAME=lo exec {job}"],
                                  capture_output=True, text=True, timeout=300)
            self.close(result(done), cpu)
            self.assertIn("NCCL sums", done.stderr)


if __name__ == "__main__":
    unittest.main()
