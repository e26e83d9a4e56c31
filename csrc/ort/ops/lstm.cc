// ExtendedLSTM (VitisLSTM): a bidirectional LSTM in 16-bit fixed point. docs/operators.md has the details.
#include "tensor/lstm.h"

#include <cmath>
#include <memory>

#include "ort/ops/ops.h"

namespace quarkfast::ort {

namespace {

void require_value(const Node& node, const char* attribute, int64_t expected) {
  const int64_t value = node.integer(attribute, expected);
  if (value == expected) return;
  throw Error{std::string("attribute '") + attribute + "': expected " + std::to_string(expected) + ", got " +
                  std::to_string(value),
              ORT_NOT_IMPLEMENTED};
}

void require_shape(const char* input, const Shape& shape, const Shape& expected) {
  if (std::ranges::equal(shape.dims(), expected.dims())) return;
  throw Error{std::string(input) + ": expected shape " + expected.text() + ", got " + shape.text()};
}

// <name>_scale and <name>_zero_point.
LstmScale read_scale(const Node& node, const std::string& name) {
  const float scale = node.real((name + "_scale").c_str());
  const int64_t zero_point = node.integer((name + "_zero_point").c_str());
  if (!(std::isfinite(scale) && scale > 0)) {
    throw Error{"attribute '" + name + "_scale': expected a finite value greater than 0, got " + std::to_string(scale)};
  }
  if (zero_point < 0 || zero_point > 65535) {
    throw Error{"attribute '" + name + "_zero_point': expected 0 to 65535, got " + std::to_string(zero_point)};
  }
  return {scale, static_cast<int16_t>(zero_point - 32768)};
}

class Lstm {
 public:
  explicit Lstm(const Node& node)
      : hidden_(node.integer("hidden_size")),
        scales_{read_scale(node, "x"), read_scale(node, "w"), read_scale(node, "r"), read_scale(node, "b"),
                read_scale(node, "y")} {
    if (hidden_ < 1) throw Error{"attribute 'hidden_size': expected 1 or more, got " + std::to_string(hidden_)};
    require_value(node, "input_forget", 0);
    require_value(node, "layout", 0);
    const std::string direction = node.text("direction", "bidirectional");
    if (direction != "bidirectional") {
      throw Error{"attribute 'direction': expected 'bidirectional', got '" + direction + "'", ORT_NOT_IMPLEMENTED};
    }
    const In<F32> w = node.constant<F32>(1), r = node.constant<F32>(2), b = node.constant<F32>(3);
    if (w.data != nullptr && r.data != nullptr && b.data != nullptr) weights_ = quantized(w, r, b);
  }

  void operator()(const Run& run, In<F32> x, In<F32> w, In<F32> r, In<F32> b, Out<F32> y) const {
    if (x.shape.rank() != 3) {
      throw Error{"x: expected 3 dimensions, steps, batch and inputs, got " + std::to_string(x.shape.rank())};
    }
    require_shape("w", w.shape, Shape({{2, 4 * hidden_, x.shape[2]}}));
    const LstmShape shape{static_cast<size_t>(x.shape[0]), static_cast<size_t>(x.shape[1]),
                          static_cast<size_t>(x.shape[2]), static_cast<size_t>(hidden_)};
    float* out = y.allocate(Shape({{x.shape[0], 2, x.shape[1], hidden_}}));
    // Weights that are computed while the model runs are quantized anew in each run.
    const std::shared_ptr<const Directions> weights = weights_ ? weights_ : quantized(w, r, b);
    lstm(x.data, out, shape, weights->of, scales_, run.pool());
  }

 private:
  struct Directions {
    LstmWeights of[2];
  };

  std::shared_ptr<const Directions> quantized(const In<F32>& w, const In<F32>& r, const In<F32>& b) const {
    if (w.shape.rank() != 3 || w.shape[2] < 1) {
      throw Error{"w: expected shape (2, 4 * hidden_size, inputs) with 1 or more inputs, got " + w.shape.text()};
    }
    require_shape("w", w.shape, Shape({{2, 4 * hidden_, w.shape[2]}}));
    require_shape("r", r.shape, Shape({{2, 4 * hidden_, hidden_}}));
    require_shape("b", b.shape, Shape({{2, 8 * hidden_}}));
    const auto inputs = static_cast<size_t>(w.shape[2]), hidden = static_cast<size_t>(hidden_);
    if (!fits(lstm_factors(scales_), inputs, hidden)) {
      throw Error{
          "attributes '..._scale': expected products that fit 24 fractional bits, got values too large or small"};
    }
    return std::make_shared<const Directions>(
        Directions{{LstmWeights(w.data, r.data, b.data, inputs, hidden, scales_),
                    LstmWeights(w.data + 4 * hidden * inputs, r.data + 4 * hidden * hidden, b.data + 8 * hidden, inputs,
                                hidden, scales_)}});
  }

  int64_t hidden_;
  LstmScales scales_;
  std::shared_ptr<const Directions> weights_;
};

}  // namespace

void add_lstm(Definitions& definitions, const OrtApi* api) {
  add_quark<Lstm>(definitions, api, "ExtendedLSTM", "VitisLSTM");
}

}  // namespace quarkfast::ort
