// What a scale costs: the expected squared error of integer codes, and clips that make it small.
#pragma once

#include <vector>

#include "export.h"
#include "ranges/observed.h"
#include "runtime/dispatch.h"

namespace quarkfast {

// A linear code of reals: scale finite and > 0, zero_point within the codes.
struct Linear {
  double scale;
  int64_t zero_point;
};

// Scale (rounded to float32) and zero point for a clip, widened to hold zero and, where symmetric, to mirror itself.
QUARKFAST_API Linear linear_for(const Clip& clip, const Codes& codes, bool symmetric);

// The mean squared error over what was seen, values taken as evenly spread inside a bin and zeros as exact.
class QUARKFAST_API SquaredError {
 public:
  explicit SquaredError(const Observed& o);
  double operator()(const Linear& linear, const Codes& codes) const;

 private:
  const Kernels& kernels_;
  std::vector<double> weights_;  // counts without zeros, as a share of all values
  size_t first_ = 0, last_ = 0;  // the bins that hold something, widened to whole lanes
  double bin_ = 0;
};

// The clip with the least error among thresholds of six binary digits over eleven octaves below the extremes: 1/8
// octave apart at first, then 1/64 around the best. Where not symmetric both ends shrink together, then each alone.
QUARKFAST_API Clip clip_squared_error(const Observed& o, const Codes& codes, bool symmetric);

// Among the `count` powers of two from twice the one nearest to the range's scale downwards, that with the least error,
// as the range its codes reach; the first of equals. The zero point stays that of the range.
QUARKFAST_API Clip clip_power_of_two(const Observed& o, const Codes& codes, bool symmetric, int count);

}  // namespace quarkfast
