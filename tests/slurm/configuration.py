# SPDX-License-Identifier: Apache-2.0
"""The files of a Slurm lab (lab.py): slurm.conf and its companions, the key of munge, fake GPUs."""
import os
import shutil
import socket
import stat

from supervisor import HUB_ADDRESS

# What several slurmd on one machine need, without cgroups and whatever that machine has; then what makes tests quick.
SETTINGS = {
    "ClusterName": "weft",
    "SlurmUser": "root",
    "SlurmdUser": "root",
    "AuthType": "auth/munge",
    "AuthInfo": "socket={lab}/munge/socket",
    "CredType": "cred/munge",
    "StateSaveLocation": "{lab}/state",
    "SlurmdSpoolDir": "{lab}/spool/%n",
    "SlurmctldPidFile": "{lab}/slurmctld.pid",
    "SlurmdPidFile": "{lab}/slurmd-%n.pid",
    "SlurmctldLogFile": "{lab}/slurmctld.log",
    "SlurmdLogFile": "{lab}/slurmd-%n.log",
    "TmpFS": "{lab}/tmp/%n",  # PMIx keeps a directory for each job there
    "ProctrackType": "proctrack/linuxproc",
    "TaskPlugin": "task/none",
    "SelectType": "select/cons_tres",
    "SelectTypeParameters": "CR_Core",
    "MpiDefault": "none",
    "SlurmdParameters": "config_overrides",
    "PartitionName": "all Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
    "ReturnToService": 2,
    "KillWait": 2,
    "SchedulerParameters": "batch_sched_delay=0,bf_interval=3,bf_resolution=10,sched_interval=2",
}


def free_ports(count):
    """Sockets bound to so many ports. As long as they are open no other program is given these ports by chance; Slurm's daemons may
    still listen there, as both have SO_REUSEADDR."""
    held = []
    for _ in range(count):
        held.append(socket.socket())
        held[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held[-1].bind(("", 0))
    return held


def pod_of(lab, index):
    """Pods are of equal size, give or take a node."""
    return f"pod{index * lab.pods // len(lab.nodes) + 1}"


def node_lines(lab, ports):
    for index, node in enumerate(lab.nodes):
        place = f"NodeAddr={node.address}" + (f" NodeHostname={socket.gethostname()} Port={ports[index]}" if ports else "")
        size = f"CPUs={lab.cpus} CoresPerSocket={lab.cpus} RealMemory=8000" + (f" Gres=gpu:{lab.gpus}" if lab.gpus else "")
        yield f"NodeName={node.name} {place} {size}" + (f" Feature={pod_of(lab, index)}" if lab.pods else "") + " State=UNKNOWN"


def topology(lab):
    pods = {}
    for index, node in enumerate(lab.nodes):
        pods.setdefault(pod_of(lab, index), []).append(node.name)
    leaves = "".join(f"SwitchName={pod} Nodes={','.join(names)}\n" for pod, names in pods.items())
    return f"{leaves}SwitchName=spine Switches={','.join(pods)}\n"


def write_configuration(lab):
    """All files of a lab. Returns the sockets that hold its ports, to be closed with it: without namespaces each daemon has a port of its
    own, with them a network."""
    held = [] if lab.namespaces else free_ports(len(lab.nodes) + 1)
    ports = [port.getsockname()[1] for port in held]
    settings = dict(SETTINGS)
    if lab.namespaces:
        settings["SlurmctldHost"] = f"ctl({HUB_ADDRESS})"
    else:
        settings.update(SlurmctldHost=f"{socket.gethostname()}(127.0.0.1)", SlurmctldPort=ports[-1])
    if lab.pods:
        settings["TopologyPlugin"] = "topology/tree"
    if lab.gpus:
        settings["GresTypes"] = "gpu"
    lines = []
    for name, values in {**settings, **lab.options}.items():
        for value in values if isinstance(values, list) else [] if values is None else [values]:
            lines.append(f"{name}={value}".replace("{lab}", lab.directory) + "\n")
    lines += [line + "\n" for line in node_lines(lab, ports)]

    def write(name, text):
        with open(os.path.join(lab.directory, name), "w", encoding="ascii") as file:
            file.write(text)

    os.chmod(lab.directory, 0o755)
    for name in ("munge", "state", "spool", "dev", *(f"tmp/{node.name}" for node in lab.nodes)):
        os.makedirs(os.path.join(lab.directory, name))
    write("slurm.conf", "".join(lines))
    if lab.pods:
        write("topology.conf", topology(lab))
    if lab.gpus:
        devices = os.path.join(lab.directory, "dev", "nvidia")
        for index in range(lab.gpus):
            os.mknod(f"{devices}{index}", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        names = ",".join(node.name for node in lab.nodes)
        write("gres.conf", f"NodeName={names} Name=gpu Count={lab.gpus} File={devices}[0-{lab.gpus - 1}]\n")
    if lab.namespaces:
        write("hosts", f"127.0.0.1 localhost\n{HUB_ADDRESS} ctl\n" + "".join(f"{node.address} {node.name}\n" for node in lab.nodes))
    key = os.path.join(lab.directory, "munge", "key")
    with open(key, "wb", opener=lambda path, flags: os.open(path, flags, 0o400)) as file:
        file.write(os.urandom(1024))
    for path in (os.path.dirname(key), key):
        shutil.chown(path, "munge", "munge")
    return held
