# SPDX-License-Identifier: Apache-2.0
"""Cases of a test that wait rather than compute, some at a time."""
import os
import sys
import tempfile
import time
import traceback


def start(case, failures):
    """(process, its output) of a child that runs the case."""
    output = tempfile.TemporaryFile()
    sys.stdout.flush()
    process = os.fork()
    if process == 0:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        failed, begin = True, time.monotonic()
        try:
            case()
            print(f"{case.__name__}: {time.monotonic() - begin:.2f} s", flush=True)
            failed = bool(failures)
        except BaseException:  # pylint: disable=broad-except
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(failed)
    return process, output


def together(cases, failures, at_a_time=4):
    """Run each case in a process of its own, and print its output when it has ended; how many failed: those that raised something, or
    appended to the list `failures`."""
    left, running, failed = list(cases), {}, 0
    while left or running:
        while left and len(running) < at_a_time:
            process, output = start(left.pop(0), failures)
            running[process] = output
        process, status = os.wait()
        if process in running:
            with running.pop(process) as output:
                output.seek(0)
                print(output.read().decode(errors="replace"), end="", flush=True)
            failed += status != 0
    return failed
