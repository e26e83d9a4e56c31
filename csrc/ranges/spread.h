// Mean and standard deviation of the values of a histogram, or of their signed roots.
#pragma once

#include "export.h"
#include "ranges/histogram_view.h"

namespace quarkfast {

struct Spread {
  double mean = 0;
  double deviation = 0;
};

// Of sign(x) * |x|^(1/root) for root 1 or 3, values taken as the middles of their bins and zeros as zero.
QUARKFAST_API Spread spread(const HistogramView& h, int root);

}  // namespace quarkfast
