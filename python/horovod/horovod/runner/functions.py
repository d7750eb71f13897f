# SPDX-License-Identifier: Apache-2.0
"""How horovod.run() gives a function to the ranks and gets their results: each rank connects to the process that called it.

Both sides prove that they have the key, which the ranks find in their environment. Functions and results are pickled.
"""
from __future__ import annotations

import os
import pickle
import socket
import sys
import threading
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import Any, Callable, Dict, Optional, Sequence, Tuple

from .errors import UsageError

ADDRESS, KEY = "HOROVOD_RUN_ADDRESS", "HOROVOD_RUN_KEY"  # variables of the ranks


def dumps(value: Any, what: str) -> bytes:
    """Pickled; by cloudpickle if it is installed, which also takes lambdas and functions of the program that was started."""
    try:
        import cloudpickle  # pylint: disable=import-outside-toplevel
        pickler: Any = cloudpickle
    except ImportError:
        if getattr(value, "__module__", None) == "__main__":
            raise UsageError(f"{what} is defined in the program that was started, so ranks cannot import it: install cloudpickle (Debian: "
                             f"python3-cloudpickle), or move it to a module") from None
        pickler = pickle
    try:
        return pickler.dumps(value)
    except Exception as error:
        raise UsageError(f"{what} cannot be pickled: {type(error).__name__}: {error}") from None


class Server:
    """Gives the function to ranks that ask for it, and collects what they send."""

    def __init__(self, function: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any], hosts: Sequence[str]):
        """`hosts`: those that ranks may run on; none: they run here."""
        name = getattr(function, "__name__", "the function")
        function_bytes = dumps(function, f"horovod.run: {name}")
        self._work = pickle.dumps((list(sys.path), function_bytes, dumps((args, kwargs), f"horovod.run: an argument of {name}")))
        self.results: Dict[int, Any] = {}  # by rank
        self.failure: Optional[Tuple[int, str]] = None  # the first: its rank and traceback
        self._key, self._lock = os.urandom(32), threading.Lock()
        address = address_towards(hosts)
        self._socket = socket.create_server(("" if hosts else address, 0))
        self.environment = {ADDRESS: f"{address}:{self._socket.getsockname()[1]}", KEY: self._key.hex()}
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._socket.accept()
            except OSError:  # closed
                return
            # A thread each: an unauthenticated client does not block others.
            threading.Thread(target=self._serve, args=(Connection(accepted.detach()),), daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        try:
            with connection:
                deliver_challenge(connection, self._key)
                answer_challenge(connection, self._key)
                rank, kind, content = connection.recv()
                if kind == "get":
                    connection.send_bytes(self._work)
                    return
                with self._lock:
                    if kind == "result":
                        self.results[rank] = pickle.loads(content)
                    elif self.failure is None:
                        self.failure = (rank, content)
                connection.send_bytes(b"")
        except Exception as error:  # pylint: disable=broad-except  # an unauthenticated client, or a result that cannot be imported here
            print(f"horovod.run: a connection failed: {type(error).__name__}: {error}", file=sys.stderr)

    def close(self) -> None:
        """Accept no more connections."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def address_towards(hosts: Sequence[str]) -> str:
    """This machine's address on the way to `hosts`; nothing is sent.

    The name of this machine may stand for a loopback address, which other hosts cannot reach. So the first host that has another decides.
    """
    failure = None
    for host in hosts:
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.connect((host, 9))
                address = probe.getsockname()[0]
        except OSError as error:
            failure = failure or UsageError(f"horovod.run: host {host} cannot be reached: {error}")
            continue
        if not address.startswith("127."):
            return address
    if failure:
        raise failure
    return "127.0.0.1"
