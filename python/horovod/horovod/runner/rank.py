# SPDX-License-Identifier: Apache-2.0
"""The program of the ranks of horovod.run(): gets the function, calls it, sends its result."""
from __future__ import annotations

import os
import pickle
import sys
import traceback
from multiprocessing.connection import Client
from typing import Any

from .functions import ADDRESS, KEY, dumps


def _exchange(kind: str, content: Any = None) -> bytes:
    host, _, port = os.environ[ADDRESS].rpartition(":")
    with Client((host, int(port)), authkey=bytes.fromhex(os.environ[KEY])) as connection:
        connection.send((int(os.environ["WEFT_RANK"]), kind, content))
        return connection.recv_bytes()


def main() -> None:
    """Exceptions are sent, too, and end this rank and so the job."""
    paths, function, arguments = pickle.loads(_exchange("get"))
    sys.path.extend(path for path in paths if path not in sys.path)
    try:
        args, kwargs = pickle.loads(arguments)
        result = dumps(pickle.loads(function)(*args, **kwargs), "horovod.run: the result")
    except Exception:
        _exchange("failure", traceback.format_exc())
        raise
    _exchange("result", result)


if __name__ == "__main__":
    main()
