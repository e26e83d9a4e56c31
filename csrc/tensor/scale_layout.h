// Which scale belongs to which element, and how an array falls into runs that one kernel call can handle.
#pragma once

#include <algorithm>
#include <cstddef>

namespace quarkfast {

// A C-contiguous array seen as [outer, axis, inner]. Element (o, a, i) uses scale
// o * outer_stride + (a / block) * axis_stride + i * inner_stride, where inner_stride is 0 or 1.
struct ScaleLayout {
  size_t outer = 1, axis = 1, inner = 1;
  size_t block = 1;
  size_t outer_stride = 0, axis_stride = 0, inner_stride = 0;

  size_t size() const { return outer * axis * inner; }

  // One scale for everything.
  static ScaleLayout per_tensor(size_t n) { return {.axis = n, .block = std::max<size_t>(n, 1)}; }

  // One scale for each index along the axis.
  static ScaleLayout per_channel(size_t outer, size_t axis, size_t inner) {
    return {.outer = outer, .axis = axis, .inner = inner, .axis_stride = 1};
  }

  // One scale for each block of elements along the axis: scales have shape [outer, ceil(axis / block), inner], as in
  // ONNX QuantizeLinear-21. The last block may be short.
  static ScaleLayout per_block(size_t outer, size_t axis, size_t inner, size_t block) {
    const size_t blocks = (axis + block - 1) / block;
    return {.outer = outer,
            .axis = axis,
            .inner = inner,
            .block = block,
            .outer_stride = blocks * inner,
            .axis_stride = inner,
            .inner_stride = 1};
  }

  // Number of scales that the layout addresses.
  size_t scales() const {
    const size_t blocks = (axis + block - 1) / block;
    if (inner_stride) return outer * blocks * inner;  // per block, also where a stride is 0 because inner is
    return axis_stride ? blocks : 1;
  }

  // True where neighbouring elements have neighbouring scales; false where runs of elements share one.
  bool scales_alternate() const { return inner == 1 ? block == 1 && axis_stride == 1 : inner_stride == 1; }

  // Elements in a row without a jump: that share a scale, or whose scales are neighbours.
  size_t run() const { return inner > 1 ? inner : scales_alternate() ? axis : block; }
};

// Cuts elements [begin, end) into contiguous pieces, each as long as the layout allows:
// runs(offset, count, n, s): count runs of n elements, the first with scale s, the next with s + 1 and so on;
// each(offset, n, s): n elements, the first with scale s, the next with s + 1 and so on.
template <class Runs, class Each>
void for_each_run(const ScaleLayout& layout, size_t begin, size_t end, Runs&& runs, Each&& each) {
  const size_t row = layout.axis * layout.inner, run = layout.run();
  const bool alternate = layout.scales_alternate();
  for (size_t at = begin; at < end;) {
    const size_t o = at / row, in_row = at % row, left = std::min(row - in_row, end - at);
    const size_t index = in_row / run, skipped = in_row % run;
    const size_t first = o * layout.outer_stride;
    const size_t n = std::min(run - skipped, left);
    size_t count = 1;
    if (alternate) {
      each(at, n, first + index / layout.block * layout.axis_stride + skipped);
    } else {
      if (n == run) count = left / run;  // as many whole runs as the row has left
      runs(at, count, n, first + index);
    }
    at += count * n;
  }
}

}  // namespace quarkfast
