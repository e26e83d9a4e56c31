// The table rows of all statistics kernels for one tensor type.
#pragma once

#include "kernels.h"
#include "kernels/histogram.inl.h"
#include "kernels/moments.inl.h"
#include "kernels/reduce_absmax.inl.h"
#include "kernels/reduce_extremes.inl.h"
#include "kernels/reduce_range.inl.h"

namespace quarkfast::QF_ISA {
namespace {

template <class T>
constexpr StatisticsKernels<T> statistics_kernels() {
  return {
      .reduce_range = reduce_range<T>,
      .count_histogram = count_histogram<T>,
      .sum_moments = sum_moments<T>,
      .reduce_absmax = reduce_absmax<T>,
      .reduce_absmax_channels = reduce_absmax_channels<T>,
      .reduce_extremes = reduce_extremes<T>,
      .reduce_extremes_channels = reduce_extremes_channels<T>,
  };
}

}  // namespace
}  // namespace quarkfast::QF_ISA
