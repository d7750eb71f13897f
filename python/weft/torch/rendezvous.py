# SPDX-License-Identifier: Apache-2.0
"""torch.distributed's rendezvous under Weft's launchers: rank, size and a store without RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.

init_process_group() without arguments reads these variables, which weft run, mpirun and srun do not set. Where they are missing the ranks
are those of weft.init(), which also knows how the ranks find each other; rank 0 serves the store at a free port.
"""
from __future__ import annotations

import fcntl
import os
import socket
import struct
from datetime import timedelta
from typing import Any, Iterator, List, Tuple
from urllib.parse import parse_qs, urlparse

import torch
import torch.distributed as dist
from torch.distributed.rendezvous import _rendezvous_handlers, register_rendezvous_handler

from .. import context as job

_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_SIOCGIFADDR = 0x8915
_PROBE_SECONDS = 2.0
_ADDRESS_BYTES = 1024


def _own_addresses() -> List[str]:
    """Addresses of this host's interfaces and of its name, but for the loopback."""
    addresses = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as query:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(query.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                addresses.append(socket.inet_ntoa(answer[20:24]))
            except OSError:
                pass  # the interface has no IPv4 address
    try:
        addresses += [str(found[4][0]) for found in socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)]
    except OSError:
        pass  # the name has no address
    return [address for address in dict.fromkeys(addresses) if not address.startswith("127.") and address != "::1"]


def _reachable(addresses: List[str], port: int) -> str:
    """The first address that takes a connection."""
    failures = []
    for address in addresses:
        try:
            socket.create_connection((address, port), _PROBE_SECONDS).close()
            return address
        except OSError as failure:
            failures.append(f"{address}: {failure}")
    raise RuntimeError(f"rank 0 serves torch.distributed's store at port {port}, but no address of its host can be reached from "
                       f"{socket.gethostname()} ({'; '.join(failures)}): set MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE for each rank")


def _store(world: Any, timeout: timedelta) -> Any:
    """A store that rank 0 serves; the others get its address by a broadcast."""
    message = torch.zeros(_ADDRESS_BYTES, dtype=torch.uint8)
    served = None
    if world.rank == 0:
        addresses = ["127.0.0.1"] if world.nodes == 1 else _own_addresses()
        served = dist.TCPStore("127.0.0.1", 0, world.size, True, timeout, wait_for_workers=False)
        text = f"{served.port} {' '.join(addresses)}".encode()[:_ADDRESS_BYTES - 1]
        message[:len(text)] = torch.tensor(list(text), dtype=torch.uint8)
    world.broadcast(message)
    if served is not None:
        return served
    port, *addresses = bytes(message.tolist()).rstrip(b"\0").decode().split()
    return dist.TCPStore(_reachable(addresses, int(port)), int(port), world.size, False, timeout)


def _check_given(url: str, world: Any) -> None:
    """Raise if the program or its variables say otherwise than the launcher: then these ranks were not started by one of Weft's."""
    parameters = parse_qs(urlparse(url).query)
    for name, own in (("rank", world.rank), ("world_size", world.size)):
        given = parameters.get(name, [os.environ.get(name.upper())])[0]
        if given not in (None, "", "-1", str(own)):
            raise RuntimeError(f"torch.distributed is given {name} {given}, but Weft finds rank {world.rank} of {world.size}: start the ranks with "
                               f"weft run, mpirun, srun or torchrun, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT for each of them")


def _of_launcher(url: str, timeout: timedelta) -> Tuple[Any, int, int]:
    world = job.world() if job.is_initialized() else job.init()
    _check_given(url, world)
    return _store(world, timeout), world.rank, world.size


def _weft_handler(url: str, timeout: timedelta = dist.default_pg_timeout, **_: Any) -> Iterator[Tuple[Any, int, int]]:
    """weft://, and env:// without its variables."""
    yield _of_launcher(url, timeout)
    raise RuntimeError("a rendezvous of Weft cannot be repeated within a process group")


_env_handler = _rendezvous_handlers["env"]


def _env_or_weft(url: str, **options: Any) -> Iterator[Tuple[Any, int, int]]:
    """env:// with all its variables (or parameters of the URL), and not under weft run; otherwise as weft://."""
    query = urlparse(url).query
    given = all(os.environ.get(name) or f"{name.lower()}=" in query for name in _VARIABLES)
    return _env_handler(url, **options) if given and "WEFT_RANK" not in os.environ else _weft_handler(url, **options)


def register() -> None:
    """Make both known to torch.distributed."""
    register_rendezvous_handler("weft", _weft_handler)
    _rendezvous_handlers["env"] = _env_or_weft
