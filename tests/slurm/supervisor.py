# SPDX-License-Identifier: Apache-2.0
"""The process that owns a Slurm lab (lab.py): all that the lab runs are its descendants, and it ends them with itself.

    supervisor.py PLAN

PLAN is JSON: `test`, the test's process; `nodes`, their addresses by name; `namespaces`; `private`, the directories that nodes with a
/tmp of their own still see there (null: they share /tmp).
It first makes the lab's directory, which goes in the end, and writes {"done": DIRECTORY}. Requests come in as lines of JSON, lists of
words; each is answered by {"done": VALUE} or {"refused": TEXT, "status": NUMBER}.

    ["enter"]           make the network, if there is to be one, when the files of the lab are written
    ["munge"]           start munged
    ["controller"]      start slurmctld; its process
    ["boot", NODE]      start a node: its first process
    ["slurmd", NODE]    start slurmd on a node

It ends when the input does, or the test, or by SIGTERM. Orphans are adopted by the first process of their node, or by this one, so that
none escapes: a step's programs have no other parent once slurmd has started them. If it is killed itself, the kernel kills all daemons.
"""
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "cluster"))
from namespaces import (ADOPT_ORPHANS, DEATH_SIGNAL, MOUNT_BIND, MOUNT_RECURSIVE, MOUNT_SLAVE, NEW_HOST_NAME, NEW_IPC,  # noqa: E402
                        NEW_MOUNT, NEW_NETWORK, NEW_PROCESS, SKIP, Refused, call, libc, mount, run, set_host_name, set_switches)

HUB_ADDRESS = "10.77.0.1"
PATIENCE = 20  # seconds for processes to be gone after SIGKILL


def reap():
    """Bury the dead; whether there are children that live."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return True
    except ChildProcessError:
        return False


def children():
    own = str(os.getpid())
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as file:
                if file.read().rsplit(")", 1)[1].split()[1] == own:
                    yield int(entry)
        except OSError:
            pass  # it has ended


def spawn(words):
    """A daemon that dies with this process. Its output goes where this one's standard error does."""
    process = os.fork()
    if process == 0:
        try:
            libc.prctl(DEATH_SIGNAL, signal.SIGKILL)
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
            os.dup2(2, 1)
            os.execvp(words[0], words)
        finally:
            os._exit(127)
    return process


# ---- nodes ------------------------------------------------------------------------------------------------------------------


def hide_tmp(shared):
    """An empty /tmp for this mount namespace, in which only the shared directories are as they were."""
    kept = [(path, os.open(path, os.O_PATH)) for path in shared if os.path.realpath(path).startswith("/tmp/")]
    mount("tmpfs", "/tmp", "tmpfs", 0, "mode=1777")
    for path, descriptor in kept:
        os.makedirs(path, exist_ok=True)
        mount(f"/proc/self/fd/{descriptor}", path, None, MOUNT_BIND | MOUNT_RECURSIVE)
        os.close(descriptor)


def isolate(name, private):
    """Namespaces of a node's own, for its first process."""
    call("unshare", NEW_MOUNT | NEW_HOST_NAME | NEW_IPC | NEW_NETWORK)
    mount("proc", "/proc", "proc", 0)
    mount("tmpfs", "/dev/shm", "tmpfs", 0)
    if private is not None:
        hide_tmp(private)
    set_host_name(name)
    set_switches()


def serve_node(slurmd):
    """What the first process of a node does: start slurmd when SIGUSR1 asks for it, and bury the dead."""
    while True:
        if signal.sigwait({signal.SIGUSR1, signal.SIGCHLD}) == signal.SIGUSR1:
            spawn(slurmd)
        reap()


class Supervisor:
    def __init__(self, plan, directory):
        self.directory, self.namespaces, self.test, self.addresses = directory, plan["namespaces"], plan["test"], plan["nodes"]
        self.private = None if plan["private"] is None else [directory, *plan["private"]]
        self.configuration = os.path.join(self.directory, "slurm.conf")
        self.nodes = {}  # first processes
        self.processes = os.open("/proc/self/ns/pid", os.O_RDONLY)

    def enter(self):
        """Become the hub of the network, where there is to be one: the place of the login node and of the controller."""
        if self.namespaces:
            call("unshare", NEW_MOUNT | NEW_HOST_NAME | NEW_NETWORK)
            mount("none", "/", None, MOUNT_SLAVE | MOUNT_RECURSIVE)
            mount(os.path.join(self.directory, "hosts"), "/etc/hosts", None, MOUNT_BIND)
            set_host_name("ctl")
            set_switches()
            run("ip", "-batch", "-", text="link set lo up\nlink add bridge type bridge forward_delay 0\nlink set bridge up\n"
                f"address add {HUB_ADDRESS}/24 dev bridge\n")

    def munge(self):
        where = os.path.join(self.directory, "munge")
        process = spawn(["setpriv", "--reuid=munge", "--regid=munge", "--clear-groups", "--pdeathsig=KILL", "munged", "--foreground",
                         f"--key-file={where}/key", f"--socket={where}/socket", f"--pid-file={where}/pid", f"--log-file={where}/log",
                         f"--seed-file={where}/seed"])
        last = time.monotonic() + PATIENCE
        while time.monotonic() < last and os.waitpid(process, os.WNOHANG)[0] == 0:
            with socket.socket(socket.AF_UNIX) as asking:
                if asking.connect_ex(f"{where}/socket") == 0:
                    return
            time.sleep(0.01)
        raise Refused("munged does not start: see its log")

    def controller(self):
        return spawn(["slurmctld", "-D", "-f", self.configuration])

    def boot(self, name):
        ready, tell = os.pipe()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGCHLD})  # for the node: none may come before it listens
        if self.namespaces:
            call("unshare", NEW_PROCESS)
        process = os.fork()
        if process == 0:
            self.be_node(name, tell)
        if self.namespaces:
            call("setns", self.processes, NEW_PROCESS)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1, signal.SIGCHLD})
        os.close(tell)
        answer = os.read(ready, 4096).decode()
        os.close(ready)
        if answer != ".":
            raise Refused(answer, SKIP) if answer else Refused(f"node {name} did not start")
        if self.namespaces:
            self.connect(name, process)
        self.nodes[name] = process
        self.slurmd(name)
        return process

    def be_node(self, name, tell):
        try:
            libc.prctl(DEATH_SIGNAL, signal.SIGKILL)
            libc.prctl(ADOPT_ORPHANS, 1, 0, 0, 0)
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.set_wakeup_fd(-1)
            if self.namespaces:
                isolate(name, self.private)
            for number in (0, 1):
                os.dup2(os.open("/dev/null", os.O_RDWR), number)
            os.write(tell, b".")
            os.closerange(3, 256)
            serve_node(["slurmd", "-D", "-f", self.configuration, "-N", name])
        except Refused as refusal:
            os.write(tell, str(refusal).encode())
        except BaseException:  # pylint: disable=broad-except
            traceback.print_exc()
        finally:
            os._exit(1)

    def connect(self, name, process):
        """The link of a node. One that was there before it died goes at some later time by itself, or now."""
        subprocess.run(["ip", "link", "delete", name], stderr=subprocess.DEVNULL, check=False)
        run("ip", "-batch", "-", text=f"link add {name} type veth peer name eth0 netns {process}\nlink set {name} master bridge up\n")
        run("nsenter", f"--target={process}", "--net", "ip", "-batch", "-",
            text=f"link set lo up\nlink set eth0 up\naddress add {self.addresses[name]}/24 dev eth0\n")

    def slurmd(self, name):
        os.kill(self.nodes[name], signal.SIGUSR1)

    # ---- requests ----

    def answer(self, line):
        try:
            name, *words = json.loads(line)
            requests = {"enter": self.enter, "munge": self.munge, "controller": self.controller, "boot": self.boot, "slurmd": self.slurmd}
            return {"done": requests[name](*words)}
        except Refused as refusal:
            return {"refused": str(refusal), "status": refusal.status}

    def serve(self):
        wake, woken = os.pipe()
        os.set_blocking(woken, False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(woken)
        test = os.pidfd_open(self.test)
        poll, rest = select.poll(), b""
        for descriptor in (0, wake, test):
            poll.register(descriptor, select.POLLIN)
        while True:
            ready = [descriptor for descriptor, _ in poll.poll()]
            if wake in ready:
                os.read(wake, 4096)
                reap()
            if test in ready:
                return
            if 0 in ready:
                given = os.read(0, 65536)
                if not given:
                    return
                *lines, rest = (rest + given).split(b"\n")
                for line in lines:
                    say(self.answer(line))

    def end(self):
        """Kill all descendants, and remove the lab. Orphans of the killed become children of this process."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        last = time.monotonic() + PATIENCE
        while reap() and time.monotonic() < last:
            for process in children():
                os.kill(process, signal.SIGKILL)  # at worst a zombie: only reap() removes them
            time.sleep(0.01)
        shutil.rmtree(self.directory, ignore_errors=True)
        return 1 if list(children()) or os.path.exists(self.directory) else 0


def say(value):
    os.write(1, json.dumps(value).encode() + b"\n")


def main():
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    libc.prctl(ADOPT_ORPHANS, 1, 0, 0, 0)
    # munged wants a short path whose directories only root writes to, but for /tmp.
    supervisor = Supervisor(json.loads(sys.argv[1]), tempfile.mkdtemp(prefix="weft-slurm-", dir="/tmp"))
    status = 1
    try:
        os.environ["SLURM_CONF"] = supervisor.configuration
        os.dup2(os.open(os.path.join(supervisor.directory, "said"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), 2)
        say({"done": supervisor.directory})
        supervisor.serve()
    except (BrokenPipeError, ProcessLookupError):
        pass  # the test has ended
    finally:
        status = supervisor.end()
    sys.exit(status)


if __name__ == "__main__":
    main()
