#include "channels.h"

#include <algorithm>

#include "rows.h"

namespace quarkfast {

namespace {

constexpr size_t kGrain = 65536;  // values below which a second thread costs more than it saves

}  // namespace

template <class T>
void channel_absmax(const T* x, size_t outer, size_t channels, size_t inner, float* top, const Pool& pool) {
  if (!outer || !channels || !inner) return;
  const StatisticsKernels<T>& row = rows<T>(active());
  const size_t grain = std::max<size_t>(1, kGrain / std::max<size_t>(1, outer * inner));
  // Threads share out the channels, so that each maximum has one owner.
  parallel_for(pool, channels, grain, [&](size_t begin, size_t end) {
    for (size_t o = 0; o < outer; ++o) {
      if (inner == 1) {
        row.reduce_absmax_channels(x + o * channels + begin, end - begin, top + begin);
        continue;
      }
      for (size_t c = begin; c < end; ++c) row.reduce_absmax(x + (o * channels + c) * inner, inner, top + c);
    }
  });
}

template QUARKFAST_API void channel_absmax(const float*, size_t, size_t, size_t, float*, const Pool&);
template QUARKFAST_API void channel_absmax(const f16*, size_t, size_t, size_t, float*, const Pool&);
template QUARKFAST_API void channel_absmax(const bf16*, size_t, size_t, size_t, float*, const Pool&);

}  // namespace quarkfast
