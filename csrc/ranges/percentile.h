// Clips that keep a given share of the values.
#pragma once

#include "export.h"
#include "ranges/observed.h"

namespace quarkfast {

// Symmetric: [-t, t] with `percentile` percent of the magnitudes up to t. Otherwise (100 - percentile) / 2 percent of
// the values are cut at either end. Positions inside a bin are interpolated linearly; nothing beyond what was seen.
QUARKFAST_API Clip clip_percentile(const Observed& o, double percentile, bool symmetric);

}  // namespace quarkfast
