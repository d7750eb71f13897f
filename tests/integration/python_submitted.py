# SPDX-License-Identifier: Apache-2.0
"""The Python examples as runs of the platform: each ends well, and its metrics are there. Part of horovod_package_test, whose interpreter
has the packages.

    python_submitted.py INTERPRETER DATA
"""
import os
import sys

from serve_support import Serve

EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "examples", "python")


def main():
    python, text = sys.argv[1:]
    runs = {  # program: (its options, metrics that it reports)
        "power_iteration.py": ([], set()),
        "horovod_fashion_mnist.py": (["--steps", "4", "--limit", "512", "--batch", "64"], {"train/loss", "test/accuracy"}),
        "ddp_gpt.py": (["--data", text, "--steps", "3", "--batch", "1"], {"train/loss"}),
    }
    with Serve(pods=None) as serve:
        for program, (options, wanted) in runs.items():
            run = serve.submit(python, os.path.join(EXAMPLES, program), *options, slots=2)
            ended = serve.wait(run, seconds=240)
            assert ended["state"] == "succeeded", (program, ended, serve.command("logs", str(run)))
            serve.get_when(f"/runs/{run}/metrics", lambda value: wanted <= {metric["name"] for metric in value["metrics"]})
            print(f"{program}: ended well")


main()
