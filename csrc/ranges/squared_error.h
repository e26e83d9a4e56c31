// Range estimation by squared error: the expected error of integer codes, and the ranges that make it small.
#pragma once

#include <vector>

#include "export.h"
#include "numerics/code_range.h"
#include "ranges/histogram_view.h"
#include "runtime/dispatch.h"

namespace quarkfast {

// Scale and zero point of a tensor: scale finite and > 0, zero_point within the codes.
struct QParams {
  double scale;
  int64_t zero_point;
};

// Scale (rounded to float32) and zero point for a range, widened to hold zero and, where symmetric, to mirror itself.
QUARKFAST_API QParams qparams_from_range(const ClippingRange& range, const CodeRange& codes, bool symmetric);

// The mean squared error over what was seen, values taken as evenly spread inside a bin and zeros as exact.
class QUARKFAST_API QuantizationError {
 public:
  explicit QuantizationError(const HistogramView& h);
  double operator()(const QParams& qparams, const CodeRange& codes) const;

 private:
  const Kernels& kernels_;
  std::vector<double> weights_;  // counts without zeros, as a share of all values
  size_t first_ = 0, last_ = 0;  // the bins that hold something, widened to whole lanes
  double bin_ = 0;
};

// The range with the least error among thresholds of six binary digits over eleven octaves below the extremes: 1/8
// octave apart at first, then 1/64 around the best. Where not symmetric both ends shrink together, then each alone.
QUARKFAST_API ClippingRange least_error_range(const HistogramView& h, const CodeRange& codes, bool symmetric);

// The range that the codes reach with the scale of the least error among the `count` powers of two from twice the one
// nearest to the observed range's scale downwards; the first of equals. The zero point stays that of the range.
QUARKFAST_API ClippingRange power_of_two_range(const HistogramView& h, const CodeRange& codes, bool symmetric,
                                               int count);

}  // namespace quarkfast
