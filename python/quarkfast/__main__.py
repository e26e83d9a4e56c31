"""`python -m quarkfast` is the command `quarkfast`."""

import sys

from quarkfast.cli import run

sys.exit(run())
