// Drives kernels that take scales over whole arrays: long runs of equal scales as they are, short ones as tiles of one
// scale for each element.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "elementwise.h"
#include "parallel.h"
#include "scale_layout.h"

namespace quarkfast {

// The zero points to read, made of zeros where the caller has none.
template <class Q>
const Q* zero_points(const Q* given, size_t n, std::vector<Q>& zeros) {
  if (given) return given;
  zeros.assign(n, Q{});
  return zeros.data();
}

// Runs shorter than this cost more to set up than to compute (measured on Zen 4: about 12 ns for a run, 0.2 ns for an
// element), and the compiler's loops leave up to 31 elements of a run to scalar code.
inline constexpr size_t kShortRun = 256;
inline constexpr size_t kLanes = 32;

inline bool has_short_runs(const ScaleLayout& layout) {
  const size_t run = layout.run();
  return layout.scales() > 1 && run < kShortRun && (layout.scales_alternate() || run % kLanes != 0);
}

// Writes n copies of value in stores of fixed size, hence up to kSpread - 1 more: the next run writes over them. Runs
// of a tile are short, and a call of memset takes longer than most of them.
inline constexpr size_t kSpread = 16;

template <class T>
void spread(T* to, size_t n, T value) {
  for (size_t i = 0; i < n; i += kSpread) {
    for (size_t j = 0; j < kSpread; ++j) to[i + j] = value;
  }
}

// Scales and zero points written out for a piece of the array, one for each element; small enough for the first cache.
inline constexpr size_t kTile = 1024;

template <class Scale, class Q>
struct Tile {
  void fill(const ScaleLayout& layout, size_t begin, size_t size, const Scale* scales, const Q* zero_points) {
    for_each_run(
        layout, begin, begin + size,
        [&](size_t at, size_t runs, size_t n, size_t s) {
          for (size_t to = at - begin; runs; --runs, to += n, ++s) {
            spread(scale + to, n, scales[s]);
            spread(zero_point + to, n, zero_points[s]);
          }
        },
        [&](size_t at, size_t n, size_t s) {
          std::copy_n(scales + s, n, scale + (at - begin));
          std::copy_n(zero_points + s, n, zero_point + (at - begin));
        });
  }

  Scale scale[kTile + kSpread];
  Q zero_point[kTile + kSpread];
};

// Covers the array with calls of runs(at, count, n, scale, zero_point) and each(at, n, scale, zero_point), as the
// kernels take them, split over the pool.
template <class Scale, class Q, class Runs, class Each>
void drive(const ScaleLayout& layout, const Scale* scale, const Q* zero_point, const Pool& pool, Runs&& runs,
           Each&& each) {
  const bool short_runs = has_short_runs(layout);
  // Where the same scales come again soon, one tile holds whole periods and serves for all.
  const size_t period = layout.axis * layout.inner;
  const bool periodic = layout.outer_stride == 0 && period <= kTile;
  const size_t step = periodic ? kTile / std::max<size_t>(period, 1) * period : kTile;
  parallel_for(pool, layout.size(), kElementwiseGrain, [&](size_t begin, size_t end) {
    if (!short_runs) {
      for_each_run(
          layout, begin, end,
          [&](size_t at, size_t count, size_t n, size_t s) { runs(at, count, n, scale + s, zero_point + s); },
          [&](size_t at, size_t n, size_t s) { each(at, n, scale + s, zero_point + s); });
      return;
    }
    Tile<Scale, Q> tile;
    for (size_t at = begin; at < end; at += step) {
      const size_t n = std::min(step, end - at);
      if (!periodic || at == begin) tile.fill(layout, at, n, scale, zero_point);
      each(at, n, tile.scale, tile.zero_point);
    }
  });
}

}  // namespace quarkfast
