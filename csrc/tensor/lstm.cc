#include "tensor/lstm.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "runtime/dispatch.h"
#include "tensor/linear.h"

namespace quarkfast {

namespace {

constexpr double kOne = 1 << 24;  // 1 with the 24 fractional bits of the accumulation

template <class To, class From>
To saturated(From value) {
  using Limits = std::numeric_limits<To>;
  return static_cast<To>(std::clamp<From>(value, Limits::min(), Limits::max()));
}

// Half away from zero, but values in (-1, -0.5] give 0: so the hardware model that Quark follows rounds.
int64_t rounded(double value) {
  if (value > -1) return static_cast<int64_t>(value + 0.5);
  return -static_cast<int64_t>(0.5 - value);
}

int32_t rounded_i32(double value) {
  return static_cast<int32_t>(
      rounded(std::clamp<double>(value, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max())));
}

// value / 2^shift, half away from zero.
int64_t shifted(int64_t value, int shift) {
  const int64_t half = shift == 0 ? 0 : int64_t{1} << (shift - 1);
  return value < 0 ? -((half - value) >> shift) : (half + value) >> shift;
}

int ceil_log2(double value) {
  return static_cast<int>(std::ceil(std::log2(value)));
}

int ceil_log2(size_t value) {
  return static_cast<int>(std::bit_width(value - 1));
}

FixedPoint fixed_point(double value) {
  if (value == 0) return {0, 0};
  const int shift = 15 - ceil_log2(std::fabs(value));
  const int64_t code = rounded(std::ldexp(value, shift));
  // Powers of two, and what rounds to one, need a bit less.
  if (code == 32768) return {16384, shift - 1};
  return {static_cast<int16_t>(code), shift};
}

std::vector<int16_t> quantized(const float* x, size_t n, const LstmScale& scale, const Pool& pool) {
  std::vector<int16_t> codes(n);
  quantize_linear<int16_t>(x, codes.data(), ScaleLayout::per_tensor(n), &scale.scale, &scale.zero_point,
                           {-32768, 32767}, pool);
  return codes;
}

// Quantizes a matrix of `rows` rows of n values and turns it, as dot_i16_i64 reads it.
std::vector<int16_t> quantized_columns(const float* x, size_t rows, size_t n, const LstmScale& scale) {
  const std::vector<int16_t> codes = quantized(x, rows * n, scale, serial_pool());
  std::vector<int16_t> columns(rows * n);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t i = 0; i < n; ++i) columns[i * rows + row] = codes[row * n + i];
  }
  return columns;
}

double column_sum(const std::vector<int16_t>& codes, size_t column, size_t columns) {
  double sum = 0;
  for (size_t at = column; at < codes.size(); at += columns) sum += codes[at];
  return sum;
}

// What a step needs besides the weights.
struct Gates {
  std::vector<int64_t> sums;
  std::vector<int32_t> from_x, from_h;
  explicit Gates(size_t hidden) : sums(4 * hidden), from_x(4 * hidden), from_h(4 * hidden) {}
};

// Codes of one vector times a matrix, scaled to 24 fractional bits.
void project(const int16_t* codes, const std::vector<int16_t>& columns, size_t n, FixedPoint factor, Gates& gates,
             std::vector<int32_t>& out) {
  const int first = ceil_log2(n);
  active().dot_i16_i64(codes, columns.data(), out.size(), n, gates.sums.data());
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t sum = saturated<int32_t>(shifted(gates.sums[i], first));
    out[i] = saturated<int32_t>(shifted(sum * factor.value, factor.shift - first));
  }
}

// The sum of the codes times the zero point of the weights.
int32_t offset(const int16_t* codes, size_t n, FixedPoint factor) {
  int64_t sum = 0;
  for (size_t i = 0; i < n; ++i) sum += codes[i];
  return saturated<int32_t>(shifted(sum * factor.value, factor.shift));
}

float sigmoid(int32_t gate) {
  const float half = static_cast<float>(gate / (2 * kOne));
  return static_cast<float>(std::tanh(half) * 0.5 + 0.5);
}

// One direction of one sequence.
class Cell {
 public:
  Cell(const LstmWeights& weights, const LstmFactors& factors, size_t inputs, size_t hidden)
      : weights_(weights),
        factors_(factors),
        inputs_(inputs),
        hidden_(hidden),
        gates_(hidden),
        h_(hidden, factors.output_zero_point),
        c_(hidden, 0.0f) {}

  const std::vector<int16_t>& step(const int16_t* x) {
    project(x, weights_.w, inputs_, factors_.x, gates_, gates_.from_x);
    project(h_.data(), weights_.r, hidden_, factors_.h, gates_, gates_.from_h);
    const int32_t offsets =
        wrapped(offset(x, inputs_, factors_.x_offset), offset(h_.data(), hidden_, factors_.h_offset));
    for (size_t i = 0; i < hidden_; ++i) {
      const float in = sigmoid(gate(i, offsets)), out = sigmoid(gate(i + hidden_, offsets));
      const float forget = sigmoid(gate(i + 2 * hidden_, offsets));
      const float cell = std::tanh(static_cast<float>(gate(i + 3 * hidden_, offsets) / kOne));
      c_[i] = in * cell + forget * c_[i];
      next_h(i, out * std::tanh(c_[i]));
    }
    return h_;
  }

 private:
  // 32-bit sums wrap around, as the accumulator does.
  static int32_t wrapped(int64_t a, int64_t b) { return static_cast<int32_t>(static_cast<uint32_t>(a + b)); }

  int32_t gate(size_t i, int32_t offsets) const {
    const int64_t data = int64_t{gates_.from_x[i]} + gates_.from_h[i];
    return wrapped(data - offsets, weights_.bias[i]);
  }

  void next_h(size_t i, float h) {
    const int64_t code = int64_t{rounded_i32(h * kOne)} * factors_.output;
    const int64_t zero = int64_t{factors_.output_zero_point} * (int64_t{1} << factors_.output_shift);
    h_[i] = saturated<int16_t>(shifted(code + zero, factors_.output_shift));
  }

  const LstmWeights& weights_;
  const LstmFactors& factors_;
  const size_t inputs_, hidden_;
  Gates gates_;
  std::vector<int16_t> h_;
  std::vector<float> c_;
};

}  // namespace

LstmFactors lstm_factors(const LstmScales& s) {
  const double x = static_cast<double>(s.x.scale * s.w.scale) * kOne;
  const double h = static_cast<double>(s.y.scale * s.r.scale) * kOne;
  const double output = 1.0 / static_cast<double>(s.y.scale);
  const int shift = 16 - ceil_log2(output);
  return {.x = fixed_point(x),
          .h = fixed_point(h),
          .x_offset = fixed_point(x * s.w.zero_point),
          .h_offset = fixed_point(h * s.r.zero_point),
          .output = saturated<uint16_t>(rounded(std::ldexp(output, shift))),
          .output_shift = 24 + shift,
          // Truncation: a negative zero point comes out one higher, as in Quark.
          .output_zero_point = static_cast<int16_t>(s.y.zero_point + 0.000000001)};
}

bool fits(const LstmFactors& f, size_t inputs, size_t hidden) {
  // A shift of 62 bits leaves the sign and the rounding carry; the output zero point has 16 bits of its own.
  const auto within = [](int shift, int most) { return shift >= 0 && shift <= most; };
  return within(f.x.shift - ceil_log2(inputs), 62) && within(f.h.shift - ceil_log2(hidden), 62) &&
         within(f.x_offset.shift, 62) && within(f.h_offset.shift, 62) && within(f.output_shift, 46);
}

LstmWeights::LstmWeights(const float* w_values, const float* r_values, const float* b_values, size_t inputs,
                         size_t hidden, const LstmScales& s)
    : w(quantized_columns(w_values, 4 * hidden, inputs, s.w)),
      r(quantized_columns(r_values, 4 * hidden, hidden, s.r)),
      bias(4 * hidden) {
  const std::vector<int16_t> b = quantized(b_values, 8 * hidden, s.b, serial_pool());
  const double x = static_cast<double>(s.x.scale * s.w.scale) * kOne;
  const double h = static_cast<double>(s.y.scale * s.r.scale) * kOne;
  double constant = static_cast<double>(inputs) * (x * s.w.zero_point) * s.x.zero_point;
  constant += static_cast<double>(hidden) * (h * s.r.zero_point) * s.y.zero_point;
  for (size_t row = 0; row < 4 * hidden; ++row) {
    double value = constant;
    value -= x * s.x.zero_point * column_sum(w, row, 4 * hidden);
    value -= h * s.y.zero_point * column_sum(r, row, 4 * hidden);
    value += static_cast<double>(s.b.scale) * kOne *
             (static_cast<double>(b[row]) + b[row + 4 * hidden] - 2.0 * s.b.zero_point);
    bias[row] = rounded_i32(value);
  }
}

void lstm(const float* x, float* y, const LstmShape& shape, const LstmWeights (&directions)[2],
          const LstmScales& scales, const Pool& pool) {
  const LstmFactors factors = lstm_factors(scales);
  const std::vector<int16_t> codes = quantized(x, shape.steps * shape.batch * shape.inputs, scales.x, pool);
  parallel_for(pool, 2 * shape.batch, 1, [&](size_t begin, size_t end) {
    for (size_t sequence = begin; sequence < end; ++sequence) {
      const size_t direction = sequence / shape.batch, batch = sequence % shape.batch;
      Cell cell(directions[direction], factors, shape.inputs, shape.hidden);
      for (size_t i = 0; i < shape.steps; ++i) {
        const size_t step = direction == 0 ? i : shape.steps - 1 - i;
        const std::vector<int16_t>& h = cell.step(codes.data() + (step * shape.batch + batch) * shape.inputs);
        float* out = y + ((step * 2 + direction) * shape.batch + batch) * shape.hidden;
        dequantize_linear<int16_t>(h.data(), out, ScaleLayout::per_tensor(shape.hidden), &scales.y.scale,
                                   &scales.y.zero_point, serial_pool());
      }
    }
  });
}

}  // namespace quarkfast
