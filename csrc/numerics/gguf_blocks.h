// The block types of GGUF files: sizes and parts of their records (docs/numerics.md, "GGUF blocks").
#pragma once

#include <cstddef>
#include <cstdint>

namespace quarkfast {

// Values of a block of the types without and with super-blocks.
inline constexpr size_t kGgufBlock = 32;
inline constexpr size_t kGgufSuperBlock = 256;

// One block type: what a block holds and takes.
struct GgufSize {
  size_t values;
  size_t bytes;
};

// A float16 scale, a float16 minimum where there is one, the fifth bits of the codes where they have one, and their low
// four bits, two codes to a byte.
constexpr GgufSize gguf_nibbles(int32_t bits, bool has_minimum) {
  return {kGgufBlock, size_t{2} + (has_minimum ? 2 : 0) + (bits == 5 ? kGgufBlock / 8 : 0) + kGgufBlock / 2};
}

// A float16 scale and a byte for each code.
inline constexpr GgufSize kGgufQ8_0{kGgufBlock, 2 + kGgufBlock};

// Two float16, eight scales and eight minima of 6 bits, codes of 4 bits.
inline constexpr GgufSize kGgufQ4_K{kGgufSuperBlock, 4 + 12 + kGgufSuperBlock / 2};

// Codes of 6 bits, sixteen scales of 8 bits, a float16.
inline constexpr GgufSize kGgufQ6_K{kGgufSuperBlock, kGgufSuperBlock / 8 * 6 + 16 + 2};

}  // namespace quarkfast
