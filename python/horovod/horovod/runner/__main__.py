# SPDX-License-Identifier: Apache-2.0
"""python3 -m horovod.runner is horovodrun."""
import sys

from .launch import main

sys.exit(main())
