# SPDX-License-Identifier: Apache-2.0
"""What the tests of the control plane share: `weft serve` on a directory of its own, requests to it, and commands."""
import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

BUILD = os.environ.get("BUILD", "build")
WEFT = os.environ.get("WEFT", os.path.join(BUILD, "weft"))
FINAL = ("succeeded", "failed", "cancelled")
HELD = []  # sockets of free_address()

# A user's runs need an account where the server is root (docs/platform.md): any that is there will do.
ACCOUNT = {"account": "nobody"} if os.geteuid() == 0 else {}


def kill_those_on(directory):
    """End every process that works in the directory, or was given it: servers, agents and the programs of runs."""
    for _ in range(5):
        found = False
        for number in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                with open(f"/proc/{number}/cmdline", "rb") as file:
                    given = file.read()
                if os.readlink(f"/proc/{number}/cwd").startswith(directory) or directory.encode() in given:
                    os.kill(int(number), signal.SIGKILL)
                    found = True
        if not found:
            return
        time.sleep(0.05)


@contextlib.contextmanager
def small_disk(mib):
    """A file system of its own, in this process's own namespace of mounts. Nothing that used it is left afterwards."""
    with tempfile.TemporaryDirectory(prefix="weft-disk-") as disk:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m", "weft-test", disk], check=True)
        os.chmod(disk, 0o755)
        try:
            yield disk
        finally:
            kill_those_on(disk)
            subprocess.run(["umount", "--lazy", disk], check=True)


def free_address():
    """An address at which nobody listens. Its port stays bound by this test, so that no other program is given it by chance,
    neither to listen at nor for a connection; `weft serve` may still listen there, as both have SO_REUSEADDR."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    HELD.append(held)
    return f"http://127.0.0.1:{held.getsockname()[1]}"


def serve_at(directory, address):
    """A server of one slot, for tests of what comes before it or goes on after it."""
    return subprocess.Popen([WEFT, "serve", "--state", directory, "--listen", address.split("//")[1], "--pods", "1x1x1"],
                            stdout=subprocess.DEVNULL)


def start(*words, server):
    """A command that goes on beside the test."""
    return subprocess.Popen([WEFT, *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env={**os.environ, "WEFT_SERVER": server})


class Serve:
    """`weft serve` with these options on any free port, for as long as a `with` lasts; the directory goes with it."""

    def __init__(self, *options, directory=None, pods="1x2x4"):
        self.own = directory is None
        self.directory = directory or tempfile.mkdtemp(prefix="weft-serve-")
        self.options = [*options, *(["--pods", pods] if pods else [])]
        self.process, self.token, self.said = None, None, []
        self.start()
        if self.token:  # without tokens it is made when it is first named
            self.ask("POST", "/projects", {"project": "default"})

    def start(self):
        """Start it, again after it was killed; on another port."""
        command = [WEFT, "serve", "--state", self.directory, "--listen", "127.0.0.1:0", *self.options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        first = self.process.stdout.readline()
        if not first.startswith("weft serves at "):
            said = self.process.stderr.read()
            self.kill()
            sys.exit(f"{' '.join(command)} did not start: {said}")
        self.address = first.split()[-1]
        self.port = int(self.address.rsplit(":", 1)[1])
        self.said = [first, self.process.stdout.readline(), self.process.stdout.readline()]
        if "--tokens" in self.options and not self.token:
            self.token = self.process.stdout.readline().split()[-1]

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        return self.process.wait(timeout=30)

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        try:
            self.end(failed=failure[0] is not None)
        finally:
            if self.process.poll() is None:
                self.kill()
            self.process.stdout.close()
            self.process.stderr.close()
            if self.own:
                shutil.rmtree(self.directory, ignore_errors=True)

    def end(self, failed):
        """Stop all runs, and then the server."""
        for run in self.live() if self.process.poll() is None else []:
            self.ask("POST", f"/runs/{run}/stop")
        if self.process.poll() is None:
            end = time.monotonic() + 30
            while self.live() and time.monotonic() < end:
                time.sleep(0.05)
            code = self.kill(signal.SIGTERM)
            if code != 0 and not failed:
                sys.exit(f"weft serve ended with {code}: {self.process.stderr.read()}")

    def raw(self, method, path, body=None, token=None, headers=None):
        """(status, headers, content) of a request to any path."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        sent = dict(headers or {})
        if token or self.token:
            sent["Authorization"] = f"Bearer {token or self.token}"
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            sent.setdefault("Content-Type", "application/json")
        connection.request(method, path, body=body, headers=sent)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, answer.headers, content

    def ask(self, method, path, body=None, token=None, headers=None):
        """(status, value) of a request below /api/v1."""
        status, _, content = self.raw(method, "/api/v1" + path, body, token, headers)
        return status, json.loads(content) if content else None

    def get(self, path, **more):
        """The value of a GET that must succeed. On a busy machine the server asks to come again in a second (429), as clients do."""
        limit = time.monotonic() + 30
        while (answer := self.ask("GET", path, **more))[0] == 429 and time.monotonic() < limit:
            time.sleep(1)
        status, value = answer
        assert status == 200, (path, status, value)
        return value

    def submit(self, *command, project="default", headers=None, token=None, **settings):
        """The number of a new run."""
        status, value = self.ask("POST", f"/projects/{project}/runs", {"command": list(command), **settings},
                                 headers=headers, token=token)
        assert status == 201, (status, value)
        return value["run"]

    def live(self):
        status, value = self.ask("GET", "/runs?state=live&most=1000")
        return [run["run"] for run in value["runs"]] if status == 200 else []

    def wait(self, run, states=FINAL, seconds=120):
        """The run, once it is in one of the states."""
        end = time.monotonic() + seconds
        while True:
            found = self.get(f"/runs/{run}")
            if found["state"] in states:
                return found
            assert time.monotonic() < end, f"run {run} is {found['state']}, not {states}: {found['reason']}"
            time.sleep(0.02)

    def get_when(self, path, holds, seconds=120):
        """The value of a GET, once it is as `holds` wants it: what the next pass of the controller brings."""
        end = time.monotonic() + seconds
        while True:
            value = self.get(path)
            if holds(value):
                return value
            assert time.monotonic() < end, (path, value)
            time.sleep(0.02)

    def command(self, *words, code=0, **more):
        """What `weft WORDS` prints on its standard output, against this server; its standard error where it fails."""
        environment = {**os.environ, "WEFT_SERVER": self.address, "WEFT_TOKEN_FILE": os.path.join(self.directory, "token")}
        done = subprocess.run([WEFT, *words], env=environment, capture_output=True, text=True, timeout=120, check=False,
                              **more)
        assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout if code == 0 else done.stderr


def main(tests):
    for test in tests:
        began = time.monotonic()
        test()
        print(f"{test.__name__}: {time.monotonic() - began:.1f} s", flush=True)
