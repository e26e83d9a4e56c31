// The inputs that ExtendedQuantizeLinear and ExtendedDequantizeLinear share: x, scale, zero_point, and the axis.
#pragma once

#include "ort/node.h"
#include "tensor/scale_layout.h"

namespace quarkfast::ort {

class LinearInputs {
 public:
  explicit LinearInputs(const Node& node);

  // Rejects, when the session is created, what can already be seen then: constant scales and zero points that are
  // wrong in themselves or do not fit each other.
  template <class Q>
  void check_constants(const Node& node) const {
    const In<F32> scale = node.constant<F32>(1);
    const In<Q> zero_point = node.constant<Q>(2);
    if (scale.data != nullptr) check_scale(scale);
    if (scale.data != nullptr && zero_point.data != nullptr) check_zero_point(scale.shape, zero_point.shape);
  }

  // Which scale belongs to which element of x.
  template <class Q>
  ScaleLayout layout(const Shape& x, const In<F32>& scale, const In<Q>& zero_point) const {
    check_scale(scale);
    check_zero_point(scale.shape, zero_point.shape);
    return layout(x, scale.shape);
  }

 private:
  static void check_scale(const In<F32>& scale);
  static void check_zero_point(const Shape& scale, const Shape& zero_point);
  ScaleLayout layout(const Shape& x, const Shape& scale) const;

  int64_t axis_;
};

}  // namespace quarkfast::ort
