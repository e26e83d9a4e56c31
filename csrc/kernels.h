// The contract of the kernels: one function pointer each, filled once per instruction set by kernels/kernels.cc.
//
// All kernels take plain pointers and a count, work in one thread, allocate nothing and cannot fail; arguments are
// checked by the caller. No alignment is assumed. y may equal x where both have the same element size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "numerics/block_formats.h"
#include "numerics/fp4.h"
#include "numerics/gguf_blocks.h"
#include "numerics/histogram.h"
#include "numerics/moments.h"
#include "numerics/order.h"
#include "numerics/range.h"
#include "numerics/small_floats.h"
#include "numerics/types.h"

namespace quarkfast {

// The linear kernels of one quantized type Q (named i2, u2, i4, u4, i8, u8, i16, u16, i32, u32 in Kernels). The plain
// ones take `runs` runs of n elements, one after the other; run r uses scale[r] and zero_point[r]. The ones on channels
// take n elements; element i uses scale[i] and zero_point[i]. Scales are finite and > 0, those of quantize_linear not
// 0; zero points are within [qmin, qmax] and that within the type.
template <class Q>
struct LinearKernels {
  // y = saturate(round_half_to_even(x / scale) + zero_point, qmin, qmax); NaN gives qmin.
  void (*quantize_linear)(const float* x, Q* y, size_t runs, size_t n, const float* scale, const Q* zero_point,
                          int64_t qmin, int64_t qmax);
  void (*quantize_linear_channels)(const float* x, Q* y, size_t n, const float* scale, const Q* zero_point,
                                   int64_t qmin, int64_t qmax);
  // y = float32(x - zero_point) * scale.
  void (*dequantize_linear)(const Q* x, float* y, size_t runs, size_t n, const float* scale, const Q* zero_point);
  void (*dequantize_linear_channels)(const Q* x, float* y, size_t n, const float* scale, const Q* zero_point);
  // dequantize_linear(quantize_linear(x)) without the codes in between.
  void (*fake_quantize_linear)(const float* x, float* y, size_t runs, size_t n, const float* scale, const Q* zero_point,
                               int64_t qmin, int64_t qmax);
  void (*fake_quantize_linear_channels)(const float* x, float* y, size_t n, const float* scale, const Q* zero_point,
                                        int64_t qmin, int64_t qmax);
};

// Requantization of 32-bit sums by a float scale (Factor = float) or by a shift (Factor = int32_t, 0 to 31). `runs` and
// `channels` stand to each other as quantize_linear and quantize_linear_channels; zero points and code range as there.
template <class Factor, class Q>
struct RequantizeBy {
  void (*runs)(const int32_t* x, Q* y, size_t runs, size_t n, const Factor* factor, const Q* zero_point, int64_t qmin,
               int64_t qmax);
  void (*channels)(const int32_t* x, Q* y, size_t n, const Factor* factor, const Q* zero_point, int64_t qmin,
                   int64_t qmax);
};
template <class Q>
struct RequantizeKernels {
  // y = saturate(round_half_to_even(float32(x) * scale) + zero_point, qmin, qmax).
  RequantizeBy<float, Q> requantize_linear;
  // y = saturate(round(x / 2^shift) + zero_point, qmin, qmax), exact; halves go up, or to even.
  RequantizeBy<int32_t, Q> requantize_shift_half_up;
  RequantizeBy<int32_t, Q> requantize_shift_half_even;
};

// Packing of 2-, 3- or 4-bit codes (named p2, p3, p4 in Kernels): code i takes bits [i * b, (i + 1) * b) of a
// little-endian stream of bits, so the first code of a byte sits in its low bits. n counts codes; the last byte is
// filled with zero bits. Of 4 and 2 bits this is ONNX's order.
struct PackKernels {
  // Return whether every code fits b bits; those that do not are cut to their low bits.
  bool (*pack_codes_i8)(const int8_t* x, uint8_t* y, size_t n);
  bool (*pack_codes_u8)(const uint8_t* x, uint8_t* y, size_t n);
  // Signed codes are extended to eight bits.
  void (*unpack_codes_i8)(const uint8_t* x, int8_t* y, size_t n);
  void (*unpack_codes_u8)(const uint8_t* x, uint8_t* y, size_t n);
};

// What instance normalization learns from an instance, and what it needs to normalize one.
struct InstanceMoments {
  float mean, variance;
};
struct InstanceNormalization {
  float mean, inverse_deviation, gamma, beta;
};

// What Compare sums up of two arrays: one row of its output (docs/operators.md).
struct ComparedSums {
  double signal = 0, noise = 0;
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  double beyond = 0, count = 0, odd = 0;
};

// The statistics of tensors of one float type T (named stats_f32, stats_f16, stats_bf16 in Kernels).
template <class T>
struct StatisticsKernels {
  // Merges the range of x into r.
  void (*reduce_range)(const T* x, size_t n, Range* r);
  // Merges the range of n <= kHistogramBlock values into an empty r and counts their bins into empty counters. The
  // exponent starts at the one that c has, best that of the histogram to fold into, and grows where it must.
  void (*count_histogram)(const T* x, size_t n, Range* r, HistogramCounters* c);
  // Adds n <= kMomentsBlock values to fresh sums.
  void (*sum_moments)(const T* x, size_t n, ExponentSums* sums);
  // *top = max(*top, largest finite magnitude of x).
  void (*reduce_absmax)(const T* x, size_t n, float* top);
  // top[i] = max(top[i], |x[i]|) where x[i] is finite.
  void (*reduce_absmax_channels)(const T* x, size_t n, float* top);
  // Of each of `runs` runs of n elements: low[r] = min(low[r], least key), high[r] = max(high[r], greatest key).
  void (*reduce_extremes)(const T* x, size_t runs, size_t n, OrderKey<T>* low, OrderKey<T>* high);
  // The same of each of n columns: row j begins at x[j * stride].
  void (*reduce_extremes_channels)(const T* x, size_t rows, size_t stride, size_t n, OrderKey<T>* low,
                                   OrderKey<T>* high);
};

// The kernels of one family of block formats, P being BfpParams, BfpPrimeParams or MxParams (named bfp, bfp_prime, mx
// in Kernels). Records are p's packed storage, record_bytes(p) each.
template <class P>
struct BlockKernels {
  // n elements in consecutive blocks of p.block, the last of which may be short; y may be x.
  void (*fake_quantize)(const float* x, float* y, size_t n, const P& p);
  // `columns` blocks side by side, each `rows` <= p.block long: element j of block i is x[j * stride + i], the same in
  // y.
  void (*fake_quantize_columns)(const float* x, float* y, size_t rows, size_t columns, size_t stride, const P& p);
  // Whole blocks into records and back. Of MxParams only the rule kOcp can be stored and is used whatever p says.
  void (*quantize)(const float* x, uint8_t* records, size_t blocks, const P& p);
  void (*dequantize)(const uint8_t* records, float* y, size_t blocks, const P& p);
};

// One block type of GGUF files (named q4_0 and so on in Kernels): whole blocks there and back. A block with an infinity
// or NaN gets a scale that is NaN.
struct GgufKernels {
  GgufSize size;
  void (*quantize)(const float* x, uint8_t* records, size_t blocks);
  void (*dequantize)(const uint8_t* records, float* y, size_t blocks);
};

// Casts of a float of 8 bits or fewer (named as the type in Kernels). saturate_ brings overflow and infinities to the
// largest finite value, where the plain cast gives what ml_dtypes gives.
template <class T>
struct SmallFloatKernels {
  void (*cast_from_f32)(const float* x, T* y, size_t n);
  void (*saturate_from_f32)(const float* x, T* y, size_t n);
  void (*cast_to_f32)(const T* x, float* y, size_t n);
  // There and back.
  void (*round_trip_f32)(const float* x, float* y, size_t n);
  void (*saturate_round_trip_f32)(const float* x, float* y, size_t n);
};

struct Kernels {
  const char* isa;  // the instruction set's public name

  LinearKernels<quarkfast::i2> i2;
  LinearKernels<quarkfast::u2> u2;
  LinearKernels<quarkfast::i4> i4;
  LinearKernels<quarkfast::u4> u4;
  LinearKernels<int8_t> i8;
  LinearKernels<uint8_t> u8;
  LinearKernels<int16_t> i16;
  LinearKernels<uint16_t> u16;
  LinearKernels<int32_t> i32;
  LinearKernels<uint32_t> u32;

  RequantizeKernels<int8_t> requantize_i8;
  RequantizeKernels<uint8_t> requantize_u8;

  PackKernels p2, p3, p4;
  // Pairs of 4-bit codes down the columns of rows that begin `stride` codes apart, a multiple of 16 of them:
  // y[c * pitch + i] holds x[2 * i * stride + c] in its low and x[(2 * i + 1) * stride + c] in its high bits.
  void (*pack_columns_p4)(const uint8_t* x, size_t rows, size_t columns, size_t stride, uint8_t* y, size_t pitch);
  SmallFloatKernels<quarkfast::e4m3fn> e4m3fn;
  SmallFloatKernels<quarkfast::e5m2> e5m2;
  SmallFloatKernels<quarkfast::e4m3fnuz> e4m3fnuz;
  SmallFloatKernels<quarkfast::e5m2fnuz> e5m2fnuz;
  SmallFloatKernels<quarkfast::e3m2fn> e3m2fn;
  SmallFloatKernels<quarkfast::e2m3fn> e2m3fn;
  SmallFloatKernels<quarkfast::e2m1fn> e2m1fn;
  SmallFloatKernels<quarkfast::e8m0fnu> e8m0fnu;

  BlockKernels<BfpParams> bfp;
  BlockKernels<BfpPrimeParams> bfp_prime;
  BlockKernels<MxParams> mx;

  GgufKernels q4_0, q4_1, q5_0, q5_1, q8_0, q4_k, q6_k;

  // Whole blocks of 16 or 32 values (`block`) into float4 codes, two to a byte, the first in the low half, and e8m0
  // scales, by the rule kOcp.
  void (*quantize_mxfp4_f32)(const float* x, uint8_t* codes, uint8_t* scales, size_t blocks, size_t block);
  void (*dequantize_mxfp4_f32)(const uint8_t* codes, const uint8_t* scales, float* y, size_t blocks, size_t block);
  // The same of blocks of 16 with e4m3 scales, which are multiples of tensor_scale, normal and > 0.
  void (*quantize_nvfp4_f32)(const float* x, uint8_t* codes, uint8_t* scales, size_t blocks, float tensor_scale);
  void (*dequantize_nvfp4_f32)(const uint8_t* codes, const uint8_t* scales, float* y, size_t blocks,
                               float tensor_scale);

  // y = x / scale rounded to a whole number, up with the probability of the fraction, within +-2^20; scale[i] for each
  // element, or scale[0] for all. The random numbers belong to a key and to the places first, first + 1, ...
  void (*round_stochastic_f32)(const float* x, float* y, size_t n, const float* scale, bool each, uint64_t key,
                               uint64_t first);
  void (*cast_stochastic_f32_bf16)(const float* x, bf16* y, size_t n, uint64_t key, uint64_t first);

  // float32 -> bfloat16, round half to even; finite overflow gives infinity; NaN gives the quiet NaN of the same sign.
  void (*cast_f32_bf16)(const float* x, bf16* y, size_t n);
  // bfloat16 -> float32, exact.
  void (*cast_bf16_f32)(const bf16* x, float* y, size_t n);
  // cast_bf16_f32(cast_f32_bf16(x)).
  void (*round_trip_f32_bf16)(const float* x, float* y, size_t n);

  // The same with overflow and infinities at the largest finite bfloat16.
  void (*saturate_f32_bf16)(const float* x, bf16* y, size_t n);
  void (*saturate_round_trip_f32_bf16)(const float* x, float* y, size_t n);

  // float32 -> float16, round half to even, subnormals kept; finite overflow gives infinity; NaN keeps sign and the top
  // ten payload bits and becomes quiet.
  void (*cast_f32_f16)(const float* x, f16* y, size_t n);
  // float16 -> float32, exact; a signalling NaN becomes quiet.
  void (*cast_f16_f32)(const f16* x, float* y, size_t n);
  // cast_f16_f32(cast_f32_f16(x)).
  void (*round_trip_f32_f16)(const float* x, float* y, size_t n);
  // The same with overflow and infinities at +-65504.
  void (*saturate_f32_f16)(const float* x, f16* y, size_t n);
  void (*saturate_round_trip_f32_f16)(const float* x, float* y, size_t n);

  // y = bfloat16(x / scale + zero_point), as cast_f32_bf16 rounds; scale finite and > 0, zero_point finite.
  void (*quantize_float_f32_bf16)(const float* x, bf16* y, size_t n, float scale, float zero_point);
  // y = float16(x / scale + zero_point), as cast_f32_f16 rounds, but saturating at +-65504.
  void (*quantize_float_f32_f16)(const float* x, f16* y, size_t n, float scale, float zero_point);
  // y = (float32(x) - zero_point) * scale.
  void (*dequantize_float_bf16_f32)(const bf16* x, float* y, size_t n, float scale, float zero_point);
  void (*dequantize_float_f16_f32)(const f16* x, float* y, size_t n, float scale, float zero_point);

  // The mean and variance of each of `instances` rows of n > 0 values, in the steps of a bfloat16 NPU.
  void (*instance_moments_f32)(const float* x, size_t instances, size_t n, InstanceMoments* m);
  // y = bf16(gamma * bf16(bf16(x * inverse_deviation) - bf16(mean * inverse_deviation)) + beta); y may be x.
  void (*normalize_instance_f32)(const float* x, float* y, size_t n, const InstanceNormalization& p);

  // y[j] = sum of x[i] * columns[i * count + j], exact, for j < count and i < n < 2^33.
  void (*dot_i16_i64)(const int16_t* x, const int16_t* columns, size_t count, size_t n, int64_t* y);

  // Moves n codes, `passes` times each in turn, by the whole number nearest to residual[k] / (gram[k * n + k] * scale),
  // within [low[k], high[k]], and takes from the residual what that moves: step * scale * row k of gram. A code whose
  // diagonal element is not > 0 stays. Ends early when no code of a pass moves. Limits are at most 2^32 from zero.
  void (*descend_codes_f64)(double* codes, double* residual, const double* gram, size_t n, double scale,
                            const double* low, const double* high, size_t passes);

  // Adds n elements to the sums of one channel.
  void (*compare_f32)(const float* reference, const float* value, size_t n, double limit, ComparedSums* sums);
  // Adds `rows` elements to the sums of each of `channels` channels that lie side by side.
  void (*compare_channels_f32)(const float* reference, const float* value, size_t rows, size_t channels, double limit,
                               ComparedSums* sums);

  StatisticsKernels<float> stats_f32;
  StatisticsKernels<f16> stats_f16;
  StatisticsKernels<bf16> stats_bf16;
  // Adds counters that count_histogram filled from values of range r to the counts of a histogram of the same width,
  // and empties them.
  void (*fold_histogram)(HistogramCounters* c, const Range& r, uint64_t* counts);
  // The squared error, in units of scale^2 * (scale / bin width), that codes from low to high leave of the values in
  // bins [first, last) of a histogram, both multiples of 8; a bin is `width` scales wide, zero is code 0.
  double (*quantization_error)(const double* weights, size_t first, size_t last, double width, double low, double high);
};

}  // namespace quarkfast
