// Least and greatest values of the parts of a tensor that share a scale.
#pragma once

#include <cstddef>

#include "export.h"
#include "numerics/types.h"
#include "runtime/parallel.h"
#include "tensor/scale_layout.h"

namespace quarkfast {

// For each of layout.scales() scales, the least and the greatest value of the elements that it belongs to, of which
// there must be one: both NaN where one of them is NaN, and never -0. T is float, f16 or bf16.
template <class T>
QUARKFAST_API void reduce_extremes(const T* x, const ScaleLayout& layout, T* low, T* high, const Pool& pool);

}  // namespace quarkfast
