# SPDX-License-Identifier: Apache-2.0
"""How process groups of the backend weft begin: launchers, torchrun's variables, explicit stores; and imports that fail."""
import os
import shutil
import socket
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = """
import os, sys, torch, torch.distributed as dist, weft.torch
dist.init_process_group({arguments})
tensor = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(tensor)
assert weft.world().rank == dist.get_rank() and weft.world().size == dist.get_world_size()
os.write(1, b"sum %.1f of %d\\n" % (tensor.item(), dist.get_world_size()))  # whole, among the output of other ranks
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def run_together(arguments, ranks=2, variables=None, expect_failure=False):
    """Start the program `ranks` times with no launcher but these variables, which may have {rank} in them; returns the output of each."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("WEFT_", "PMI", "SLURM_", "OMPI_"))}
    started = []
    for rank in range(ranks):
        own = {name: value.format(rank=rank) for name, value in (variables or {}).items()}
        started.append(subprocess.Popen([sys.executable, "-c", PROGRAM.format(arguments=arguments.replace("{rank}", str(rank)))], text=True,
                                        env={**clean, **own}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
    outputs = [process.communicate(timeout=60)[0] for process in started]
    for process, output in zip(started, outputs):
        assert expect_failure == (process.returncode != 0), output
    return outputs


def test_variables_of_torchrun():
    outputs = run_together('"weft"', variables={"RANK": "{rank}", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())})
    assert all("sum 3.0 of 2" in output for output in outputs), outputs


def test_an_explicit_rendezvous(tmp_path):
    outputs = run_together(f'"weft", init_method="tcp://127.0.0.1:{free_port()}", rank={{rank}}, world_size=2')
    assert all("sum 3.0 of 2" in output for output in outputs), outputs
    outputs = run_together(f'"weft", init_method="file://{tmp_path}/store", rank={{rank}}, world_size=2')
    assert all("sum 3.0 of 2" in output for output in outputs), outputs


def test_without_a_launcher():
    assert "sum 1.0 of 1" in run_together('"weft"', ranks=1)[0]


def test_numbers_without_a_place_to_meet():
    wanted = "is given {name} {value}, but Weft finds rank 0 of 1"
    output = run_together('"weft", rank={rank}, world_size=2', ranks=1, expect_failure=True)[0]
    assert wanted.format(name="world_size", value=2) in output, output
    output = run_together('"gloo"', ranks=1, variables={"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}, expect_failure=True)[0]
    assert wanted.format(name="rank", value=1) in output, output


def whole_standard_streams():
    """PyTorch 1.13's torchrun cannot parse its own default for redirects under Python 3.11; spelled out for each rank it can."""
    return ("--redirects", "0:1,1:1", "--tee", "0:1,1:1") if sys.version_info >= (3, 11) else ()


def test_torchrun():
    program = PROGRAM.format(arguments='"weft"')
    done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", str(free_port()),
                           "--monitor_interval", "0.2", *whole_standard_streams(), "--no_python", sys.executable, "-c", program],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100, check=False)
    assert done.returncode == 0 and done.stdout.count("sum 3.0 of 2") == 2, done.stdout


@pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not installed")
def test_mpirun():
    done = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", sys.executable, "-c", PROGRAM.format(arguments='"weft"')],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100, check=False)
    assert done.returncode == 0 and done.stdout.count("sum 3.0 of 2") == 2, done.stdout


def rank_wrong_size():
    import weft.torch
    assert weft.torch
    with pytest.raises(RuntimeError, match="rank [01] of 3, but it is rank [01] of 2 of Weft's job"):
        torch.distributed.init_process_group("weft", store=torch.distributed.HashStore(), rank=weft.init().rank, world_size=3)


def rank_gloo_first():
    """Another backend by default, and Weft for a group."""
    import weft.torch
    dist = torch.distributed
    dist.init_process_group("gloo")  # also without variables
    group = dist.new_group(backend="weft")
    tensor = torch.ones(1)
    dist.all_reduce(tensor, group=group)
    assert tensor.item() == 2 and dist.get_backend(group) == "weft" and weft.is_initialized()


def test_ranks_that_the_launcher_does_not_have(job):
    job(rank_wrong_size)


def test_a_group_beside_another_backend(job):
    job(rank_gloo_first)


def copied_package(tmp_path):
    """The package, without the extension for PyTorch."""
    import weft
    shutil.copytree(os.path.dirname(os.path.abspath(weft.__file__)), tmp_path / "weft", ignore=shutil.ignore_patterns("_torch-*", "__pycache__"))
    return tmp_path / "weft"


def message_of_import(tmp_path):
    done = subprocess.run([sys.executable, "-c", "import weft.torch"], env={**os.environ, "PYTHONPATH": str(tmp_path)}, cwd=tmp_path,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
    assert done.returncode == 1
    return done.stdout.strip().splitlines()[-1]


def test_imports_that_fail(tmp_path):
    package = copied_package(tmp_path)
    assert "ImportError: weft.torch was not built, because PyTorch, its headers" in message_of_import(tmp_path)
    (package / "_torch-1.0.0-cxx03.cpython-39-x86_64-linux-gnu.so").write_bytes(b"")
    message = message_of_import(tmp_path)
    assert "ImportError: weft.torch was built for 1.0.0-cxx03.cpython-39" in message and f"but this is {torch.__version__}-" in message, message
    assert "pip install" in message
