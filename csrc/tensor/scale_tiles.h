// Drives kernels that take scales over whole arrays: long runs of equal scales as they are, short ones as tiles of one
// scale for each element.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "runtime/parallel.h"
#include "tensor/elementwise.h"
#include "tensor/scale_layout.h"

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

// Writes n copies of value in stores of fixed size, hence up to kFill - 1 more: the next run writes over them. Runs
// of a tile are short, and a call of memset takes longer than most of them.
inline constexpr size_t kFill = 16;

template <class T>
void fill_run(T* to, size_t n, T value) {
  for (size_t i = 0; i < n; i += kFill) {
    for (size_t j = 0; j < kFill; ++j) to[i + j] = value;
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
            fill_run(scale + to, n, scales[s]);
            fill_run(zero_point + to, n, zero_points[s]);
          }
        },
        [&](size_t at, size_t n, size_t s) {
          std::copy_n(scales + s, n, scale + (at - begin));
          std::copy_n(zero_points + s, n, zero_point + (at - begin));
        });
  }

  Scale scale[kTile + kFill];
  Q zero_point[kTile + kFill];
};

// Covers elements [begin, end) with calls of the operation; x and y point at element begin. An operation takes `runs`
// runs of n elements, one scale each, or n elements with a scale each, as the kernels do.
template <class Operation, class X, class Y, class Scale, class Q>
void cover(const Operation& operation, const X* x, Y* y, const ScaleLayout& layout, const Scale* scale,
           const Q* zero_point, size_t begin, size_t end) {
  if (!has_short_runs(layout)) {
    for_each_run(
        layout, begin, end,
        [&](size_t at, size_t runs, size_t n, size_t s) {
          operation.runs(x + (at - begin), y + (at - begin), runs, n, scale + s, zero_point + s);
        },
        [&](size_t at, size_t n, size_t s) {
          operation.channels(x + (at - begin), y + (at - begin), n, scale + s, zero_point + s);
        });
    return;
  }
  // Where the same scales come again soon, one tile holds whole periods and serves for all.
  const size_t period = layout.axis * layout.inner;
  const bool periodic = layout.outer_stride == 0 && period <= kTile;
  const size_t step = periodic ? kTile / period * period : kTile;
  Tile<Scale, Q> tile;
  for (size_t at = begin; at < end; at += step) {
    const size_t n = std::min(step, end - at);
    if (!periodic || at == begin) tile.fill(layout, at, n, scale, zero_point);
    operation.channels(x + (at - begin), y + (at - begin), n, tile.scale, tile.zero_point);
  }
}

// Covers the whole array, split over the pool.
template <class Operation, class X, class Y, class Scale, class Q>
void drive(const Operation& operation, const X* x, Y* y, const ScaleLayout& layout, const Scale* scale,
           const Q* zero_point, const Pool& pool) {
  std::vector<Q> zeros;
  const Q* z = zero_points(zero_point, layout.scales(), zeros);
  const auto piece = [&](size_t begin, size_t end) {
    cover(operation, x + begin, y + begin, layout, scale, z, begin, end);
  };
  parallel_for(pool, layout.size(), kElementwiseGrain,
               [&](size_t begin, size_t end) { from_cache_line(x, y, begin, end, piece); });
}

}  // namespace quarkfast
