#include "tensor/block.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "numerics/types.h"
#include "runtime/dispatch.h"
#include "tensor/elementwise.h"
#include "tensor/half_precision.h"

namespace quarkfast {

namespace {

const BlockKernels<BfpParams>& kernels_of(const Kernels& k, const BfpParams&) {
  return k.bfp;
}
const BlockKernels<BfpPrimeParams>& kernels_of(const Kernels& k, const BfpPrimeParams&) {
  return k.bfp_prime;
}
const BlockKernels<MxParams>& kernels_of(const Kernels& k, const MxParams&) {
  return k.mx;
}

// Codes of one record, unpacked: 8-bit ones lie there as they are.
template <class Code>
const Code* unpacked(const uint8_t* packed, Code* codes, const LinearBlockParams& p) {
  if (p.bits == 8) return reinterpret_cast<const Code*>(packed);
  const Kernels& k = active();
  const PackKernels& pack = p.bits == 2 ? k.p2 : p.bits == 3 ? k.p3 : k.p4;
  if constexpr (std::is_signed_v<Code>) {
    pack.unpack_codes_i8(packed, codes, p.block);
  } else {
    pack.unpack_codes_u8(packed, codes, p.block);
  }
  return codes;
}

// y = float32(code - zero_point) * scale, by the kernel of whole tensors.
template <class Code>
void dequantize_codes(const LinearKernels<Code>& k, const uint8_t* record, float* y, const LinearBlockParams& p) {
  float scale;
  Code zero_point = 0, codes[kLargestPackedBlock];
  std::memcpy(&scale, record, sizeof(scale));
  if (p.has_zero_point) std::memcpy(&zero_point, record + sizeof(scale), sizeof(zero_point));
  k.dequantize_linear(unpacked(record + head_bytes(p), codes, p), y, 1, p.block, &scale, &zero_point);
}

void dequantize_integers(const uint8_t* records, float* y, size_t blocks, const LinearBlockParams& p) {
  for (size_t i = 0; i < blocks; ++i) {
    const uint8_t* record = records + i * record_bytes(p);
    if (p.is_signed) {
      dequantize_codes<int8_t>(active().i8, record, y + i * p.block, p);
    } else {
      dequantize_codes<uint8_t>(active().u8, record, y + i * p.block, p);
    }
  }
}

const BlockKernels<LinearBlockParams>& kernels_of(const Kernels&, const LinearBlockParams&) {
  static constexpr BlockKernels<LinearBlockParams> kReading{nullptr, nullptr, nullptr, dequantize_integers};
  return kReading;
}

// Columns that one task takes where blocks run across rows: a multiple of every vector and cache line.
constexpr size_t kColumnsPerTask = 1024;
// Elements of a 16-bit array that are widened at a time: 16 KiB of float32 stay in the first-level cache.
constexpr size_t kScratch = 4096;

// Calls body(offset, n) over runs of consecutive blocks of an array with inner == 1, and short blocks at the ends of
// lines; at most `most` elements a run (but at least one block).
template <class Body>
void for_each_run(const BlockLayout& layout, size_t block, size_t most, const Pool& pool, Body&& body) {
  BlockLayout l = layout;
  if (l.axis % block == 0) l = {1, l.outer * l.axis, 1};  // no short blocks: lines join
  const size_t per_line = l.blocks_per_line(block), step = std::max<size_t>(most / block, 1);
  const size_t grain = std::max<size_t>(kElementwiseGrain / block, 1);
  parallel_for(pool, l.outer * per_line, grain, [&](size_t begin, size_t end) {
    for (size_t at = begin; at < end;) {
      const size_t line = at / per_line, first = at % per_line;
      const size_t last = std::min({first + step, per_line, first + (end - at)});
      const size_t from = first * block, to = std::min(last * block, l.axis);
      body(line * l.axis + from, to - from);
      at += last - first;
    }
  });
}

// Calls body(offset, rows, columns) over groups of blocks side by side, `columns` wide at most.
template <class Body>
void for_each_column_group(const BlockLayout& l, size_t block, size_t columns, const Pool& pool, Body&& body) {
  const size_t per_line = l.blocks_per_line(block), groups = (l.inner + columns - 1) / columns;
  const size_t grain = std::max<size_t>(kElementwiseGrain / (block * std::min(columns, l.inner)), 1);
  parallel_for(pool, l.outer * per_line * groups, grain, [&](size_t begin, size_t end) {
    for (size_t at = begin; at < end; ++at) {
      const size_t group = at % groups, line_block = at / groups;
      const size_t outer = line_block / per_line, row = line_block % per_line * block;
      const size_t column = group * columns;
      body((outer * l.axis + row) * l.inner + column, std::min(block, l.axis - row),
           std::min(columns, l.inner - column));
    }
  });
}

template <class P>
void fake_quantize_floats(const float* x, float* y, const BlockLayout& l, const P& p, const Pool& pool) {
  const BlockKernels<P>& k = kernels_of(active(), p);
  if (l.inner == 1) {
    for_each_run(l, p.block, l.size(), pool, [&](size_t at, size_t n) { k.fake_quantize(x + at, y + at, n, p); });
  } else {
    for_each_column_group(l, p.block, kColumnsPerTask, pool, [&](size_t at, size_t rows, size_t columns) {
      k.fake_quantize_columns(x + at, y + at, rows, columns, l.inner, p);
    });
  }
}

template <class P, class T>
void fake_quantize_halves(const T* x, T* y, const BlockLayout& l, const P& p, const Pool& pool, bool through_bf16) {
  const Kernels& all = active();
  const BlockKernels<P>& k = kernels_of(all, p);
  const auto load = [&](const T* from, float* to, size_t n) {
    widen(all, from, to, n);
    if (through_bf16) all.round_trip_f32_bf16(to, to, n);
  };
  if (l.inner == 1) {
    for_each_run(l, p.block, kScratch, pool, [&](size_t at, size_t n) {
      float small[kScratch];
      std::vector<float> large(n > kScratch ? n : 0);
      float* const scratch = n > kScratch ? large.data() : small;
      load(x + at, scratch, n);
      k.fake_quantize(scratch, scratch, n, p);
      narrow(all, scratch, y + at, n);
    });
    return;
  }
  const size_t width = std::clamp<size_t>(kScratch / p.block, 16, kColumnsPerTask);
  for_each_column_group(l, p.block, width, pool, [&](size_t at, size_t rows, size_t columns) {
    float small[kScratch];
    std::vector<float> large(rows * columns > kScratch ? rows * columns : 0);
    float* const scratch = rows * columns > kScratch ? large.data() : small;
    for (size_t j = 0; j < rows; ++j) load(x + at + j * l.inner, scratch + j * columns, columns);
    k.fake_quantize_columns(scratch, scratch, rows, columns, columns, p);
    for (size_t j = 0; j < rows; ++j) narrow(all, scratch + j * columns, y + at + j * l.inner, columns);
  });
}

// Calls body(offset, n, record) for every block: element j of its n elements is at offset + j * inner.
template <class Body>
void for_each_record(const BlockLayout& l, size_t block, const Pool& pool, Body&& body) {
  const size_t per_line = l.blocks_per_line(block), grain = std::max<size_t>(kElementwiseGrain / block, 1);
  parallel_for(pool, l.lines() * per_line, grain, [&](size_t begin, size_t end) {
    for (size_t record = begin; record < end; ++record) {
      const size_t line = record / per_line, row = record % per_line * block;
      const size_t outer = line / l.inner, column = line % l.inner;
      body((outer * l.axis + row) * l.inner + column, std::min(block, l.axis - row), record);
    }
  });
}

}  // namespace

template <class P, class T>
void fake_quantize_blocks(const T* x, T* y, const BlockLayout& layout, const P& p, const Pool& pool,
                          bool through_bf16) {
  if (!layout.size()) return;
  if constexpr (std::is_same_v<T, float>) {
    if (through_bf16) elementwise(active().round_trip_f32_bf16, x, y, layout.size(), pool);
    fake_quantize_floats(through_bf16 ? y : x, y, layout, p, pool);
  } else {
    fake_quantize_halves(x, y, layout, p, pool, through_bf16);
  }
}

template <class P>
void quantize_blocks(const float* x, uint8_t* records, const BlockLayout& layout, const P& p, const Pool& pool) {
  if (!layout.size()) return;
  const BlockKernels<P>& k = kernels_of(active(), p);
  const size_t bytes = record_bytes(p);
  for_each_record(layout, p.block, pool, [&](size_t at, size_t n, size_t record) {
    float line[kLargestPackedBlock] = {};
    if (layout.inner == 1 && n == p.block) return k.quantize(x + at, records + record * bytes, 1, p);
    for (size_t j = 0; j < n; ++j) line[j] = x[at + j * layout.inner];
    k.quantize(line, records + record * bytes, 1, p);
  });
}

template <class P, class T>
void dequantize_blocks(const uint8_t* records, T* y, const BlockLayout& layout, const P& p, const Pool& pool) {
  if (!layout.size()) return;
  const Kernels& all = active();
  const BlockKernels<P>& k = kernels_of(all, p);
  const size_t bytes = record_bytes(p);
  for_each_record(layout, p.block, pool, [&](size_t at, size_t n, size_t record) {
    float line[kLargestPackedBlock];
    if constexpr (std::is_same_v<T, float>) {
      if (layout.inner == 1 && n == p.block) return k.dequantize(records + record * bytes, y + at, 1, p);
      k.dequantize(records + record * bytes, line, 1, p);
      for (size_t j = 0; j < n; ++j) y[at + j * layout.inner] = line[j];
    } else {
      T narrowed[kLargestPackedBlock];
      k.dequantize(records + record * bytes, line, 1, p);
      narrow(all, line, narrowed, n);
      for (size_t j = 0; j < n; ++j) y[at + j * layout.inner] = narrowed[j];
    }
  });
}

// The families and types that exist; a template function is exported only where it is instantiated.
#define QF_INSTANTIATE_BLOCKS(P, T)                                                                                \
  template QUARKFAST_API void fake_quantize_blocks(const T*, T*, const BlockLayout&, const P&, const Pool&, bool); \
  template QUARKFAST_API void dequantize_blocks(const uint8_t*, T*, const BlockLayout&, const P&, const Pool&);
QF_INSTANTIATE_BLOCKS(BfpParams, float)
QF_INSTANTIATE_BLOCKS(BfpParams, f16)
QF_INSTANTIATE_BLOCKS(BfpParams, bf16)
QF_INSTANTIATE_BLOCKS(BfpPrimeParams, float)
QF_INSTANTIATE_BLOCKS(BfpPrimeParams, f16)
QF_INSTANTIATE_BLOCKS(BfpPrimeParams, bf16)
QF_INSTANTIATE_BLOCKS(MxParams, float)
QF_INSTANTIATE_BLOCKS(MxParams, f16)
QF_INSTANTIATE_BLOCKS(MxParams, bf16)
#undef QF_INSTANTIATE_BLOCKS
template QUARKFAST_API void quantize_blocks(const float*, uint8_t*, const BlockLayout&, const BfpParams&, const Pool&);
template QUARKFAST_API void quantize_blocks(const float*, uint8_t*, const BlockLayout&, const BfpPrimeParams&,
                                            const Pool&);
template QUARKFAST_API void quantize_blocks(const float*, uint8_t*, const BlockLayout&, const MxParams&, const Pool&);
template QUARKFAST_API void dequantize_blocks(const uint8_t*, float*, const BlockLayout&, const LinearBlockParams&,
                                              const Pool&);
template QUARKFAST_API void dequantize_blocks(const uint8_t*, f16*, const BlockLayout&, const LinearBlockParams&,
                                              const Pool&);
template QUARKFAST_API void dequantize_blocks(const uint8_t*, bf16*, const BlockLayout&, const LinearBlockParams&,
                                              const Pool&);

}  // namespace quarkfast
