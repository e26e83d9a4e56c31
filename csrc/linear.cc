#include "linear.h"

#include <algorithm>
#include <vector>

#include "dispatch.h"
#include "elementwise.h"

namespace quarkfast {

namespace {

template <class Q>
const LinearKernels<Q>& kernels_of(const Kernels& k);
template <>
const LinearKernels<i2>& kernels_of(const Kernels& k) {
  return k.i2;
}
template <>
const LinearKernels<u2>& kernels_of(const Kernels& k) {
  return k.u2;
}
template <>
const LinearKernels<i4>& kernels_of(const Kernels& k) {
  return k.i4;
}
template <>
const LinearKernels<u4>& kernels_of(const Kernels& k) {
  return k.u4;
}
template <>
const LinearKernels<int8_t>& kernels_of(const Kernels& k) {
  return k.i8;
}
template <>
const LinearKernels<uint8_t>& kernels_of(const Kernels& k) {
  return k.u8;
}
template <>
const LinearKernels<int16_t>& kernels_of(const Kernels& k) {
  return k.i16;
}
template <>
const LinearKernels<uint16_t>& kernels_of(const Kernels& k) {
  return k.u16;
}
template <>
const LinearKernels<int32_t>& kernels_of(const Kernels& k) {
  return k.i32;
}
template <>
const LinearKernels<uint32_t>& kernels_of(const Kernels& k) {
  return k.u32;
}

// The zero points to read, made of zeros where the caller has none.
template <class Q>
const Q* zero_points(const Q* given, size_t n, std::vector<Q>& zeros) {
  if (given) return given;
  zeros.assign(n, Q{});
  return zeros.data();
}

// Runs shorter than this cost more to set up than to compute (measured on Zen 4: about 12 ns for a run, 0.2 ns for an
// element), and the compiler's loops leave up to 31 elements of a run to scalar code.
constexpr size_t kShortRun = 256;
constexpr size_t kLanes = 32;

bool has_short_runs(const ScaleLayout& layout) {
  const size_t run = layout.run();
  return layout.scales() > 1 && run < kShortRun && (layout.scales_alternate() || run % kLanes != 0);
}

// Writes n copies of value in stores of fixed size, hence up to kSpread - 1 more: the next run writes over them. Runs
// of a tile are short, and a call of memset takes longer than most of them.
constexpr size_t kSpread = 16;

template <class T>
void spread(T* to, size_t n, T value) {
  for (size_t i = 0; i < n; i += kSpread) {
    for (size_t j = 0; j < kSpread; ++j) to[i + j] = value;
  }
}

// Scales and zero points written out for a piece of the array, one for each element; small enough for the first cache.
template <class Q>
struct Tile {
  static constexpr size_t kSize = 1024;

  void fill(const ScaleLayout& layout, size_t begin, size_t size, const float* scales, const Q* zero_points) {
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

  float scale[kSize + kSpread];
  Q zero_point[kSize + kSpread];
};

// Covers the array with calls of runs(at, count, n, scale, zero_point) and each(at, n, scale, zero_point), as the
// kernels take them, split over the pool.
template <class Q, class Runs, class Each>
void drive(const ScaleLayout& layout, const float* scale, const Q* zero_point, const Pool& pool, Runs&& runs,
           Each&& each) {
  const bool short_runs = has_short_runs(layout);
  // Where the same scales come again soon, one tile holds whole periods and serves for all.
  const size_t period = layout.axis * layout.inner;
  const bool periodic = layout.outer_stride == 0 && period <= Tile<Q>::kSize;
  const size_t step = periodic ? Tile<Q>::kSize / std::max<size_t>(period, 1) * period : Tile<Q>::kSize;
  parallel_for(pool, layout.size(), kElementwiseGrain, [&](size_t begin, size_t end) {
    if (!short_runs) {
      for_each_run(
          layout, begin, end,
          [&](size_t at, size_t count, size_t n, size_t s) { runs(at, count, n, scale + s, zero_point + s); },
          [&](size_t at, size_t n, size_t s) { each(at, n, scale + s, zero_point + s); });
      return;
    }
    Tile<Q> tile;
    for (size_t at = begin; at < end; at += step) {
      const size_t n = std::min(step, end - at);
      if (!periodic || at == begin) tile.fill(layout, at, n, scale, zero_point);
      each(at, n, tile.scale, tile.zero_point);
    }
  });
}

}  // namespace

template <class Q>
void quantize_linear(const float* x, Q* y, const ScaleLayout& layout, const float* scale, const Q* zero_point,
                     CodeRange range, const Pool& pool) {
  const LinearKernels<Q>& k = kernels_of<Q>(active());
  std::vector<Q> zeros;
  drive(
      layout, scale, zero_points(zero_point, layout.scales(), zeros), pool,
      [&](size_t at, size_t runs, size_t n, const float* s, const Q* z) {
        k.quantize_linear(x + at, y + at, runs, n, s, z, range.qmin, range.qmax);
      },
      [&](size_t at, size_t n, const float* s, const Q* z) {
        k.quantize_linear_channels(x + at, y + at, n, s, z, range.qmin, range.qmax);
      });
}

template <class Q>
void dequantize_linear(const Q* x, float* y, const ScaleLayout& layout, const float* scale, const Q* zero_point,
                       const Pool& pool) {
  const LinearKernels<Q>& k = kernels_of<Q>(active());
  std::vector<Q> zeros;
  drive(
      layout, scale, zero_points(zero_point, layout.scales(), zeros), pool,
      [&](size_t at, size_t runs, size_t n, const float* s, const Q* z) {
        k.dequantize_linear(x + at, y + at, runs, n, s, z);
      },
      [&](size_t at, size_t n, const float* s, const Q* z) { k.dequantize_linear_channels(x + at, y + at, n, s, z); });
}

template <class Q>
void fake_quantize_linear(const float* x, float* y, const ScaleLayout& layout, const float* scale, const Q* zero_point,
                          CodeRange range, const Pool& pool) {
  const LinearKernels<Q>& k = kernels_of<Q>(active());
  std::vector<Q> zeros;
  drive(
      layout, scale, zero_points(zero_point, layout.scales(), zeros), pool,
      [&](size_t at, size_t runs, size_t n, const float* s, const Q* z) {
        k.fake_quantize_linear(x + at, y + at, runs, n, s, z, range.qmin, range.qmax);
      },
      [&](size_t at, size_t n, const float* s, const Q* z) {
        k.fake_quantize_linear_channels(x + at, y + at, n, s, z, range.qmin, range.qmax);
      });
}

// The types that exist; a template function is exported only where it is instantiated.
#define QF_INSTANTIATE_LINEAR(Q)                                                                                 \
  template QUARKFAST_API void quantize_linear<Q>(const float*, Q*, const ScaleLayout&, const float*, const Q*,   \
                                                 CodeRange, const Pool&);                                        \
  template QUARKFAST_API void dequantize_linear<Q>(const Q*, float*, const ScaleLayout&, const float*, const Q*, \
                                                   const Pool&);                                                 \
  template QUARKFAST_API void fake_quantize_linear<Q>(const float*, float*, const ScaleLayout&, const float*,    \
                                                      const Q*, CodeRange, const Pool&);
QF_INSTANTIATE_LINEAR(i2)
QF_INSTANTIATE_LINEAR(u2)
QF_INSTANTIATE_LINEAR(i4)
QF_INSTANTIATE_LINEAR(u4)
QF_INSTANTIATE_LINEAR(int8_t)
QF_INSTANTIATE_LINEAR(uint8_t)
QF_INSTANTIATE_LINEAR(int16_t)
QF_INSTANTIATE_LINEAR(uint16_t)
QF_INSTANTIATE_LINEAR(int32_t)
QF_INSTANTIATE_LINEAR(uint32_t)
#undef QF_INSTANTIATE_LINEAR

}  // namespace quarkfast
