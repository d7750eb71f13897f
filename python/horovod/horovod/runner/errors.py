# SPDX-License-Identifier: Apache-2.0
"""What horovodrun reports in one line, without a traceback."""


class UsageError(ValueError):
    """The command line, a file that it names, or the installation is wrong; the message says what to do."""
