"""The command line: one verb a file; `app` puts them together and turns errors into sentences and exit codes."""

from quarkfast.cli.app import main
from quarkfast.cli.process import run

__all__ = ["main", "run"]
