#include "tensor/stochastic.h"

#include <algorithm>
#include <array>

#include "numerics/stochastic.h"
#include "runtime/dispatch.h"
#include "tensor/elementwise.h"

namespace quarkfast {

namespace {

constexpr size_t kPiece = 2048;  // 8 KiB of whole numbers stay in the first-level cache

constexpr std::array<float, kPiece> ones() {
  std::array<float, kPiece> values{};
  values.fill(1.0f);
  return values;
}
constexpr std::array<float, kPiece> kOnes = ones();

// The kernel rounds to whole numbers, and linear quantization with scales of 1 saturates them.
template <class Q>
struct Rounder {
  const Kernels& all;
  const LinearKernels<Q>& k;
  const float* x;
  Q* y;
  const float* scale;
  const Q* zero_point;
  CodeRange range;
  uint64_t key;

  // n <= kPiece elements of one channel.
  void run(size_t at, size_t n, size_t channel) const {
    float whole[kPiece];
    const Q zero = zero_point ? zero_point[channel] : Q{};
    all.round_stochastic_f32(x + at, whole, n, scale + channel, false, key, at);
    k.quantize_linear(whole, y + at, 1, n, kOnes.data(), &zero, range.qmin, range.qmax);
  }

  // n <= kPiece elements of consecutive channels.
  void channels(size_t at, size_t n, size_t first) const {
    float whole[kPiece];
    const Q none[kPiece] = {};
    all.round_stochastic_f32(x + at, whole, n, scale + first, true, key, at);
    k.quantize_linear_channels(whole, y + at, n, kOnes.data(), zero_point ? zero_point + first : none, range.qmin,
                               range.qmax);
  }
};

template <class Q>
const LinearKernels<Q>& linear_of(const Kernels& k);
template <>
const LinearKernels<i4>& linear_of(const Kernels& k) {
  return k.i4;
}
template <>
const LinearKernels<u4>& linear_of(const Kernels& k) {
  return k.u4;
}
template <>
const LinearKernels<int8_t>& linear_of(const Kernels& k) {
  return k.i8;
}
template <>
const LinearKernels<uint8_t>& linear_of(const Kernels& k) {
  return k.u8;
}
template <>
const LinearKernels<int16_t>& linear_of(const Kernels& k) {
  return k.i16;
}
template <>
const LinearKernels<uint16_t>& linear_of(const Kernels& k) {
  return k.u16;
}

}  // namespace

template <class Q>
void quantize_linear_stochastic(const float* x, Q* y, const ChannelLayout& layout, const float* scale,
                                const Q* zero_point, CodeRange range, uint64_t seed, const Pool& pool) {
  const Kernels& all = active();
  const Rounder<Q> rounder{all, linear_of<Q>(all), x, y, scale, zero_point, range, stochastic_key(seed)};
  const bool side_by_side = layout.inner == 1 && layout.channels > 1;
  const size_t run = side_by_side ? layout.channels : layout.inner;
  parallel_for(pool, layout.size(), kElementwiseGrain, [&](size_t begin, size_t end) {
    for (size_t at = begin; at < end;) {
      const size_t within = at % run, n = std::min({kPiece, run - within, end - at});
      if (side_by_side) {
        rounder.channels(at, n, within);
      } else {
        rounder.run(at, n, at / run % layout.channels);
      }
      at += n;
    }
  });
}

void cast_stochastic(const float* x, bf16* y, size_t n, uint64_t seed, const Pool& pool) {
  const Kernels& all = active();
  const uint64_t key = stochastic_key(seed);
  parallel_for(pool, n, kElementwiseGrain, [&](size_t begin, size_t end) {
    all.cast_stochastic_f32_bf16(x + begin, y + begin, end - begin, key, begin);
  });
}

#define QF_INSTANTIATE_STOCHASTIC(Q)                                                                           \
  template QUARKFAST_API void quantize_linear_stochastic(const float*, Q*, const ChannelLayout&, const float*, \
                                                         const Q*, CodeRange, uint64_t, const Pool&);
QF_INSTANTIATE_STOCHASTIC(i4)
QF_INSTANTIATE_STOCHASTIC(u4)
QF_INSTANTIATE_STOCHASTIC(int8_t)
QF_INSTANTIATE_STOCHASTIC(uint8_t)
QF_INSTANTIATE_STOCHASTIC(int16_t)
QF_INSTANTIATE_STOCHASTIC(uint16_t)
#undef QF_INSTANTIATE_STOCHASTIC

}  // namespace quarkfast
