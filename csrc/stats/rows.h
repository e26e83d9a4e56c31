// The kernels of one tensor type.
#pragma once

#include "dispatch.h"

namespace quarkfast {

template <class T>
const StatisticsKernels<T>& rows(const Kernels& kernels);
template <>
inline const StatisticsKernels<float>& rows<float>(const Kernels& kernels) {
  return kernels.stats_f32;
}
template <>
inline const StatisticsKernels<f16>& rows<f16>(const Kernels& kernels) {
  return kernels.stats_f16;
}
template <>
inline const StatisticsKernels<bf16>& rows<bf16>(const Kernels& kernels) {
  return kernels.stats_bf16;
}

}  // namespace quarkfast
