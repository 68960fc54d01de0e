"""The same job gives the same losses, whoever starts its ranks, and over tcp as over mpi."""
import contextlib
import json
import os
import pathlib
import socket
import subprocess
import tempfile
import time
import unittest

import slurm_node
from support import ENTRAIN, mpi_reason, mpirun, ranks_of, result, run, start

RANKS = 4
THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def command(strategy, out):
    return ["train", "--model", "vgg16-small", "--strategy", strategy, "--steps", "6", "--seed", "3", "--timeout", "60",
            "--out", str(out), "--json"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def losses(folder):
    lines = pathlib.Path(folder, "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["loss"] for line in lines]


class SameLosses:
    def compare(self, start_job, found, strategies=("allreduce", "ps"), cluster=f"local:{RANKS}"):
        """`start_job` runs a command on every rank and returns (exit code, stdout, stderr), the latter with `found`."""
        for strategy in strategies:
            with self.subTest(strategy), tempfile.TemporaryDirectory() as folder:
                expected, out = pathlib.Path(folder, "expected"), pathlib.Path(folder, "out")
                result(run("launch", "-n", RANKS, "--", ENTRAIN, *command(strategy, expected), env=THREADS))
                code, stdout, stderr = start_job(command(strategy, out))
                self.assertEqual(code, 0, stderr)
                self.assertIn(found, stderr)
                self.assertEqual(json.loads(stdout)["cluster"], cluster)
                self.assertEqual(len(losses(out)), 6)
                for mine, theirs in zip(losses(out), losses(expected)):
                    self.assertAlmostEqual(mine, theirs, places=4)


class Launchers(SameLosses, unittest.TestCase):
    def by_hand(self, variables):
        """A job of four processes, each with `variables(rank)` in its environment."""
        def start_job(arguments):
            ranks = [start(*arguments, env={**THREADS, **variables(rank)}) for rank in range(RANKS)]
            try:
                outputs = [rank.communicate(timeout=120) for rank in ranks]
            finally:
                for rank in ranks:
                    if rank.poll() is None:
                        rank.kill()
                        rank.communicate()
            return max(rank.returncode for rank in ranks), outputs[0][0], "".join(errors for _, errors in outputs)
        return start_job

    def test_torchrun(self):
        port = free_port()
        self.compare(self.by_hand(lambda rank: {
            "RANK": str(rank), "WORLD_SIZE": str(RANKS), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(RANKS),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}), f"{RANKS} ranks started by torchrun, over tcp")

    def test_environment_of_slurm(self):
        self.compare(self.by_hand(lambda rank: {
            "SLURM_PROCID": str(rank), "SLURM_NTASKS": str(RANKS), "SLURM_LOCALID": str(rank), "SLURM_STEP_ID": "0",
            "SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_NODELIST": "localhost", "SLURM_JOB_NODELIST": "localhost"}),
            f"{RANKS} ranks started by Slurm (srun), over tcp")

    @unittest.skipIf(slurm_node.reason(), slurm_node.reason())
    def test_slurm(self):
        with slurm_node.SlurmNode() as slurm:
            def start_job(arguments):
                done = slurm.srun(RANKS, ENTRAIN, *arguments, env=THREADS)
                return done.returncode, done.stdout, done.stderr
            self.compare(start_job, f"{RANKS} ranks started by Slurm (srun), over tcp")
            if not mpi_reason() and "pmix" in slurm.run("srun", "--mpi=list").stdout:
                def start_pmix(arguments):
                    done = slurm.srun(RANKS, ENTRAIN, *arguments, options=["--mpi=pmix"], env=THREADS)
                    return done.returncode, done.stdout, done.stderr
                self.compare(start_pmix, f"{RANKS} ranks started by Slurm (srun), over mpi", ["allreduce"])

    @unittest.skipIf(mpi_reason(), mpi_reason())
    def test_mpirun(self):
        for transport in ("mpi", "tcp"):
            def start_job(arguments):
                done = mpirun(RANKS, ENTRAIN, *arguments, env={**THREADS, "ENTRAIN_TRANSPORT": transport})
                return done.returncode, done.stdout, done.stderr
            self.compare(start_job, f"{RANKS} ranks started by Open MPI (mpirun), over {transport}")

    @unittest.skipIf(mpi_reason(), mpi_reason())
    def test_bad_input_is_told_by_every_rank(self):
        done = mpirun(2, ENTRAIN, "train", "--model", "nosuch")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("vgg16-32", done.stderr)
        done = mpirun(2, ENTRAIN, "train", "--model", "vgg16-small", "--cluster", "local:3", "--steps", "2")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("local:3", done.stderr)

    def test_mpi_needs_an_mpi_job(self):
        if mpi_reason():
            self.skipTest(mpi_reason())
        done = run("launch", "-n", "2", "--", ENTRAIN, "train", "--model", "vgg16-small", "--steps", "2",
                   env={"ENTRAIN_TRANSPORT": "mpi"})
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("mpirun", done.stderr)


def lab_reason():
    if os.geteuid() != 0:
        return "mpirun on lab hosts needs root, to enter their namespaces"
    done = run("lab", "check")
    return "" if any("root" in line and "yes" in line for line in done.stdout.splitlines()) else done.stdout


@unittest.skipIf(mpi_reason() or lab_reason(), mpi_reason() or lab_reason())
class MpirunOverHosts(SameLosses, unittest.TestCase):
    """mpirun starts its daemons on emulated hosts by an agent in the place of ssh."""

    @contextlib.contextmanager
    def hosts(self):
        """{address: pid} of a process on each host of a lab."""
        lab = start("launch", "--cluster", f"lab:{RANKS}x1gbit", "--", "sleep", "600", env={"ENTRAIN_LAB": "root"})
        try:
            deadline = time.monotonic() + 60
            found = {}
            while len(found) < RANKS and time.monotonic() < deadline:
                found = ranks_of(lab.pid)
                time.sleep(0.2)
            yield {f"198.18.0.{rank + 1}": pid for rank, pid in sorted(found.items())}
        finally:
            lab.terminate()
            lab.communicate(timeout=30)

    def sent(self, pid):
        lines = pathlib.Path(f"/proc/{pid}/net/dev").read_text().splitlines()
        return sum(int(line.split(":")[1].split()[8]) for line in lines if line.strip().startswith("eth0"))

    def mpirun(self, hosts, arguments, variables):
        agent = pathlib.Path(__file__).with_name("rsh_agent")
        exports = [word for name, value in {**THREADS, **variables}.items() for word in ("-x", f"{name}={value}")]
        words = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "-np", RANKS, "--host", ",".join(hosts), "--mca",
                 "plm_rsh_agent", agent, "--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "eth0", "--mca",
                 "oob_tcp_if_include", "eth0", *exports, ENTRAIN, *arguments]
        first = next(iter(hosts))
        done = subprocess.run([agent, first, " ".join(map(str, words))], capture_output=True, text=True, timeout=180,
                              env={**os.environ, "LAB_HOSTS": " ".join(f"{a}={p}" for a, p in hosts.items())})
        return done.returncode, done.stdout, done.stderr

    def test_over_hosts(self):
        meeting = {"MASTER_ADDR": "198.18.0.1", "MASTER_PORT": "29400"}
        with self.hosts() as hosts:
            for transport, more in (("mpi", {}), ("tcp", meeting)):
                before = [self.sent(pid) for pid in hosts.values()]

                def start_job(arguments):
                    return self.mpirun(hosts, arguments, {"ENTRAIN_TRANSPORT": transport, **more})
                self.compare(start_job, f"{RANKS} ranks started by Open MPI (mpirun), over {transport}", ["allreduce"],
                             "Open MPI (mpirun)")
                for pid, old in zip(hosts.values(), before):
                    self.assertGreater(self.sent(pid) - old, 1e6, "the gradients went over the hosts' links")


if __name__ == "__main__":
    unittest.main()
