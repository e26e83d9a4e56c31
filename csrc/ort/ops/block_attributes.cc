#include "ort/ops/block_attributes.h"

#include <limits>

#include "ort/ops/axis.h"

namespace quarkfast::ort {

namespace {

// Choices come as int64; what does not fit the narrower fields is kept out of range, for fault() to tell.
int32_t narrowed(int64_t value) {
  const bool fits = value == static_cast<int32_t>(value);
  return fits ? static_cast<int32_t>(value) : std::numeric_limits<int32_t>::max();
}

size_t read_count(const Node& node, const char* attribute, int64_t fallback) {
  const int64_t value = node.integer(attribute, fallback);
  if (value > 0) return static_cast<size_t>(value);
  throw Error{std::string("attribute '") + attribute + "': expected 1 or more, got " + std::to_string(value)};
}

template <class P>
BlockParams checked(const P& params) {
  if (const std::string text = fault(params); !text.empty()) throw Error{"attribute " + text};
  return params;
}

Rounding read_rounding(const Node& node) {
  return static_cast<Rounding>(narrowed(node.integer("rounding_mode", 0)));
}

int32_t read_mantissa_bits(const Node& node) {
  constexpr int64_t kSignAndExponent = 9;  // what bit_width counts besides the mantissa
  return narrowed(node.integer("bit_width", 16) - kSignAndExponent);
}

BfpParams read_plain(const Node& node) {
  return {read_count(node, "block_size", 8), read_mantissa_bits(node), read_rounding(node),
          node.integer("use_compiler_version_cpu_kernel", 0) != 0};
}

BfpPrimeParams read_prime(const Node& node) {
  return {read_count(node, "block_size", 8), read_count(node, "sub_block_size", 2),
          narrowed(node.integer("sub_block_shift_bits", 1)), read_mantissa_bits(node), read_rounding(node)};
}

MxParams read_elements(const Node& node) {
  const std::string name = node.text("element_dtype", "int8");
  MxElement element{};
  if (!parse(name, element)) {
    throw Error{
        "attribute 'element_dtype': expected 'fp8_e5m2', 'fp8_e4m3', 'fp6_e3m2', 'fp6_e2m3', 'fp4_e2m1' or "
        "'int8', got '" +
        name + "'"};
  }
  return {read_count(node, "block_size", 32), element, read_rounding(node), MxRule::kQuark};
}

// Packed storage takes fewer choices; its faults include those of the format.
template <class P>
PackedParams storable(const P& params) {
  if (const std::string text = storage_fault(params); !text.empty()) throw Error{"attribute " + text};
  return params;
}

LinearBlockParams read_linear(const Node& node) {
  return {read_count(node, "block_size", 32), narrowed(node.integer("bits", 4)), node.integer("signed", 1) != 0,
          node.integer("has_zero_point", 0) != 0};
}

}  // namespace

BlockParams read_bfp(const Node& node) {
  const std::string method = node.text("bfp_method", "to_bfp");
  if (method == "to_bfp") return checked(read_plain(node));
  // The second name is an older one.
  if (method == "to_bfp_prime" || method == "to_bfp_prime_shared") return checked(read_prime(node));
  throw Error{"attribute 'bfp_method': expected 'to_bfp' or 'to_bfp_prime', got '" + method + "'"};
}

BlockParams read_mx(const Node& node) {
  return checked(read_elements(node));
}

PackedParams read_packed(const Node& node) {
  const std::string format = node.text("format");
  if (format == "bfp") return storable(read_plain(node));
  if (format == "bfp_prime") return storable(read_prime(node));
  if (format == "mx") return storable(read_elements(node));
  if (format == "linear") return storable(read_linear(node));
  throw Error{"attribute 'format': expected 'bfp', 'bfp_prime', 'mx' or 'linear', got '" + format + "'"};
}

BlockLayout block_layout(const Shape& x, int64_t axis) {
  if (x.rank() <= 1) return {1, x.size(), 1};
  const size_t at = normalized_axis(axis, x.rank());
  return {x.product(0, at), static_cast<size_t>(x[at]), x.product(at + 1, x.rank())};
}

int64_t read_block_axis(const Node& node) {
  const int64_t axis = node.integer("axis", 1);
  if (const auto rank = node.rank(0); rank && *rank > 1) normalized_axis(axis, *rank);
  return axis;
}

}  // namespace quarkfast::ort
