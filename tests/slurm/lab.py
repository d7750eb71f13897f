# SPDX-License-Identifier: Apache-2.0
"""A Slurm of several nodes on this machine for as long as a `with` lasts, whose parts can fail. See README.md beside this file.

    with SlurmLab(nodes=4, cpus=8, pods=2, options={"SlurmdTimeout": 12}) as lab:
        lab.run("srun", "-N4", "hostname")
        lab.node("n1").kill()

Waits are for conditions, up to LIMIT seconds, and raise Failed with the daemons' logs.
"""
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

from configuration import write_configuration
from supervisor import HUB_ADDRESS, NEW_NETWORK, SKIP, call

HERE = os.path.dirname(os.path.realpath(__file__))
LIMIT = 60  # seconds for what takes a few, on a machine with other work
PROGRAMS = ("slurmctld", "slurmd", "srun", "munged", "setpriv")


class Unavailable(Exception):
    """This machine cannot run a lab; the message is one line."""


class Failed(Exception):
    """The lab, or a command on it, did not do what it should."""


def missing(namespaces=False):
    """What this machine lacks for a lab, in one line; None if nothing."""
    for program in PROGRAMS:
        if not shutil.which(program):
            return f"{program} is missing: install slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge"
    if os.geteuid() != 0:
        return "only root can run slurmd"
    if namespaces:
        check = subprocess.run([os.path.join(HERE, "..", "cluster", "cluster"), "check"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               text=True, check=False)
        if check.returncode != 0:
            return check.stderr.strip().replace("\n", "; ") or "no cluster can be made here (tests/cluster/README.md)"
    return None


def skip_where_missing(namespaces=False):
    """End a test as skipped, where there can be no lab."""
    lacks = missing(namespaces)
    if lacks:
        print(lacks)
        sys.exit(SKIP)


def clean_variables():
    """The environment, without what a Slurm around the test has set."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "SLURMD_", "PMI"))}


def all_processes():
    """{process: its parent} of the machine, but for the dead."""
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as file:
                state, parent = file.read().rsplit(")", 1)[1].split()[:2]
            if state not in "ZX":
                found[int(entry)] = int(parent)
    return found


def read_status(process, name):
    """A line of /proc/PROCESS/status, as words; none if the process has ended."""
    with contextlib.suppress(OSError):
        with open(f"/proc/{process}/status", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith(name + ":"):
                    return line.split()[1:]
    return []


class Node:
    """A host of the lab. `name`; `address`, at which the server reaches it."""

    def __init__(self, lab, name, address):
        self.lab, self.name, self.address = lab, name, address
        self.first = None  # the process that holds it
        self.namespace = None  # of processes

    def _members(self):
        """Numbers of the processes of the node, without its first."""
        table = all_processes()
        if self.lab.namespaces:
            found = set()
            for process in table:
                with contextlib.suppress(OSError):
                    if os.readlink(f"/proc/{process}/ns/pid") == self.namespace:
                        found.add(process)
        else:
            found, size = {self.first}, 0
            while len(found) > size:
                size = len(found)
                found.update(process for process, parent in table.items() if parent in found)
        return found - {self.first}

    def _slurmd(self):
        """The process of its slurmd, or None. The number in the file is that of the node's own process namespace."""
        with contextlib.suppress(OSError, ValueError):
            with open(os.path.join(self.lab.directory, f"slurmd-{self.name}.pid"), encoding="ascii") as file:
                number = str(int(file.read()))
            for process in self._members():
                if read_status(process, "NSpid")[-1:] == [number] and read_status(process, "Name") == ["slurmd"]:
                    return process
        return None

    def state(self):
        """As sinfo shows it: idle, mixed, allocated, down, drained...; with * if it does not respond."""
        return self.lab.states()[self.name]

    def processes(self):
        """{process: command line} of what runs on the node, Slurm's own included, as the machine numbers them. Without namespaces these
        are slurmd, its steps, and what they have started."""
        found = {}
        for process in sorted(self._members()):
            with contextlib.suppress(OSError):
                with open(f"/proc/{process}/cmdline", "rb") as file:
                    words = file.read().rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")
                found[process] = words or " ".join(read_status(process, "Name"))
        return found

    def command(self, words):
        """The words that run a program on the node, outside Slurm; its directory is the root there."""
        if self.lab.namespaces:
            return ["nsenter", f"--target={self.first}", "--net", "--uts", "--ipc", "--mount", "--pid", "--", *words]
        return ["env", f"SLURMD_NODENAME={self.name}", *words]

    def kill(self):
        """The host dies, at once and with all that runs there. With namespaces it falls silent: nobody gets an end of a connection."""
        if not self.first:
            raise Failed(f"{self.name} is dead already")
        if self.lab.namespaces:
            self.cut()
        else:
            self.lab.wait(self._kill_members, f"{self.name} dies")
        os.kill(self.first, signal.SIGKILL)
        self.lab.wait(lambda: self.first not in all_processes() and not self._members(), f"{self.name} is dead")
        self.first = None

    def _kill_members(self):
        """Whether all are dead. Its first process comes last: it adopts their orphans."""
        members = self._members()
        for process in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        return not members

    def kill_slurmd(self):
        """slurmd crashes; what it has started lives on."""
        process = self._slurmd()
        if not process:
            raise Failed(f"no slurmd runs on {self.name}")
        os.kill(process, signal.SIGKILL)
        self.lab.wait(lambda: process not in all_processes(), f"the slurmd of {self.name} ends")

    def start(self, wait=True):
        """Start slurmd, and before that the host, if it is dead. Returns when the controller has it, if it shall wait."""
        if self.first and self._slurmd():
            return
        if self.first:
            self.lab.ask("slurmd", self.name)
        else:
            self.boot()
        if wait:
            self.lab.wait(self._slurmd, f"the slurmd of {self.name} runs")
            self.lab.wait(lambda: is_up(self.state()), f"{self.name} is up")

    def boot(self):
        self.first = self.lab.ask("boot", self.name)
        self.namespace = os.readlink(f"/proc/{self.first}/ns/pid")

    def cut(self):
        """Take the link down, as if the cable were pulled."""
        self._set_link("down")

    def heal(self):
        self._set_link("up")

    def _set_link(self, state):
        if not self.lab.namespaces:
            raise Failed("nodes have links only in a lab with namespaces=True")
        subprocess.run(self.lab.server_command(["ip", "link", "set", self.name, state]), check=True)


def is_up(state):
    return not state.endswith("*") and state not in ("down", "unknown")


class SlurmLab:
    """Nodes n1, n2, ..., each with so many processors and GPUs, whatever the machine has; `options` are lines of slurm.conf: a value, a
    list for several lines, or None for none; {lab} stands for its directory. Nodes are spread over pods pod1, pod2, ...: switches, and
    features of nodes; with pods=0 Slurm knows no topology.

    With namespaces=True each node has its own network, host name, processes, mounts and shared memory; with private_tmp=True its own
    /tmp too, in which it sees the directory of the lab and those of `share`.

    Attributes: `environment`, variables by which commands find this Slurm; `directory`, which goes with the lab and which all nodes see;
    `server_address`, at which nodes reach a server that server_command() has started; `nodes`."""

    def __init__(self, nodes=2, cpus=8, gpus=0, pods=1, namespaces=False, private_tmp=False, share=(), options=None):
        lacks = missing()
        if lacks:
            raise Unavailable(lacks)
        if not 1 <= nodes <= 32 or not 0 <= pods <= nodes or private_tmp and not namespaces:
            raise ValueError("a lab has 1 to 32 nodes, at most as many pods, and a private /tmp only with namespaces")
        self.cpus, self.gpus, self.pods, self.namespaces, self.options = cpus, gpus, pods, namespaces, options or {}
        self.server_address = HUB_ADDRESS if namespaces else "127.0.0.1"
        self.nodes = [Node(self, f"n{i}", f"10.77.0.{10 + i}" if namespaces else "127.0.0.1") for i in range(1, nodes + 1)]
        self.private = [os.path.abspath(path) for path in share] if private_tmp else None
        self.directory = self.supervisor = self.controller = None
        self.environment, self.ports, self.lock = {}, [], threading.Lock()

    # ---- its life ----

    def __enter__(self):
        try:
            self._supervise()
            self.environment = {"SLURM_CONF": os.path.join(self.directory, "slurm.conf")}
            self.ports = write_configuration(self)
            self.ask("enter")
            self.ask("munge")
            self.start_controller()
            for node in self.nodes:
                node.boot()
            self.wait(self.all_idle, "all nodes are idle")
            return self
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise

    def __exit__(self, kind, error, _trace):
        if error and self.directory and not isinstance(error, (SystemExit, Unavailable)):
            print(self.logs(), file=sys.stderr)
        code = 0
        if self.supervisor:
            self.supervisor.stdin.close()
            code = self.supervisor.wait()
            self.supervisor.stdout.close()
        if self.directory:
            shutil.rmtree(self.directory, ignore_errors=True)  # gone, unless the supervisor was killed
        for port in self.ports:
            port.close()
        if code and not error:
            raise Failed(f"the lab's supervisor ended with {code}: something of {self.directory} is left")

    def _supervise(self):
        plan = {"test": os.getpid(), "nodes": {node.name: node.address for node in self.nodes}, "namespaces": self.namespaces,
                "private": self.private}
        self.supervisor = subprocess.Popen([sys.executable, "-B", os.path.join(HERE, "supervisor.py"), json.dumps(plan)], cwd="/",
                                           env=clean_variables(), bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                           start_new_session=True)
        self.directory = self._answer()

    def _answer(self):
        line = self.supervisor.stdout.readline()
        if not line:
            raise Failed("the lab's supervisor has ended")
        answer = json.loads(line)
        if "refused" in answer:
            raise (Unavailable if answer["status"] == SKIP else Failed)(answer["refused"])
        return answer["done"]

    def ask(self, *words):
        """A request to the supervisor (supervisor.py), and its answer."""
        with self.lock:
            with contextlib.suppress(BrokenPipeError):  # there is no answer either
                self.supervisor.stdin.write(json.dumps(words).encode() + b"\n")
            return self._answer()

    # ---- waiting ----

    def wait(self, condition, what, seconds=LIMIT):
        """The first value of the condition that counts as true."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = condition()
            if value:
                return value
            time.sleep(0.05)
        raise Failed(f"not within {seconds} s: {what}; nodes: {self.states()}")

    def logs(self, lines=15):
        """The end of each daemon's log, and the errors they have reported before they had one."""
        shown = []
        for path in [os.path.join(self.directory, name) for name in (*sorted(os.listdir(self.directory)), "munge/log")]:
            if path.endswith((".log", "/log", "/said")) and os.path.exists(path):
                with open(path, encoding="utf-8", errors="replace") as file:
                    said = [line for line in file if not path.endswith("/said") or not re.match(r"\w+: (?!.*(error|fatal))", line, re.I)]
                shown += [f"== {path}\n", *said[-lines:]]
        return "".join(shown)

    # ---- what runs where ----

    def _variables(self):
        return {**clean_variables(), **self.environment}

    def server_command(self, words):
        """The words that run a program on the login node, where the server of a platform belongs too. It stays the test's own process."""
        if self.namespaces:
            return ["nsenter", f"--target={self.supervisor.pid}", "--net", "--uts", "--mount", f"--wdns={os.getcwd()}", "--", *words]
        return list(words)

    def run(self, *words, check=True, timeout=LIMIT, **keywords):
        """Run a command on the login node. Returns what subprocess.run() does, with its output as text."""
        keywords = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": self._variables(), **keywords}
        done = subprocess.run(self.server_command(words), text=True, timeout=timeout, check=False, **keywords)
        if check and done.returncode != 0:
            raise Failed(f"{' '.join(words)}: exit code {done.returncode}: {done.stdout}{done.stderr}")
        return done

    @contextlib.contextmanager
    def network(self):
        """The calling thread is in the network of the login node, with all that it starts, and reaches a server there."""
        if not self.namespaces:
            yield
            return
        with open("/proc/thread-self/ns/net", "rb") as own, open(f"/proc/{self.supervisor.pid}/ns/net", "rb") as hub:
            call("setns", hub.fileno(), NEW_NETWORK)
            try:
                yield
            finally:
                call("setns", own.fileno(), NEW_NETWORK)

    # ---- Slurm ----

    def node(self, name):
        return next(node for node in self.nodes if node.name == name)

    def states(self):
        """{node: state}, as sinfo shows it; {} if the controller does not answer."""
        return dict(line.split() for line in self.run("sinfo", "-h", "-N", "-o", "%N %T", check=False).stdout.splitlines())

    def all_idle(self):
        return list(self.states().values()) == ["idle"] * len(self.nodes)

    def start_controller(self):
        self.controller = self.ask("controller")

        def answers():
            if self.controller not in all_processes():
                raise Failed("slurmctld has ended")
            return " UP" in self.run("scontrol", "ping", check=False).stdout

        self.wait(answers, "the controller answers")

    def kill_controller(self):
        """slurmctld crashes."""
        os.kill(self.controller, signal.SIGKILL)
        self.wait(lambda: self.controller not in all_processes(), "the controller ends")

    def drain(self, name, reason):
        self.run("scontrol", "update", f"NodeName={name}", "State=DRAIN", f"Reason={reason}")

    def resume(self, name):
        """A controller that has not heard from the node since it was started reports an error, but ends the draining."""
        done = self.run("scontrol", "update", f"NodeName={name}", "State=RESUME", check=False)
        if done.returncode != 0 and self.node(name).state().startswith("drain"):
            raise Failed(f"{name} is not resumed: {done.stderr.strip()}")
