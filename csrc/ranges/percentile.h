// Range estimation by percentile: the range that keeps a given share of the values.
#pragma once

#include "export.h"
#include "ranges/histogram_view.h"

namespace quarkfast {

// Symmetric: [-t, t] with `percentile` percent of the magnitudes up to t. Otherwise (100 - percentile) / 2 percent of
// the values are cut at either end. Positions inside a bin are interpolated linearly; nothing beyond what was seen.
QUARKFAST_API ClippingRange percentile_range(const HistogramView& h, double percentile, bool symmetric);

}  // namespace quarkfast
