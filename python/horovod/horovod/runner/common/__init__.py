# SPDX-License-Identifier: Apache-2.0
"""Helpers that programs for Horovod import from here."""
