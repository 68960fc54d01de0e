"""Emulated hosts with a real sshd on each, for tests that start ranks over ssh."""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

from support import ENTRAIN, ranks_of, run, start

SSHD = "/usr/sbin/sshd"
PORT = 2200


def reason():
    """Why there can be no such hosts here; empty: there can."""
    if os.geteuid() != 0:
        return "sshd on lab hosts needs root"
    if not os.path.exists(SSHD) or not shutil.which("ssh") or not shutil.which("ssh-keygen"):
        return "no sshd or ssh: scripts/setup installs openssh-server and openssh-client"
    check = run("lab", "check")
    if not any("root" in line and "yes" in line for line in check.stdout.splitlines()):
        return "no network namespaces here: entrain lab check says why"
    return ""


class Hosts:
    """Hosts 198.18.0.1 to .N in network namespaces, each with an sshd that takes one key. On the last but one a
    folder (`hidden`) is empty: what the others have there, it lacks. Programs are started on a host with run()."""

    def __init__(self, count):
        self.count = count

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="entrain-ssh-"))
        self.hidden = self.folder / "hidden"
        self.hidden.mkdir()
        self.sshd = []
        self.lab = start("launch", "--cluster", f"lab:{self.count}x1gbit", "--", "sleep", "3600",
                         env={"ENTRAIN_LAB": "root"})
        try:
            self._find_hosts()
            self._make_keys()
            for host in range(self.count):
                self._start_sshd(host)
            self._wait_for_sshd()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for sshd in self.sshd:
            sshd.kill()
            sshd.wait()
        self.lab.terminate()
        self.lab.communicate(timeout=30)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _find_hosts(self):
        deadline = time.monotonic() + 60
        found = {}
        while len(found) < self.count and time.monotonic() < deadline:
            found = ranks_of(self.lab.pid)
            time.sleep(0.1)
        self.pids = [found[rank] for rank in range(self.count)]
        self.namespaces = [os.readlink(f"/proc/{pid}/ns/net") for pid in self.pids]

    def _make_keys(self):
        for name in ("host_key", "user_key", "wrong_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / name], check=True)
        public = (self.folder / "host_key.pub").read_text().split()[:2]
        (self.folder / "known_hosts").write_text(
            "".join(f"[{self.address(host)}]:{PORT} {' '.join(public)}\n" for host in range(self.count)))
        shutil.copy(self.folder / "user_key.pub", self.folder / "authorized_keys")

    def _start_sshd(self, host):
        os.makedirs("/run/sshd", exist_ok=True)  # sshd wants it for its unprivileged part
        config = self.folder / f"sshd-{host}.conf"
        config.write_text(f"""
ListenAddress {self.address(host)}:{PORT}
HostKey {self.folder}/host_key
AuthorizedKeysFile {self.folder}/authorized_keys
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
""")
        command = f"exec {SSHD} -D -e -f {config}"
        if host == self.count - 2:
            command = f"mount -t tmpfs none {self.hidden} && {command}"
        enter = ["nsenter", "-t", str(self.pids[host]), "-n", "unshare", "-m", "sh", "-c", command]
        with open(self.folder / f"sshd-{host}.log", "w") as log:
            self.sshd.append(subprocess.Popen(enter, stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def _wait_for_sshd(self):
        deadline = time.monotonic() + 60
        for host in range(self.count):
            while time.monotonic() < deadline:
                done = self.run(0, *self.ssh().split(), "-p", PORT, "-i", self.folder / "user_key", "-o", "BatchMode=yes",
                                self.address(host), "true")
                if done.returncode == 0:
                    break
                time.sleep(0.2)
            else:
                raise RuntimeError(f"sshd of host {host}: {(self.folder / f'sshd-{host}.log').read_text()}\n{done.stderr}")

    @staticmethod
    def address(host):
        return f"198.18.0.{host + 1}"

    def ssh(self):
        """The ssh command: nothing of the machine's own configuration."""
        return f"ssh -F none -o UserKnownHostsFile={self.folder}/known_hosts -o GlobalKnownHostsFile=none"

    def cluster(self, hosts, key="user_key", folder=None, workers=1):
        """A cluster.yml of these hosts; its path."""
        nodes = "".join(f"  - {{address: {self.address(host)}, ssh_config: lab, workers: {workers}}}\n" for host in hosts)
        path = (folder or self.folder) / "cluster.yml"
        path.write_text(f"nodes:\n{nodes}ssh:\n  lab: {{username: root, port: {PORT}, key_file: {self.folder / key}}}\n")
        return path

    def start(self, host, *command, env=None):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "ENTRAIN_SSH": self.ssh(),
                       **(env or {})}
        return subprocess.Popen(["nsenter", "-t", str(self.pids[host]), "-n", *map(str, command)], cwd=self.folder,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=environment)

    def run(self, host, *command, timeout=180, env=None):
        job = self.start(host, *command, env=env)
        try:
            out, errors = job.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            job.send_signal(signal.SIGKILL)
            out, errors = job.communicate()
            raise AssertionError(f"hung: {command}\n{out}\n{errors}") from None
        return subprocess.CompletedProcess(command, job.returncode, out, errors)

    def entrain(self, host, *args, **options):
        return self.run(host, ENTRAIN, *args, **options)

    def processes(self):
        """{pid: command line} of what runs on the hosts, but for the lab's own and the waiting sshd."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if not entry.name.isdigit() or os.readlink(entry / "ns/net") not in self.namespaces:
                    continue
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            own = int(entry.name) in self.pids or "[listener]" in command
            if state != "Z" and not own:
                found[int(entry.name)] = command
        return found

    def ranks(self):
        """{rank: pid} of the program's ranks on the hosts."""
        found = {}
        for pid, command in self.processes().items():
            try:
                variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            for variable in variables:
                if variable.startswith(b"ENTRAIN_RANK="):
                    found[int(variable[13:])] = pid
        return found
