// Range estimation by entropy: the range that loses the least information, as Kullback and Leibler measure it.
#pragma once

#include <cstddef>

#include "export.h"
#include "ranges/histogram_view.h"

namespace quarkfast {

// TensorRT's search: thresholds at every bin of the magnitudes from `levels` bins on. The magnitudes below a threshold,
// with those above it added to its last bin, are compared with themselves spread evenly over `levels` groups. Zeros are
// left out: zero is always a code.
QUARKFAST_API ClippingRange entropy_range(const HistogramView& h, int32_t levels);

// onnxruntime's search: windows around zero in a histogram of `bins` bins (a power of two), from `levels` bins on.
QUARKFAST_API ClippingRange entropy_window_range(const HistogramView& h, int32_t bins, int32_t levels);

}  // namespace quarkfast
