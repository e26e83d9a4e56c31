// The statistics kernels of one float type.
#pragma once

#include "kernels.h"

namespace quarkfast {

template <class T>
const StatisticsKernels<T>& statistics_kernels(const Kernels& kernels);
template <>
inline const StatisticsKernels<float>& statistics_kernels<float>(const Kernels& kernels) {
  return kernels.stats_f32;
}
template <>
inline const StatisticsKernels<f16>& statistics_kernels<f16>(const Kernels& kernels) {
  return kernels.stats_f16;
}
template <>
inline const StatisticsKernels<bf16>& statistics_kernels<bf16>(const Kernels& kernels) {
  return kernels.stats_bf16;
}

}  // namespace quarkfast
