#include "tensor/linear_float.h"

#include "runtime/dispatch.h"
#include "tensor/elementwise.h"

namespace quarkfast {

namespace {

float widened(const Kernels& k, const bf16& value) {
  float wide;
  k.cast_bf16_f32(&value, &wide, 1);
  return wide;
}

float widened(const Kernels& k, const f16& value) {
  float wide;
  k.cast_f16_f32(&value, &wide, 1);
  return wide;
}

// Runs `kernel` over all runs of the layout. Where neighbours have different scales it is called for each element:
// nobody quantizes to 16-bit floats with a scale per element of the last axis, so this is kept simple, not fast.
template <class X, class Y, class F>
void drive(void (*kernel)(const X*, Y*, size_t, float, float), const X* x, Y* y, const ScaleLayout& layout,
           const float* scale, const F* zero_point, const Kernels& k, const Pool& pool) {
  const auto runs = [&](size_t at, size_t count, size_t n, size_t s) {
    for (; count; --count, at += n, ++s) {
      kernel(x + at, y + at, n, scale[s], zero_point ? widened(k, zero_point[s]) : 0.0f);
    }
  };
  const auto each = [&](size_t at, size_t n, size_t s) { runs(at, n, 1, s); };
  parallel_for(pool, layout.size(), kElementwiseGrain,
               [&](size_t begin, size_t end) { for_each_run(layout, begin, end, runs, each); });
}

}  // namespace

void quantize_float(const float* x, bf16* y, const ScaleLayout& layout, const float* scale, const bf16* zero_point,
                    const Pool& pool) {
  const Kernels& k = active();
  drive(k.quantize_float_f32_bf16, x, y, layout, scale, zero_point, k, pool);
}

void quantize_float(const float* x, f16* y, const ScaleLayout& layout, const float* scale, const f16* zero_point,
                    const Pool& pool) {
  const Kernels& k = active();
  drive(k.quantize_float_f32_f16, x, y, layout, scale, zero_point, k, pool);
}

void dequantize_float(const bf16* x, float* y, const ScaleLayout& layout, const float* scale, const bf16* zero_point,
                      const Pool& pool) {
  const Kernels& k = active();
  drive(k.dequantize_float_bf16_f32, x, y, layout, scale, zero_point, k, pool);
}

void dequantize_float(const f16* x, float* y, const ScaleLayout& layout, const float* scale, const f16* zero_point,
                      const Pool& pool) {
  const Kernels& k = active();
  drive(k.dequantize_float_f16_f32, x, y, layout, scale, zero_point, k, pool);
}

}  // namespace quarkfast
