# SPDX-License-Identifier: Apache-2.0
"""horovod.run(): a function called on ranks, and its results."""
import os
import socket
import sys

import pytest

import horovod
from horovod.runner import UsageError
from horovod.runner.functions import Server, address_towards


def scaled(factor, offset=0):
    return int(os.environ["HOROVOD_RANK"]) * factor + offset


def second_fails():
    if os.environ["HOROVOD_RANK"] == "1":
        raise ValueError("no good")
    return 0


def leaves():
    sys.exit(0)


def returns_function():
    return lambda: 1


@pytest.mark.parametrize("words", [{"np": 3}, {"num_proc": 3, "use_gloo": True, "verbose": False, "start_timeout": 20},
                                   {"np": 3, "verbose": 1, "use_gloo": 1, "use_mpi": 0, "disable_cache": 1}])
def test_results(words):
    assert horovod.run(scaled, (10,), {"offset": 5}, **words) == [5, 15, 25]


def test_results_from_other_hosts(tmp_path, monkeypatch):
    """The function and the results go over the network; an agent in the place of ssh runs the ranks here."""
    agent = tmp_path / "agent"
    agent.write_text('#!/bin/sh\nshift\nexec sh -c "$*"\n')
    agent.chmod(0o755)
    monkeypatch.setenv("WEFT_AGENT", str(agent))
    assert horovod.run(scaled, (2,), hosts="127.0.0.1:2", num_proc=2) == [0, 2]


def test_address():
    """A name that stands for a loopback address does not decide if another host has an address."""
    assert address_towards([]) == "127.0.0.1" and address_towards(["127.0.1.1"]).startswith("127.")
    with pytest.raises(UsageError, match="host no.such.host.invalid cannot be reached"):
        address_towards(["127.0.1.1", "no.such.host.invalid"])
    outside = "192.0.2.1"  # reserved for examples
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((outside, 9))
            expected = probe.getsockname()[0]
    except OSError:
        pytest.skip("this machine has no route to other hosts")
    assert address_towards(["127.0.1.1", outside]) == address_towards(["no.such.host.invalid", outside]) == expected


def test_failures():
    with pytest.raises(RuntimeError, match="(?s)rank 1 failed.*ValueError: no good"):
        horovod.run(second_fails, num_proc=2)
    with pytest.raises(RuntimeError, match="rank 0 ended without a result: leaves must return"):
        horovod.run(leaves, num_proc=2)
    with pytest.raises(UsageError, match="did not start the ranks"):
        horovod.run(scaled, num_proc=1, min_num_proc=2)


def test_without_cloudpickle(monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(UsageError, match="an argument of scaled cannot be pickled"):
        horovod.run(scaled, (lambda: 1,))
    monkeypatch.setattr(scaled, "__module__", "__main__")
    with pytest.raises(UsageError, match="install cloudpickle"):
        horovod.run(scaled, (1,))


def test_result_that_cannot_be_pickled():
    """Cloudpickle pickles functions, pickle does not."""
    try:
        import cloudpickle
    except ImportError:
        with pytest.raises(RuntimeError, match="the result cannot be pickled"):
            horovod.run(returns_function)
    else:
        assert cloudpickle and horovod.run(returns_function)[0]() == 1


def test_unauthenticated_clients(capfd):
    server = Server(scaled, (1,), {}, [])
    address, port = server.environment["HOROVOD_RUN_ADDRESS"].split(":")
    with socket.create_connection((address, int(port))) as silent, socket.create_connection((address, int(port))) as wrong:
        wrong.sendall(b"\0\0\0\x04abcd")
        from multiprocessing.connection import Client
        key = bytes.fromhex(server.environment["HOROVOD_RUN_KEY"])
        with Client((address, int(port)), authkey=key) as connection:
            connection.send((0, "result", b"\x80\x04K\x07."))  # 7, pickled
            assert connection.recv_bytes() == b""
        assert silent.fileno() >= 0
    server.close()
    assert server.results == {0: 7}
