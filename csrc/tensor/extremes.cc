#include "tensor/extremes.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>
#include <vector>

#include "numerics/order.h"
#include "runtime/dispatch.h"
#include "runtime/statistics_kernels.h"

namespace quarkfast {

namespace {

constexpr size_t kGrain = 65536;  // values below which a second thread costs more than it saves

// Results whose keys stay in the first cache, float32's in half of it, while rows of values pass by.
constexpr size_t kStrip = 2048;

// Fewer results are not shared out: threads would get a few columns each, or none.
constexpr size_t kMany = 256;

template <class T>
struct Keys {
  explicit Keys(size_t n)
      : low(n, std::numeric_limits<OrderKey<T>>::max()), high(n, std::numeric_limits<OrderKey<T>>::min()) {}
  std::vector<OrderKey<T>> low, high;
};

template <class T>
struct Reduction {
  const T* x;
  const ScaleLayout& layout;
  const StatisticsKernels<T>& kernels = statistics_kernels<T>(active());

  // Elements [begin, end), in their order.
  void values(size_t begin, size_t end, Keys<T>& keys) const {
    for_each_run(
        layout, begin, end,
        [&](size_t at, size_t count, size_t n, size_t s) {
          kernels.reduce_extremes(x + at, count, n, keys.low.data() + s, keys.high.data() + s);
        },
        [&](size_t at, size_t n, size_t s) {
          kernels.reduce_extremes_channels(x + at, 1, n, n, keys.low.data() + s, keys.high.data() + s);
        });
  }

  // All elements of the scales [begin, end) of a layout per block.
  void blocks(size_t begin, size_t end, Keys<T>& keys) const {
    const size_t blocks = layout.outer_stride / layout.inner;
    const auto first = [&](size_t s) { return s / blocks * layout.axis + s % blocks * layout.block; };
    if (layout.inner == 1) {
      values(first(begin), first(end), keys);
      return;
    }
    for (size_t at = begin, n = 0; at < end; at += n) {
      const size_t block = at / layout.inner, column = at % layout.inner;
      const size_t length = std::min(layout.block, layout.axis - block % blocks * layout.block);
      n = std::min({layout.inner - column, end - at, kStrip});
      const T* row = x + first(block) * layout.inner + column;
      kernels.reduce_extremes_channels(row, length, layout.inner, n, keys.low.data() + at, keys.high.data() + at);
    }
  }
};

template <class T>
T value_of(OrderKey<T> key) {
  const OrderKey<T> bits = order_key(key);
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <class T>
void tell(const Keys<T>& keys, T* low, T* high) {
  using Key = OrderKey<T>;
  constexpr Key kInfinity = OrderOf<T>::kInfinity, kNan = kInfinity | kInfinity >> 1;
  for (size_t i = 0; i < keys.low.size(); ++i) {
    const bool nan = keys.low[i] < ~kInfinity || keys.high[i] > kInfinity;
    // The key of -0 is -1.
    low[i] = value_of<T>(nan ? kNan : keys.low[i] == -1 ? Key{0} : keys.low[i]);
    high[i] = value_of<T>(nan ? kNan : keys.high[i] == -1 ? Key{0} : keys.high[i]);
  }
}

}  // namespace

template <class T>
void reduce_extremes(const T* x, const ScaleLayout& given, T* low, T* high, const Pool& pool) {
  // One column a channel is one block of rows.
  const bool columns = given.axis_stride && !given.inner_stride && given.inner == 1;
  const ScaleLayout layout = columns ? ScaleLayout::per_block(1, given.outer, given.axis, given.outer) : given;
  const Reduction<T> reduction{x, layout};
  const size_t size = layout.size(), scales = layout.scales();
  Keys<T> keys(scales);
  if (scales >= kMany && layout.inner_stride) {
    const size_t grain = (kGrain * scales + size - 1) / size;
    parallel_for(pool, scales, grain, [&](size_t begin, size_t end) { reduction.blocks(begin, end, keys); });
  } else {
    // Threads share out the values, and extremes are merged, in any order.
    std::mutex mutex;
    parallel_for(pool, size, kGrain, [&](size_t begin, size_t end) {
      Keys<T> own(scales);
      reduction.values(begin, end, own);
      const std::lock_guard lock(mutex);
      for (size_t i = 0; i < scales; ++i) {
        keys.low[i] = std::min(keys.low[i], own.low[i]);
        keys.high[i] = std::max(keys.high[i], own.high[i]);
      }
    });
  }
  tell(keys, low, high);
}

template QUARKFAST_API void reduce_extremes(const float*, const ScaleLayout&, float*, float*, const Pool&);
template QUARKFAST_API void reduce_extremes(const f16*, const ScaleLayout&, f16*, f16*, const Pool&);
template QUARKFAST_API void reduce_extremes(const bf16*, const ScaleLayout&, bf16*, bf16*, const Pool&);

}  // namespace quarkfast
