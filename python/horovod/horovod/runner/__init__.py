# SPDX-License-Identifier: Apache-2.0
"""Starting ranks: the command horovodrun, and horovod.run()."""
from __future__ import annotations

import os
import subprocess
import sys
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

from .errors import UsageError

__all__ = ["run", "UsageError"]


def _flags(settings: Dict[str, Any]) -> List[str]:
    """The command line for {flag: value}; None and False leave a flag out."""
    words: List[str] = []
    for flag, value in settings.items():
        if isinstance(value, (list, tuple)):
            words += [flag, *map(str, value)]
        elif value is True:
            words.append(flag)
        elif value is not None and value is not False:
            words.append(f"{flag}={value}")
    return words


def _other_hosts(hosts: Optional[str], hostfile: Optional[str], script: Optional[str]) -> List[str]:
    """The hosts that ranks may run on, but for localhost."""
    from . import hosts as listed  # pylint: disable=import-outside-toplevel
    if script:
        done = subprocess.run(script, shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=60, check=False)
        found = listed.parse_lines(done.stdout, f"--host-discovery-script {script}")
    elif hosts or hostfile:
        found = listed.parse_list(hosts) if hosts else listed.read_file(str(hostfile))
    else:
        found = []
    return [host.name for host in found if host.name != "localhost"]


def run(func: Callable[..., Any], args: Sequence[Any] = (), kwargs: Optional[Dict[str, Any]] = None, num_proc: int = 1,
        min_num_proc: Optional[int] = None, max_num_proc: Optional[int] = None, slots: Optional[int] = None,
        reset_limit: Optional[int] = None, cooldown_range: Optional[Sequence[int]] = None, hosts: Optional[str] = None,
        hostfile: Optional[str] = None, host_discovery_script: Optional[str] = None, start_timeout: Optional[float] = None,
        ssh_port: Optional[int] = None, ssh_identity_file: Optional[str] = None, disable_cache: Optional[bool] = None,
        output_filename: Optional[str] = None, verbose: Optional[bool] = None, use_gloo: Optional[bool] = None,
        use_mpi: Optional[bool] = None, mpi_args: Optional[str] = None, network_interface: Optional[str] = None,
        network_interfaces: Union[None, str, Sequence[str]] = None, executable: Optional[str] = None, np: Optional[int] = None,
        min_np: Optional[int] = None, max_np: Optional[int] = None) -> List[Any]:
    """Call `func(*args, **kwargs)` on `num_proc` ranks; returns their results, in the order of the ranks.

    The other parameters are flags of horovodrun; np, min_np and max_np are other names of num_proc, min_num_proc and max_num_proc.
    `executable` is the ranks' Python, by default the one that runs. `func`, its arguments and its results are pickled: with cloudpickle, if
    it is installed; without it `func` must be in a module that the ranks can import. If a rank fails, RuntimeError has its traceback. A job
    that has lost ranks and ended well returns the results of those that were left.
    """
    from .functions import Server  # pylint: disable=import-outside-toplevel
    ranks, least = np or num_proc, min_np or min_num_proc
    interfaces = network_interface or network_interfaces
    words = _flags({"--num-proc": ranks, "--min-np": least, "--max-np": max_np or max_num_proc, "--slots-per-host": slots,
                    "--reset-limit": reset_limit, "--blacklist-cooldown-range": cooldown_range, "--hosts": hosts, "--hostfile": hostfile,
                    "--host-discovery-script": host_discovery_script, "--start-timeout": start_timeout, "--ssh-port": ssh_port,
                    "--ssh-identity-file": ssh_identity_file, "--disable-cache": bool(disable_cache), "--output-filename": output_filename,
                    "--verbose": bool(verbose), "--gloo": bool(use_gloo), "--mpi": bool(use_mpi), "--mpi-args": mpi_args,
                    "--network-interfaces": ",".join(interfaces) if isinstance(interfaces, (list, tuple)) else interfaces})
    server = Server(func, tuple(args), kwargs or {}, _other_hosts(hosts, hostfile, host_discovery_script))
    try:
        program = [executable or sys.executable, "-m", "horovod.runner.rank"]
        code = subprocess.run([sys.executable, "-m", "horovod.runner", *words, *program], env={**os.environ, **server.environment},
                              check=False).returncode
    finally:
        server.close()
    if code == 2 and server.failure is None and not server.results:
        raise UsageError("horovod.run: horovodrun did not start the ranks; its message is above")
    if code != 0:
        rank, trace = server.failure or (None, "")
        raise RuntimeError(f"horovod.run: rank {rank} failed:\n{trace}" if server.failure else
                           f"horovod.run: the job ended with exit code {code}; its messages are above")
    if not least and len(server.results) < ranks:
        missing = min(set(range(ranks)) - set(server.results))
        raise RuntimeError(f"horovod.run: rank {missing} ended without a result: {getattr(func, '__name__', func)} must return")
    return [server.results[rank] for rank in sorted(server.results)]
