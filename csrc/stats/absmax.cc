#include "stats/absmax.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "runtime/dispatch.h"
#include "runtime/statistics_kernels.h"

namespace quarkfast {

namespace {

constexpr size_t kGrain = 65536;  // values below which a second thread costs more than it saves

}  // namespace

template <class T>
void reduce_absmax(const T* x, size_t outer, size_t channels, size_t inner, float* top, const Pool& pool) {
  if (!outer || !channels || !inner) return;
  const StatisticsKernels<T>& kernels = statistics_kernels<T>(active());
  // A row is what one call of a kernel takes: all channels of one position, or what one channel has in a row.
  const bool alternate = inner == 1 && channels > 1;
  const size_t row = alternate ? channels : inner;
  std::mutex mutex;
  // Threads share out the values, not the channels, of which there may be one; maxima are merged, in any order.
  const auto piece = [&](size_t begin, size_t end) {
    std::vector<float> own(channels);
    for (size_t at = begin; at < end;) {
      const size_t n = std::min(row - at % row, end - at);
      if (alternate) {
        kernels.reduce_absmax_channels(x + at, n, own.data() + at % row);
      } else {
        kernels.reduce_absmax(x + at, n, own.data() + at / row % channels);
      }
      at += n;
    }
    const std::lock_guard lock(mutex);
    for (size_t c = 0; c < channels; ++c) top[c] = std::max(top[c], own[c]);
  };
  parallel_for(pool, outer * channels * inner, kGrain, piece);
}

template QUARKFAST_API void reduce_absmax(const float*, size_t, size_t, size_t, float*, const Pool&);
template QUARKFAST_API void reduce_absmax(const f16*, size_t, size_t, size_t, float*, const Pool&);
template QUARKFAST_API void reduce_absmax(const bf16*, size_t, size_t, size_t, float*, const Pool&);

}  // namespace quarkfast
