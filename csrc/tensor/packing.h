// Packs and unpacks whole arrays of 2-, 3- and 4-bit codes, spread over a pool.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kernels.h"
#include "runtime/parallel.h"

namespace quarkfast {

// Codes that fill whole bytes at every width; pieces of work begin at multiples of it.
inline constexpr size_t kPackGroup = 8;
// Groups below which a second thread costs more than it saves: as kElementwiseGrain, at an eighth of the bytes.
inline constexpr size_t kPackGrain = 1 << 14;

// Bytes that n codes of this width fill.
constexpr size_t packed_size(size_t n, size_t bits) {
  return n / kPackGroup * bits + (n % kPackGroup * bits + 7) / 8;
}

// Returns whether every code fits its width.
template <class Code>
bool pack_codes(bool (*kernel)(const Code*, uint8_t*, size_t), const Code* x, uint8_t* y, size_t n, size_t bits,
                const Pool& pool) {
  std::atomic<bool> fits{true};
  parallel_for(pool, (n + kPackGroup - 1) / kPackGroup, kPackGrain, [&](size_t begin, size_t end) {
    const size_t count = std::min(end * kPackGroup, n) - begin * kPackGroup;
    if (!kernel(x + begin * kPackGroup, y + begin * bits, count)) fits.store(false, std::memory_order_relaxed);
  });
  return fits.load();
}

template <class Code>
void unpack_codes(void (*kernel)(const uint8_t*, Code*, size_t), const uint8_t* x, Code* y, size_t n, size_t bits,
                  const Pool& pool) {
  parallel_for(pool, (n + kPackGroup - 1) / kPackGroup, kPackGrain, [&](size_t begin, size_t end) {
    const size_t count = std::min(end * kPackGroup, n) - begin * kPackGroup;
    kernel(x + begin * bits, y + begin * kPackGroup, count);
  });
}

// As the kernel of that name, of a contiguous matrix. Threads share out the columns, by cache lines.
inline void pack_columns_p4(const Kernels& kernels, const uint8_t* x, size_t rows, size_t columns, uint8_t* y,
                            size_t pitch, const Pool& pool) {
  constexpr size_t kLine = 64, kGrain = kPackGrain * kPackGroup / kLine;  // rows of a line
  parallel_for(pool, (columns + kLine - 1) / kLine, kGrain / std::max<size_t>(rows, 1) + 1,
               [&](size_t begin, size_t end) {
                 const size_t first = begin * kLine, count = std::min(end * kLine, columns) - first;
                 kernels.pack_columns_p4(x + first, rows, count, columns, y + first * pitch, pitch);
               });
}

}  // namespace quarkfast
