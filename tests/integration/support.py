"""What the integration tests share: run the built program, find its processes, read its files."""
import json
import os
import pathlib
import shutil
import struct
import subprocess

BUILD = pathlib.Path(os.environ.get("ENTRAIN_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build")).resolve()
ENTRAIN = BUILD / "entrain"
MPI_RANK = BUILD / "src/entrain/transport/mpi_transport_rank"


def run(*args, timeout=120, env=None):
    """Runs `entrain ARGS` to its end."""
    return subprocess.run([ENTRAIN, *map(str, args)], capture_output=True, text=True, timeout=timeout,
                          env={**os.environ, **(env or {})})


def start(*args, env=None, stderr=subprocess.PIPE):
    """Starts `entrain ARGS`; the caller waits for it."""
    return subprocess.Popen([ENTRAIN, *map(str, args)], stdout=subprocess.PIPE, stderr=stderr, text=True,
                            env={**os.environ, **(env or {})})


def result(done):
    """The JSON document of a run that must have succeeded."""
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stderr}"
    return json.loads(done.stdout)


def ranks_of(launcher_pid):
    """{rank: pid} of the processes that a launcher has started and that have not ended."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            if int(stat[1]) != launcher_pid or stat[0] == "Z":
                continue
            environment = (entry / "environ").read_bytes().split(b"\0")
        except (OSError, IndexError):
            continue
        for variable in environment:
            if variable.startswith(b"ENTRAIN_RANK="):
                found[int(variable[13:])] = int(entry.name)
    return found


def read_tensors(path):
    """A safetensors file as {name: bytes}, and its metadata."""
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    metadata = header.pop("__metadata__", {})
    body = data[8 + size:]
    return {name: body[slice(*entry["data_offsets"])] for name, entry in header.items()}, metadata


def newest_checkpoint(folder):
    return max(pathlib.Path(folder).glob("checkpoint-*.safetensors"))


def free_of_ranks(pids):
    """True when none of these processes runs any more: some containers' first process buries nobody."""
    def runs(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
        except OSError:
            return False
    return not any(runs(pid) for pid in pids)


def mpi_reason():
    """Why there can be no mpirun jobs over the mpi transport here; empty: there can."""
    if shutil.which("mpirun") is None:
        return "no mpirun: scripts/setup installs Open MPI"
    if not MPI_RANK.exists():
        return "built without Open MPI"
    return ""


def mpirun(ranks, *command, options=(), env=None, timeout=120):
    """Runs a command as the ranks of an mpirun job. Everything on this machine, whoever is asking."""
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    variables = [word for name, value in (env or {}).items() for word in ("-x", f"{name}={value}")]
    # Its own session: mpirun ends what it started when it is told to, also after a timeout.
    job = subprocess.Popen(["mpirun", *root, "--oversubscribe", "--bind-to", "none", "-np", str(ranks), *options,
                            *variables, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                           start_new_session=True)
    try:
        out, errors = job.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        job.terminate()
        out, errors = job.communicate(timeout=30)
        raise AssertionError(f"mpirun hung: {command}\n{out}\n{errors}") from None
    return subprocess.CompletedProcess(job.args, job.returncode, out, errors)
