// Mean and spread of what was seen, of the values or of their signed power.
#pragma once

#include "export.h"
#include "ranges/observed.h"

namespace quarkfast {

struct Spread {
  double mean = 0;
  double deviation = 0;
};

// Of sign(x) * |x|^(1/root) for root 1 or 3, values taken as the middles of their bins and zeros as zero.
QUARKFAST_API Spread spread_of(const Observed& o, int root);

}  // namespace quarkfast
