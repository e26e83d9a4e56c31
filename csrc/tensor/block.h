// Block formats over whole arrays: blocks along any axis, spread over a pool. Operators and bindings call this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "export.h"
#include "numerics/block_formats.h"
#include "numerics/types.h"
#include "runtime/parallel.h"

namespace quarkfast {

// A C-contiguous array seen as [outer, axis, inner]. A block is up to p.block consecutive elements along the axis; the
// last one of a line may be short, which is the same as filling it with zeros.
struct BlockLayout {
  size_t outer = 1, axis = 1, inner = 1;

  size_t size() const { return outer * axis * inner; }
  size_t lines() const { return outer * inner; }
  size_t blocks_per_line(size_t block) const { return (axis + block - 1) / block; }
};

// What is wrong with the choices, as "<attribute>: expected <what>, got <what>" in the attribute names of Quark's
// operators, or an empty string. Nothing below may be called with faulty choices.
QUARKFAST_API std::string fault(const BfpParams& p);
QUARKFAST_API std::string fault(const BfpPrimeParams& p);
QUARKFAST_API std::string fault(const MxParams& p);
// The same for packed storage, which takes fewer.
QUARKFAST_API std::string storage_fault(const BfpParams& p);
QUARKFAST_API std::string storage_fault(const BfpPrimeParams& p);
QUARKFAST_API std::string storage_fault(const MxParams& p);
QUARKFAST_API std::string storage_fault(const LinearBlockParams& p);

// Reads Quark's names: fp8_e5m2, fp8_e4m3, fp6_e3m2, fp6_e2m3, fp4_e2m1, int8. False for any other.
QUARKFAST_API bool parse(const std::string& name, MxElement& element);

// P is BfpParams, BfpPrimeParams or MxParams; T is float, f16 or bf16. Arithmetic is that of float32; 16-bit results
// are rounded to their type at the end. y may be x. through_bf16 rounds x to bfloat16 first.
template <class P, class T>
QUARKFAST_API void fake_quantize_blocks(const T* x, T* y, const BlockLayout& layout, const P& p, const Pool& pool,
                                        bool through_bf16 = false);

// Packed storage: records of record_bytes(p) bytes in the order [outer, inner, block]. Short blocks are filled with
// zeros. LinearBlockParams can be read only. T is float, f16 or bf16, rounded at the end.
template <class P>
QUARKFAST_API void quantize_blocks(const float* x, uint8_t* records, const BlockLayout& layout, const P& p,
                                   const Pool& pool);
template <class P, class T>
QUARKFAST_API void dequantize_blocks(const uint8_t* records, T* y, const BlockLayout& layout, const P& p,
                                     const Pool& pool);

}  // namespace quarkfast
