"""A real SLURM of one node on this machine, as the current user, in a folder of its own."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

#: Debian's packages, and the programs that are needed of them.
PACKAGES = {"munge": ["munged"], "slurm-wlm": ["slurmctld", "slurmd", "sbatch"]}

#: It starts a requeued job after five seconds instead of two minutes, and claims to have more CPUs
#: and memory than this machine.  Other jobs preempt those of the partition "low", which are given
#: ten seconds.
CONF = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
AuthInfo=socket={folder}/socket,cred_expire=5
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2
MpiDefault=none
ReturnToService=2
KillWait=5
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 RealMemory=64000
PartitionName=main Nodes={host} Default=YES PriorityTier=10
PartitionName=low Nodes={host} GraceTime=10
"""


def missing() -> list[str]:
    """The packages whose programs are not installed; munged and SLURM's daemons are in sbin."""
    path = f"{os.environ['PATH']}:/usr/sbin"
    return [
        p for p, names in PACKAGES.items() if not all(shutil.which(n, path=path) for n in names)
    ]


@contextlib.contextmanager
def slurm() -> Iterator[None]:
    """Start SLURM, and name its configuration in the environment; in the end stop what it runs."""
    with tempfile.TemporaryDirectory(prefix="slurm") as name, contextlib.ExitStack() as probes:
        folder, host = Path(name), socket.gethostname().partition(".")[0]
        ports = []
        for _ in range(2):
            probe = probes.enter_context(socket.socket())
            probe.bind(("127.0.0.1", 0))
            ports.append(probe.getsockname()[1])
        probes.close()
        folder.chmod(0o755)  # munge wants others not to write there
        (folder / "state").mkdir()
        (folder / "spool").mkdir()
        (folder / "key").write_bytes(os.urandom(1024))
        (folder / "key").chmod(0o600)
        conf = folder / "slurm.conf"
        conf.write_text(CONF.format(host=host, ports=ports, folder=folder, user=getpass.getuser()))
        environment = {**os.environ, "SLURM_CONF": str(conf)}
        environment["PATH"] += ":/usr/sbin"
        files = {"socket": "socket", "pid-file": "munged.pid", "log-file": "munged.log"}
        files |= {"key-file": "key", "seed-file": "seed"}
        munge = [f"--{flag}={folder / file}" for flag, file in files.items()]
        before = dict(os.environ)
        os.environ["SLURM_CONF"] = str(conf)
        try:
            for program in (["munged", *munge], ["slurmctld"], ["slurmd"]):
                with open(folder / "said", "ab") as said:
                    subprocess.run(program, env=environment, check=True, stdout=said, stderr=said)
            wait_for(lambda: "idle" in slurm_says("sinfo", "-h", "-o", "%T"), 60)
            yield
        finally:
            slurm_says("scancel", "--user", str(os.getuid()))
            wait_for(lambda: not slurm_says("squeue", "-h"), 60)
            del os.environ["SLURM_CONF"]
            os.environ.update(before)
            for daemon in ("slurmd", "slurmctld", "munged"):
                with contextlib.suppress(OSError, ValueError):
                    os.kill(int((folder / f"{daemon}.pid").read_text()), signal.SIGTERM)
                wait_for(lambda daemon=daemon: not (folder / f"{daemon}.pid").exists(), 30)


def slurm_says(*words: str) -> str:
    """What a program of SLURM prints; it may fail while its daemons start."""
    return subprocess.run(words, capture_output=True, text=True, timeout=60).stdout


def wait_for(found: Callable, seconds: float = 150):
    """The first true value of a function that is asked again and again."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if result := found():
            return result
        time.sleep(0.1)
    raise AssertionError("waited in vain")
