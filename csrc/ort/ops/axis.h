// The attribute `axis`, which may count from the end.
#pragma once

#include "ort/error.h"

namespace quarkfast::ort {

inline size_t normalized_axis(int64_t axis, size_t rank) {
  const int64_t dims = static_cast<int64_t>(rank);
  if (axis >= -dims && axis < dims) return static_cast<size_t>(axis < 0 ? axis + dims : axis);
  if (rank == 0) throw Error{"attribute 'axis': expected a tensor with at least one dimension, got a scalar"};
  throw Error{"attribute 'axis': expected " + std::to_string(-dims) + " to " + std::to_string(dims - 1) + ", got " +
              std::to_string(axis)};
}

}  // namespace quarkfast::ort
