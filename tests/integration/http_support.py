# SPDX-License-Identifier: Apache-2.0
"""What the tests of the HTTP server share: the toy server, and raw connections to it."""
import http.client
import json
import os
import resource
import socket
import subprocess
import sys
import time

BUILD = os.environ.get("BUILD", "build")
TOY = os.path.join(BUILD, "tests", "integration", "http_toy")
SANITIZED = subprocess.run([os.path.join(os.path.dirname(os.path.abspath(__file__)), "sanitized"), TOY], check=False).returncode == 0


class Toy:
    """The toy server with these options, for as long as a `with` lasts."""

    def __init__(self, *options, tokens=False):
        command = [TOY, *options] + (["tokens"] if tokens else [])
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()
        if not self.address:
            sys.exit(f"{' '.join(command)} did not start")
        self.port = int(self.address.rsplit(":", 1)[1])
        self.tokens = json.loads(self.process.stdout.readline()) if tokens else {}

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.process.stdin.close()
        code = self.process.wait(timeout=30)
        if code != 0 and failure[0] is None:
            sys.exit(f"the toy server ended with {code}")

    def connect(self, timeout=10):
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def raw(self, content, timeout=10, end=False):
        """Send bytes on a connection of its own; everything that comes until it ends or falls silent."""
        with self.connect(timeout) as connection:
            try:
                connection.sendall(content)
                if end:
                    connection.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            return read_all(connection)

    def ask(self, method, path, body=None, token=None, headers=None):
        """(status, headers, body) of a request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        sent = dict(headers or {})
        if token:
            sent["Authorization"] = f"Bearer {token}"
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            sent.setdefault("Content-Type", "application/json")
        connection.request(method, path, body=body, headers=sent)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, answer.headers, content

    def json(self, method, path, body=None, token=None, headers=None):
        """(status, value) of a request."""
        status, _, content = self.ask(method, path, body, token, headers)
        return status, json.loads(content) if content else None

    def counts(self):
        return self.json("GET", "/api/v1/counts")[1]

    def memory(self):
        """Resident KiB; 0 in a build by a sanitizer, which keeps what was freed."""
        if SANITIZED:
            return 0
        with open(f"/proc/{self.process.pid}/status") as text:
            return next(int(line.split()[1]) for line in text if line.startswith("VmRSS"))


def read_all(connection):
    content = b""
    try:
        while True:
            piece = connection.recv(65536)
            if not piece:
                return content
            content += piece
    except OSError:
        return content


def read_until(connection, what, content=b""):
    while what not in content:
        piece = connection.recv(65536)
        if not piece:
            raise AssertionError(f"the connection ended before {what!r}: {content[-300:]!r}")
        content += piece
    return content


def status_of(answer):
    """The status of the first answer in these bytes; 0 if there is none."""
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0


def sentence_of(answer):
    """The message of an error; there has to be one."""
    error = json.loads(answer.split(b"\r\n\r\n", 1)[1])["error"]
    assert error["status"] == status_of(answer), answer
    assert len(error["message"]) > 10, answer
    return error["message"]


def request(path="/api/v1/things/a", method="GET", headers="", body=b""):
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode() + body


def wait_for(what, seconds=10):
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            raise AssertionError("what was waited for did not come")
        time.sleep(0.02)


def many_files(count):
    """Let this process and those it starts open so many files; whether it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        return False
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    return True


def main(tests):
    for test in tests:
        began = time.monotonic()
        test()
        print(f"{test.__name__}: {time.monotonic() - began:.1f} s", flush=True)
