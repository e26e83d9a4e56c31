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
    if (!outer_stride && !axis_stride && !inner_stride) return 1;
    const size_t blocks = (axis + block - 1) / block;
    return outer_stride ? outer * blocks * inner : blocks;
  }
};

// Cuts elements [begin, end) into maximal contiguous runs: one(offset, n, scale_index) where a run shares a scale,
// each(offset, n, scale_index) where element i of the run uses scale scale_index + i.
template <class One, class Each>
void for_each_run(const ScaleLayout& layout, size_t begin, size_t end, One&& one, Each&& each) {
  // Rows of `inner` elements; with inner == 1 neighbouring rows join along the axis.
  const bool flat = layout.inner == 1;
  const bool vector = flat ? layout.block == 1 && layout.axis_stride == 1 : layout.inner_stride == 1;
  for (size_t at = begin; at < end;) {
    const size_t row = at / layout.inner, i = at % layout.inner;
    const size_t o = row / layout.axis, a = row % layout.axis;
    size_t run;
    if (!flat) {
      run = layout.inner - i;
    } else if (vector) {
      run = layout.axis - a;
    } else {
      run = std::min(layout.block - a % layout.block, layout.axis - a);
    }
    run = std::min(run, end - at);
    const size_t scale = o * layout.outer_stride + a / layout.block * layout.axis_stride + i * layout.inner_stride;
    vector ? each(at, run, scale) : one(at, run, scale);
    at += run;
  }
}

}  // namespace quarkfast
