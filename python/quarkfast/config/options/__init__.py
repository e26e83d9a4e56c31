"""Options as data: `quarkfast.config.options.table` has one row for each."""

from quarkfast.config.options.apply import apply_options, scheme_from
from quarkfast.config.options.table import GROUPS, OPTIONS, Option

__all__ = ["GROUPS", "OPTIONS", "Option", "apply_options", "scheme_from"]
