// The bidirectional LSTM of a 16-bit fixed-point NPU (docs/numerics.md, "LSTM"): inputs, weights and states quantized
// to 16 bits, accumulations with 24 fractional bits, gates in float32. The operators call this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/parallel.h"

namespace quarkfast {

// value = (code - zero_point) * scale, with codes of 16 bits moved from [0, 65535] to [-32768, 32767].
struct LstmScale {
  float scale;
  int16_t zero_point;
};

struct LstmScales {
  LstmScale x, w, r, b, y;
};

struct LstmShape {
  size_t steps, batch, inputs, hidden;
};

// x * 2^shift rounded to 16 bits, and the shift that takes it back.
struct FixedPoint {
  int16_t value;
  int shift;
};

// The factors of the fixed-point accumulation, derived from the scales.
struct LstmFactors {
  FixedPoint x, h;                // x.scale * w.scale and y.scale * r.scale, with 24 fractional bits
  FixedPoint x_offset, h_offset;  // the same times the zero point of the weights
  uint16_t output;                // 1 / y.scale, scaled by 2^(output_shift - 24)
  int output_shift;
  int16_t output_zero_point;
};

LstmFactors lstm_factors(const LstmScales& scales);

// Whether the factors' shifts stay within the accumulators; scales of trained networks are far from these limits.
bool fits(const LstmFactors& factors, size_t inputs, size_t hidden);

// One direction's weights, quantized and turned: w is (inputs, 4 * hidden), r is (hidden, 4 * hidden), bias is
// (4 * hidden) and holds everything of a gate that does not depend on the data. Gates are in ONNX's order: input,
// output, forget, cell. The constructor takes ONNX's layout: w (4 * hidden, inputs), r (4 * hidden, hidden), b (8 *
// hidden).
class LstmWeights {
 public:
  LstmWeights(const float* w, const float* r, const float* b, size_t inputs, size_t hidden, const LstmScales& scales);

  std::vector<int16_t> w, r;
  std::vector<int32_t> bias;
};

// x has shape (steps, batch, inputs), y has shape (steps, 2, batch, hidden).
void lstm(const float* x, float* y, const LstmShape& shape, const LstmWeights (&directions)[2],
          const LstmScales& scales, const Pool& pool);

}  // namespace quarkfast
