#include "ort/ops/linear_inputs.h"

#include <cmath>

#include "ort/ops/axis.h"

namespace quarkfast::ort {

namespace {

// One scale for the whole tensor: a scalar or a single element.
bool is_per_tensor(const Shape& scale) {
  return scale.rank() == 0 || (scale.rank() == 1 && scale[0] == 1);
}

}  // namespace

LinearInputs::LinearInputs(const Node& node) : axis_(node.integer("axis", 0)) {
  const In<F32> scale = node.constant<F32>(1);
  const std::optional<size_t> rank = node.rank(0);
  if (scale.data != nullptr && !is_per_tensor(scale.shape) && rank) normalized_axis(axis_, *rank);
}

void LinearInputs::check_scale(const In<F32>& scale) {
  if (scale.shape.rank() > 1) throw Error{"scale: expected a scalar or a vector, got shape " + scale.shape.text()};
  for (size_t index = 0; index < scale.size; ++index) {
    const float value = scale.data[index];
    if (std::isfinite(value) && value > 0) continue;
    throw Error{"scale: expected finite values greater than 0, got " + std::to_string(value) + " at index " +
                std::to_string(index)};
  }
}

void LinearInputs::check_zero_point(const Shape& scale, const Shape& zero_point) {
  if (is_per_tensor(scale) ? is_per_tensor(zero_point) : zero_point.rank() == 1 && zero_point[0] == scale[0]) return;
  throw Error{"zero_point: expected the shape of scale, " + scale.text() + ", got " + zero_point.text()};
}

ScaleLayout LinearInputs::layout(const Shape& x, const Shape& scale) const {
  if (is_per_tensor(scale)) return ScaleLayout::per_tensor(x.size());
  const size_t axis = normalized_axis(axis_, x.rank());
  if (x[axis] != scale[0]) {
    throw Error{"scale: expected " + std::to_string(x[axis]) + " values, one for each index along axis " +
                std::to_string(axis_) + " of x " + x.text() + ", got " + std::to_string(scale[0])};
  }
  return ScaleLayout::per_channel(x.product(0, axis), static_cast<size_t>(x[axis]), x.product(axis + 1, x.rank()));
}

}  // namespace quarkfast::ort
