# SPDX-License-Identifier: Apache-2.0
"""horovodrun: which command line of weft run its flags become, what it refuses, and jobs that it really starts."""
import os
import shlex
import signal
import subprocess
import sys
import time

import pytest

from horovod.runner import flags
from horovod.runner.command import plan
from horovod.runner.common.util.env import get_env_rank_and_size
from horovod.runner.errors import UsageError
from horovod.runner.util.threads import in_thread

PROGRAM = ("python3", "train.py", "--verbose")


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    """Variables of the tests' own environment, such as those of a run of Weft, do not count."""
    for name in list(os.environ):
        if name.startswith("HOROVOD_") or name in ("WEFT_RANK", "WEFT_RANKS", "WEFT_AGENT"):
            monkeypatch.delenv(name)


def planned(*words):
    """(options of weft run, as {option: value} and with variables as NAME=VALUE; the program)."""
    job = plan(flags.parse([*words, *PROGRAM]))
    command = job.command[2:]
    assert job.command[1] == "run" and tuple(command[-len(PROGRAM):]) == PROGRAM
    options, found = command[:command.index("--")], {}
    while options:
        option = options.pop(0)
        value = None if option == "--verbose" else options.pop(0)
        if option == "--env":
            name, equals, value = value.partition("=")
            option, value = name, value if equals else None
        found[option] = value
    return found, job


def refusal(*words):
    with pytest.raises(UsageError) as caught:
        plan(flags.parse([*words, *PROGRAM]))
    return str(caught.value)


@pytest.mark.parametrize("words, expected", [
    ("-np 2", {"-n": "2"}),
    ("--num-proc=3", {"-n": "3"}),
    ("-np 2 --gloo --disable-cache", {"-n": "2"}),
    ("-np 2 --mpi", {"-n": "2"}),
    ("-np 4 --verbose --output-filename out", {"-n": "4", "--verbose": None, "--output-dir": "out"}),
    ("-np 2 -H localhost:4", {"-n": "2", "--hosts": "localhost:4"}),
    ("-np 2 -p 2222 -i 'my key'", {"-n": "2", "--agent": "ssh -p 2222 -i my\\ key"}),
    ("-np 2 --start-timeout 90", {"-n": "2", "--start-timeout": "90", "--timeout": "90"}),
    ("-np 2 --network-interfaces eth0,eth1", {"-n": "2", "WEFT_INTERFACE": "eth0,eth1"}),
    ("-np 2 --tcp", {"-n": "2", "FI_PROVIDER": "tcp,net"}),
    ("-np 2 --fusion-threshold-mb 32 --cycle-time-ms 2.5 --cache-capacity 0",
     {"-n": "2", "HOROVOD_FUSION_THRESHOLD": str(32 << 20), "HOROVOD_CYCLE_TIME": "2.5", "HOROVOD_CACHE_CAPACITY": "0"}),
    ("-np 2 --timeline-filename t.json --timeline-mark-cycles",
     {"-n": "2", "HOROVOD_TIMELINE": "t.json", "HOROVOD_TIMELINE_MARK_CYCLES": "1"}),
    ("-np 2 --no-stall-check", {"-n": "2", "HOROVOD_STALL_CHECK_DISABLE": "1"}),
    ("-np 2 --stall-check --stall-check-warning-time-seconds 5 --stall-check-shutdown-time-seconds 9",
     {"-n": "2", "HOROVOD_STALL_CHECK_DISABLE": "0", "HOROVOD_STALL_CHECK_TIME_SECONDS": "5", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "9"}),
    ("-np 2 --log-hide-timestamp --no-autotune --no-hierarchical-allreduce",
     {"-n": "2", "HOROVOD_LOG_HIDE_TIME": "1", "HOROVOD_AUTOTUNE": "0", "HOROVOD_HIERARCHICAL_ALLREDUCE": "0"}),
    ("-np 4 --min-np 2", {"-n": "4", "--min-ranks": "2", "--restarts": "100", "HOROVOD_ELASTIC": "1"}),
    ("-np 4 --min-num-proc 2 --reset-limit 3 --elastic-timeout 60",
     {"-n": "4", "--min-ranks": "2", "--restarts": "3", "HOROVOD_ELASTIC": "1", "HOROVOD_ELASTIC_TIMEOUT": "60"}),
    ("-np 4 --min-np 2 --reset-limit 0", {"-n": "4", "--min-ranks": "2", "HOROVOD_ELASTIC": "1"}),
    ("-np 2 --min-np 1 --max-np 3 -H localhost:4", {"-n": "3", "--hosts": "localhost:4", "--min-ranks": "1", "--restarts": "100",
                                                    "HOROVOD_ELASTIC": "1"}),
])
def test_flags(words, expected):
    found, job = planned(*shlex.split(words))
    assert found == expected
    assert job.remarks == []


def test_program_after_dashes():
    assert flags.parse(["-np", "2", "--", *PROGRAM]).command == list(PROGRAM)


def test_variables_reach_other_hosts(monkeypatch):
    """All but those of the login session; a value is not on the command line."""
    monkeypatch.setenv("MY_SETTING", "secret value")
    monkeypatch.setenv("SSH_TTY", "/dev/pts/1")
    found, job = planned("-np", "4", "-H", "hosta:2,hostb:2")
    assert "MY_SETTING" in found and "PATH" in found and "SSH_TTY" not in found and "HOME" not in found
    assert not any("secret value" in word for word in job.command)
    assert "MY_SETTING" not in planned("-np", "4", "-H", "localhost:4")[0]


def test_hostfile(tmp_path):
    path = tmp_path / "hosts"
    path.write_text("# ours\nhosta slots=2\nhostb:3\n")
    assert planned("--hostfile", str(path))[0]["--hostfile"] == str(path)
    found, _ = planned("-np", "2", "--min-np", "1", "--hostfile", str(path))
    assert found["-n"] == "5"
    path.write_text("hosta slots=two\n")
    assert "host hosta has 'two' slots" in refusal("-np", "2", "--hostfile", str(path))
    path.write_text("\n")
    assert "names no host" in refusal("-np", "2", "--hostfile", str(path))
    assert "cannot be read" in refusal("-np", "2", "--hostfile", str(tmp_path / "missing"))


@pytest.mark.parametrize("words, part", [
    ("", "-np N"),
    ("-np 0", "'0' is not a whole number from 1 on"),
    ("-np 2 --frobnicate", "there is no flag --frobnicate"),
    ("-np 2 --cycle-time-msec=4", "did you mean --cycle-time-ms?"),
    ("-np 2 --cycle-time-ms -4", "--cycle-time-ms"),
    ("-np 2 --log-level loud", "'loud' is not one of TRACE"),
    ("-np 2 --mpi-args=--oversubscribe", "--mpi-args is not supported"),
    ("-np 2 --jsrun", "--jsrun is not supported"),
    ("-np 2 --gloo --mpi", "not allowed with"),
    ("-np 2 -H a:2 --hostfile hosts", "not allowed with"),
    ("-np 2 -H a:2,:2", "has no name"),
    ("-np 2 --min-np 3", "--min-np 3 is more than -np 2"),
    ("-np 2 --min-np 1 --max-np 1", "--max-np 1 is less than -np 2"),
    ("-np 2 --max-np 4", "add --min-np"),
    ("-np 2 --reset-limit 4", "add --min-np"),
])
def test_refused(words, part):
    assert part in refusal(*words.split())


def test_program_missing():
    with pytest.raises(UsageError, match="no program is named"):
        flags.parse(["-np", "2"])


@pytest.mark.parametrize("words, flag", [
    ("--autotune", "--autotune"), ("--num-nccl-streams 2", "--num-nccl-streams"), ("--torus-allreduce", "--torus-allreduce"),
    ("--log-level info", "--log-level"), ("--thread-affinity 1", "--thread-affinity"), ("--binding-args=--map-by=core", "--binding-args"),
    ("--slots-per-host 2", "--slots-per-host"),
    ("--min-np 2", "lost ranks are not replaced"),
])
def test_flags_without_effect_are_named(words, flag):
    remarks = planned("-np", "2", *words.split())[1].remarks
    assert len(remarks) == 1 and remarks[0].startswith(flag)


CONFIGURATION = """
controller: gloo
params:
  fusion_threshold_mb: 32
  cycle_time_ms: 10
timeline:
  filename: t.json
  mark_cycles: true
stall_check:
  enabled: false
logging:
  hide_timestamp: true
"""


def test_config_file(tmp_path):
    pytest.importorskip("yaml")
    path = tmp_path / "settings.yaml"
    path.write_text(CONFIGURATION)
    found, _ = planned("-np", "2", "--config-file", str(path), "--cycle-time-ms", "2")
    assert found == {"-n": "2", "HOROVOD_FUSION_THRESHOLD": str(32 << 20), "HOROVOD_CYCLE_TIME": "2.0", "HOROVOD_TIMELINE": "t.json",
                     "HOROVOD_TIMELINE_MARK_CYCLES": "1", "HOROVOD_STALL_CHECK_DISABLE": "1", "HOROVOD_LOG_HIDE_TIME": "1"}
    for content, part in (("params:\n  cycle_time: 1\n", "no key 'cycle_time'"), ("parms:\n  cycle_time_ms: 1\n", "no section 'parms'"),
                          ("params:\n  cycle_time_ms: fast\n", "params.cycle_time_ms: 'fast' is not a number"),
                          ("stall_check:\n  enabled: maybe\n", "write true or false"), ("controller: jsrun\n", "controller is 'jsrun'"),
                          ("params: 3\n", "section params holds 3"), ("a: [\n", "cannot be read"), ("- a\n", "holds no sections")):
        path.write_text(content)
        assert part in refusal("-np", "2", "--config-file", str(path))
    path.write_text("")
    assert planned("-np", "2", "--config-file", str(path))[0] == {"-n": "2"}


def test_config_file_without_yaml(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert "needs the Python package yaml" in refusal("-np", "2", "--config-file", str(tmp_path / "settings.yaml"))


def test_weft_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT", str(tmp_path / "weft"))
    assert "WEFT is" in refusal("-np", "2")
    monkeypatch.delenv("WEFT")
    program = tmp_path / "weft"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert plan(flags.parse(["-np", "2", *PROGRAM])).command[0] == str(program)


# ---- jobs ----


def test_ranks_and_exit_status(horovodrun, tmp_path):
    shown = 'echo "$HOROVOD_RANK/$HOROVOD_SIZE $HOROVOD_LOCAL_RANK/$HOROVOD_LOCAL_SIZE $HOROVOD_CYCLE_TIME"'
    ended = horovodrun("-np", "2", "--cycle-time-ms", "3", "sh", "-c", shown)
    assert ended.code == 0, ended.said
    assert sorted(ended.out.splitlines()) == ["[rank 0] 0/2 0/2 3.0", "[rank 1] 1/2 1/2 3.0"]
    assert horovodrun("-np", "2", "sh", "-c", "exit 7").code == 7
    ended = horovodrun("-np", "2", "--output-filename", str(tmp_path / "out"), "sh", "-c", shown)
    assert (tmp_path / "out" / "rank-1.out").read_text().startswith("1/2")
    ended = horovodrun("-np", "2", "--no-such-flag", "true")
    assert ended.code == 2 and ended.said.startswith("horovodrun: there is no flag --no-such-flag")


def test_timestamps(horovodrun):
    ended = horovodrun("-np", "2", "--prefix-output-with-timestamp", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert ended.code == 3
    for line, text in zip(sorted(ended.out.splitlines()), ("[rank 0] out", "[rank 1] out")):
        time.strptime(line[:19], "%Y-%m-%d %H:%M:%S")
        assert line[20:] == text
    assert "[rank 1] err" in ended.said


def test_check_build_and_version(horovodrun):
    ended = horovodrun("--check-build")
    assert ended.code == 0 and "[X] Weft" in ended.out and "[ ] NCCL" in ended.out
    assert horovodrun("-v").out.startswith("0.28.1")


def test_signals_are_passed_on():
    """Also where horovodrun stays, to write timestamps: the ranks get SIGTERM, and end with the code for 'run me again'."""
    program = "trap 'exit 75' TERM; echo up; while :; do sleep 0.05; done"
    with subprocess.Popen([sys.executable, "-m", "horovod.runner", "-np", "2", "--prefix-output-with-timestamp", "sh", "-c", program],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert "up" in process.stdout.readline() and "up" in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 75


def test_hosts_that_come(horovodrun, tmp_path):
    """A host that the discovery script lists later gets ranks; the environment reaches it."""
    agent = tmp_path / "agent"
    agent.write_text('#!/bin/sh\nWEFT_NODE=$1 WEFT_HOST=$1\nexport WEFT_NODE WEFT_HOST\nshift\nexec sh -c "$*"\n')
    agent.chmod(0o755)
    listed, program = tmp_path / "listed", tmp_path / "program.py"
    listed.write_text("hosta\n")
    # The ranks of the beginning admit others as libweft's survivors do, when one waits.
    program.write_text(f"""
import os, time, weft, numpy
world = weft.init()
print("rank", os.environ["WEFT_RANK"], os.environ["MY_SETTING"], flush=True)
end = time.monotonic() + 60
while time.monotonic() < end and weft.world().size < 3:
    open({str(listed)!r}, "w").write("hosta\\nhostb:1\\n")
    if weft.world().allreduce(numpy.array([weft.waiting()], "i4"))[0]:
        weft.grow()
    time.sleep(0.1)
print("together", weft.world().size, flush=True)
""")
    import weft
    if not hasattr(weft, "grow"):
        pytest.skip("this version of weft cannot admit ranks")
    ended = horovodrun("-np", "2", "--min-np", "1", "--max-np", "3", "--slots-per-host", "2", "--host-discovery-script", f"cat {listed}",
                       sys.executable, str(program), environment={"WEFT_AGENT": str(agent), "MY_SETTING": "given"})
    assert ended.code == 0, ended.said
    assert ended.out.count("together 3") == 3 and "rank 2 given" in ended.out and "host hostb has come" in ended.said


def test_discovery_script_that_fails(horovodrun):
    ended = horovodrun("-np", "1", "--host-discovery-script", "echo wrong >&2; exit 4", "true")
    assert ended.code == 2 and "ended with exit code 4\nwrong" in ended.said
    ended = horovodrun("-np", "2", "--elastic-timeout", "1", "--host-discovery-script", "echo localhost", "true")
    assert ended.code == 2 and "listed 1 slots after 1 s, too few for -np 2" in ended.said
    for value, words in (("0.5", "listed 1 slots after 0.5 s, too few for -np 2"), ("soon", "HOROVOD_ELASTIC_TIMEOUT: 'soon' is not a number")):
        ended = horovodrun("-np", "2", "--host-discovery-script", "echo localhost", "true", environment={"HOROVOD_ELASTIC_TIMEOUT": value})
        assert ended.code == 2 and words in ended.said


# ---- helpers ----


def test_rank_of_environment(monkeypatch):
    assert get_env_rank_and_size() == (0, 1)
    monkeypatch.setenv("WEFT_RANK", "3")
    with pytest.raises(RuntimeError, match="only one of WEFT_RANK and WEFT_RANKS"):
        get_env_rank_and_size()
    monkeypatch.setenv("WEFT_RANKS", "4")
    assert get_env_rank_and_size() == (3, 4)
    monkeypatch.setenv("HOROVOD_RANK", "1")
    monkeypatch.setenv("HOROVOD_SIZE", "2")
    assert get_env_rank_and_size() == (1, 2)


def test_in_thread():
    seen = []
    in_thread(seen.append, (1,)).join()
    in_thread(lambda: 1 / 0, silent=True).join()
    assert seen == [1]
    with pytest.raises(ValueError, match="must be a tuple"):
        in_thread(seen.append, 1)
