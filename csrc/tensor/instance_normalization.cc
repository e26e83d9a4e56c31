#include "tensor/instance_normalization.h"

#include <algorithm>
#include <cmath>

#include "runtime/dispatch.h"
#include "tensor/elementwise.h"

namespace quarkfast {

namespace {

// (variance + epsilon)^-0.5, rounded once to float32 from double, where square root and division are exact operations
// of every processor; powf differs between systems.
float inverse_deviation(float variance, float epsilon) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(variance + epsilon)));
}

}  // namespace

void normalize_instances(const float* x, float* y, size_t batch, size_t channels, size_t n, const float* gamma,
                         const float* beta, float epsilon, const Pool& pool) {
  if (n == 0) return;
  constexpr size_t kGroup = 8, kMost = 32;  // instances that threads share out, and that are summed side by side
  const Kernels& k = active();
  const size_t instances = batch * channels;
  const size_t groups = (instances + kGroup - 1) / kGroup;
  const size_t grain = std::max<size_t>(1, kElementwiseGrain / (kGroup * n));
  parallel_for(pool, groups, grain, [&](size_t begin, size_t end) {
    const size_t last = std::min(end * kGroup, instances);
    for (size_t first = begin * kGroup; first < last; first += kMost) {
      const size_t count = std::min(kMost, last - first);
      InstanceMoments moments[kMost];
      k.instance_moments_f32(x + first * n, count, n, moments);
      for (size_t i = 0; i < count; ++i) {
        const size_t channel = (first + i) % channels;
        k.normalize_instance_f32(
            x + (first + i) * n, y + (first + i) * n, n,
            {moments[i].mean, inverse_deviation(moments[i].variance, epsilon), gamma[channel], beta[channel]});
      }
    }
  });
}

}  // namespace quarkfast
