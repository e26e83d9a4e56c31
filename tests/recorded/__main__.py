"""Records the hashes anew: ``PYTHONPATH=tests python -m tests.recorded SHARED``, SHARED the folder of real models."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.recorded.cases import built_cases, hash_of, shared_cases
from tests.recorded.record import RECORD, versions


def main() -> None:
    """Writes the record."""
    cases = [*built_cases(), *shared_cases(Path(sys.argv[1]) / "models")]
    hashes = {case.name: hash_of(case) for case in cases}
    RECORD.write_text(json.dumps({"versions": versions(), "hashes": hashes}, indent=1) + "\n", encoding="ascii")
    sys.stdout.write(f"{len(hashes)} hashes at {RECORD}\n")


if __name__ == "__main__":
    main()
