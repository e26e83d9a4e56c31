// The attributes of the block formats, in the names of Quark's operators, and the place of the block axis.
#pragma once

#include <variant>

#include "ort/node.h"
#include "tensor/block.h"

namespace quarkfast::ort {

using BlockParams = std::variant<BfpParams, BfpPrimeParams, MxParams>;
using PackedParams = std::variant<BfpParams, BfpPrimeParams, MxParams, LinearBlockParams>;

// bfp_method, bit_width, block_size, rounding_mode, sub_block_size, sub_block_shift_bits,
// use_compiler_version_cpu_kernel; with Quark's defaults, which are BFP16.
BlockParams read_bfp(const Node& node);

// element_dtype, block_size, rounding_mode; with Quark's defaults, which are MXINT8.
BlockParams read_mx(const Node& node);

// What packed storage needs: `format` ("bfp", "bfp_prime", "mx" or "linear") and the attributes that shape a record:
// those above, of "linear" bits, signed, has_zero_point and block_size.
PackedParams read_packed(const Node& node);

// Blocks of x run along the axis, which a vector has only one of.
BlockLayout block_layout(const Shape& x, int64_t axis);

// Reads `axis` (default 1) and rejects it, where the rank of input 0 is known, if it does not exist.
int64_t read_block_axis(const Node& node);

}  // namespace quarkfast::ort
