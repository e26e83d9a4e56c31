// What one pass over a tensor tells about its values.
#pragma once

#include <cstdint>
#include <limits>

namespace quarkfast {

// Extremes of the finite values and counts of the special ones. Merging is exact, associative and commutative; an empty
// range has min = +inf and max = -inf. -0 counts as zero, and min and max are never -0.
struct Range {
  float min = std::numeric_limits<float>::infinity();
  float max = -std::numeric_limits<float>::infinity();
  int64_t count = 0;  // all values, finite or not
  int64_t nan = 0;
  int64_t pos_inf = 0;
  int64_t neg_inf = 0;
  int64_t zero = 0;
  int64_t subnormal = 0;  // in the type of the tensor: below 2^-14 for float16, 2^-126 for the others; zero is none
};

constexpr void merge(Range& into, const Range& from) {
  into.min = from.min < into.min ? from.min : into.min;
  into.max = from.max > into.max ? from.max : into.max;
  into.count += from.count;
  into.nan += from.nan;
  into.pos_inf += from.pos_inf;
  into.neg_inf += from.neg_inf;
  into.zero += from.zero;
  into.subnormal += from.subnormal;
}

// Number of finite values.
constexpr int64_t finite(const Range& r) {
  return r.count - r.nan - r.pos_inf - r.neg_inf;
}

}  // namespace quarkfast
