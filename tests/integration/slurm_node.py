"""A Slurm of one node, as root, in a folder of its own with ports of its own: nothing of the system's is touched."""
import os
import pathlib
import secrets
import shutil
import socket
import subprocess
import tempfile
import time

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun")

CONFIG = """
ClusterName=entraintest
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={daemon}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
SlurmdParameters=config_overrides
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def reason():
    """Why Slurm cannot be started here; empty: it may be tried."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin") is None]
    if missing:
        return f"no {', '.join(missing)}: Debian's slurm-wlm and munge are not installed"
    return "" if os.geteuid() == 0 else "starting Slurm needs root"


def free_ports(count):
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


class SlurmNode:
    """with SlurmNode() as slurm: slurm.srun(4, "hostname")"""

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="entrain-slurm-"))
        self.folder.chmod(0o755)
        self.daemons = []
        self.environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf"),
                            "PATH": os.environ["PATH"] + ":/usr/sbin"}
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self):
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        self.daemon("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={self.folder}/munge.socket",
                    f"--pid-file={self.folder}/munged.pid", f"--log-file={self.folder}/munged.log",
                    f"--seed-file={self.folder}/munged.seed")
        controller, daemon = free_ports(2)
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        (self.folder / "slurm.conf").write_text(CONFIG.format(
            host=socket.gethostname().split(".")[0], folder=self.folder, controller=controller, daemon=daemon))
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        self.await_(lambda: (self.folder / "munge.socket").exists())
        self.daemon("slurmctld", "-D", "-i")
        self.daemon("slurmd", "-D")
        self.await_(lambda: "idle" in self.run("sinfo", "--noheader", "--format=%T").stdout)

    def daemon(self, *command):
        log = open(self.folder / f"{command[0]}.out", "w")
        self.daemons.append(subprocess.Popen(command, env=self.environment, stdout=log, stderr=log))
        log.close()

    def await_(self, condition, seconds=40):
        deadline = time.monotonic() + seconds
        while not condition():
            ended = [daemon.args[0] for daemon in self.daemons if daemon.poll() is not None]
            if ended or time.monotonic() > deadline:
                logs = "\n".join(path.read_text()[-1500:] for path in self.folder.glob("*.out"))
                raise RuntimeError(f"Slurm did not start ({' '.join(ended) or 'too slow'}):\n{logs}")
            time.sleep(0.2)

    def run(self, *command, timeout=120, env=None):
        return subprocess.run([*map(str, command)], env={**self.environment, **(env or {})}, capture_output=True,
                              text=True, timeout=timeout)

    def srun(self, ranks, *command, options=(), env=None):
        return self.run("srun", f"--ntasks={ranks}", *options, *command, env=env)

    def __exit__(self, *_):
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
