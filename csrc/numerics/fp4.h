// Blocks of float4 codes with scales apart: sizes (docs/numerics.md, "MXFP4 and NVFP4 in parts").
#pragma once

#include <cstddef>
#include <cstdint>

namespace quarkfast {

inline constexpr size_t kNvFp4Block = 16;
inline constexpr size_t kLargestFp4Block = 32;  // of MXFP4, whose blocks are 16 or 32
inline constexpr uint8_t kNvFp4Nan = 0x7f;      // the e4m3 scale of a block that holds an infinity or NaN

}  // namespace quarkfast
