"""`python -m quarkfast` is the command `quarkfast`."""

import sys

from quarkfast.cli import main

sys.exit(main())
