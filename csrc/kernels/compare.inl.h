// How far two arrays of float32 are apart: sums of one channel or of several side by side (docs/operators.md, Compare).
//
// Elements of one channel go to so many lanes in turn, so that sums are the same whatever the instruction set; lanes
// stay in registers. A difference that is infinite or NaN makes the noise so, for no square of a float32 is too large
// for a double: only then are elements looked at one by one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace quarkfast::QF_ISA {
namespace {

constexpr size_t kComparedLanes = 16;  // a cache line of float32

inline bool is_finite(double x) {
  return x - x == 0;
}

// Adds one element. Values that are finite in one of the two alone, or NaN, count in `odd` and nowhere else.
inline void add_compared(ComparedSums& sums, float reference, float value, double limit) {
  const double wide = reference, y = value, difference = wide - y;
  if (!is_finite(difference)) {
    sums.odd += reference != value ? 1 : 0;
    return;
  }
  sums.signal += wide * wide;
  sums.noise += difference * difference;
  sums.low = y < sums.low ? y : sums.low;
  sums.high = y > sums.high ? y : sums.high;
  sums.beyond += difference > limit || difference < -limit ? 1 : 0;
  sums.count += 1;
}

// Sums of so many elements or channels, each field by itself, so that several are added at once.
struct ComparedLanes {
  double signal[kComparedLanes], noise[kComparedLanes], beyond[kComparedLanes];
  float low[kComparedLanes], high[kComparedLanes];

  ComparedLanes() {
    for (size_t lane = 0; lane < kComparedLanes; ++lane) {
      signal[lane] = noise[lane] = beyond[lane] = 0;
      low[lane] = std::numeric_limits<float>::infinity();
      high[lane] = -std::numeric_limits<float>::infinity();
    }
  }

  // Counts what lies beyond a limit only where something can.
  template <bool kLimited>
  void add(size_t lane, float reference, float y, double limit) {
    const double wide = reference, difference = wide - static_cast<double>(y);
    signal[lane] += wide * wide;
    noise[lane] += difference * difference;
    if constexpr (kLimited) {
      const double distance = difference < 0 ? -difference : difference;
      beyond[lane] += distance > limit ? 1.0 : 0.0;
    }
    low[lane] = y < low[lane] ? y : low[lane];
    high[lane] = y > high[lane] ? y : high[lane];
  }

  void fold(size_t lane, size_t other) {
    signal[lane] += signal[other];
    noise[lane] += noise[other];
    beyond[lane] += beyond[other];
    low[lane] = low[other] < low[lane] ? low[other] : low[lane];
    high[lane] = high[other] > high[lane] ? high[other] : high[lane];
  }

  void add_to(ComparedSums& sums, size_t lane, size_t count) const {
    sums.signal += signal[lane];
    sums.noise += noise[lane];
    sums.low = low[lane] < sums.low ? low[lane] : sums.low;
    sums.high = high[lane] > sums.high ? high[lane] : sums.high;
    sums.beyond += beyond[lane];
    sums.count += static_cast<double>(count);
  }
};

// `n` <= kComparedLanes channels, element j of channel i at x[j * stride + i].
template <bool kLimited, class Count>
inline ComparedLanes sum_columns(const float* reference, const float* value, size_t rows, size_t stride, Count n,
                                 double limit) {
  ComparedLanes lanes;
  for (size_t row = 0; row < rows; ++row) {
    for (size_t lane = 0; lane < n; ++lane) {
      lanes.add<kLimited>(lane, reference[row * stride + lane], value[row * stride + lane], limit);
    }
  }
  return lanes;
}

// A number of lanes that is known when this is compiled.
struct AllLanes {
  constexpr operator size_t() const { return kComparedLanes; }
};

template <bool kLimited>
inline ComparedLanes sum_run(const float* reference, const float* value, size_t n, double limit) {
  const size_t whole = n - n % kComparedLanes;
  ComparedLanes lanes = sum_columns<kLimited>(reference, value, n / kComparedLanes, kComparedLanes, AllLanes{}, limit);
  for (size_t at = whole; at < n; ++at) lanes.add<kLimited>(at - whole, reference[at], value[at], limit);
  for (size_t half = kComparedLanes / 2; half > 0; half /= 2) {
    for (size_t lane = 0; lane < half; ++lane) lanes.fold(lane, lane + half);
  }
  return lanes;
}

void compare_f32(const float* reference, const float* value, size_t n, double limit, ComparedSums* sums) {
  const ComparedLanes lanes =
      is_finite(limit) ? sum_run<true>(reference, value, n, limit) : sum_run<false>(reference, value, n, limit);
  if (is_finite(lanes.noise[0])) {
    lanes.add_to(*sums, 0, n);
    return;
  }
  for (size_t at = 0; at < n; ++at) add_compared(*sums, reference[at], value[at], limit);
}

template <class Count>
inline void compare_tile(const float* reference, const float* value, size_t rows, size_t stride, Count n, double limit,
                         ComparedSums* sums) {
  const ComparedLanes lanes = is_finite(limit) ? sum_columns<true>(reference, value, rows, stride, n, limit)
                                               : sum_columns<false>(reference, value, rows, stride, n, limit);
  for (size_t lane = 0; lane < n; ++lane) {
    if (is_finite(lanes.noise[lane])) {
      lanes.add_to(sums[lane], lane, rows);
      continue;
    }
    for (size_t row = 0; row < rows; ++row) {
      add_compared(sums[lane], reference[row * stride + lane], value[row * stride + lane], limit);
    }
  }
}

void compare_channels_f32(const float* reference, const float* value, size_t rows, size_t channels, double limit,
                          ComparedSums* sums) {
  size_t first = 0;
  for (; first + kComparedLanes <= channels; first += kComparedLanes) {
    compare_tile(reference + first, value + first, rows, channels, AllLanes{}, limit, sums + first);
  }
  if (first < channels) {
    compare_tile(reference + first, value + first, rows, channels, channels - first, limit, sums + first);
  }
}

}  // namespace
}  // namespace quarkfast::QF_ISA
