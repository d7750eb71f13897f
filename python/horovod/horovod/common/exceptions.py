# SPDX-License-Identifier: Apache-2.0
"""Exceptions that programs catch."""
from __future__ import annotations


class HorovodInternalError(RuntimeError):
    """An operation failed: ranks disagree about it, a rank died, or Horovod was shut down. Elastic training recovers from it."""


class HostsUpdatedInterrupt(RuntimeError):
    """Ranks wait to join or are to leave. Elastic training lets them, and goes on; with `skip_sync` without synchronizing its state."""

    def __init__(self, skip_sync: bool = False):
        super().__init__("the ranks of the job are about to change")
        self.skip_sync = skip_sync


class HorovodVersionMismatchError(ImportError):
    """A framework has another version than the one that Horovod was built for. It is not raised here: nothing is built for a framework."""

    def __init__(self, name: str, version: str, installed_version: str):
        super().__init__(f"{name} has version {version}, but Horovod was built for {installed_version}")
        self.name, self.version, self.installed_version = name, version, installed_version
