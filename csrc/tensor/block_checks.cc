// Which choices of a block format exist; operators and bindings share the sentences.
#include <string>

#include "tensor/block.h"

namespace quarkfast {

namespace {

constexpr int32_t kSignAndExponent = 9;  // Quark's bit_width counts sign, exponent and mantissa of one element
constexpr size_t kLargestBlock = (size_t{1} << 31) - 1;

std::string unmet(const char* attribute, const std::string& expected, const std::string& got) {
  return std::string(attribute) + ": expected " + expected + ", got " + got;
}

std::string block_fault(size_t block) {
  if (block >= 1 && block <= kLargestBlock) return "";
  return unmet("block_size", "1 to " + std::to_string(kLargestBlock), std::to_string(block));
}

std::string rounding_fault(Rounding rounding) {
  const auto mode = static_cast<int32_t>(rounding);
  return mode >= 0 && mode <= 2 ? "" : unmet("rounding_mode", "0, 1 or 2", std::to_string(mode));
}

std::string width_fault(int32_t mantissa_bits, int32_t most, const char* use) {
  if (mantissa_bits >= 1 && mantissa_bits <= most) return "";
  return unmet("bit_width", "10 to " + std::to_string(most + kSignAndExponent) + use,
               std::to_string(static_cast<int64_t>(mantissa_bits) + kSignAndExponent));
}

std::string storage_block_fault(size_t block) {
  if (block % 8 == 0 && block <= kLargestPackedBlock) return "";
  return unmet("block_size", "a multiple of 8 up to " + std::to_string(kLargestPackedBlock) + " for packed storage",
               std::to_string(block));
}

std::string first_of(const std::string& a, const std::string& b) {
  return a.empty() ? b : a;
}

}  // namespace

std::string fault(const BfpParams& p) {
  return first_of(block_fault(p.block), first_of(rounding_fault(p.rounding), width_fault(p.mantissa_bits, 22, "")));
}

std::string fault(const BfpPrimeParams& p) {
  const std::string shared = fault(BfpParams{p.block, p.mantissa_bits, p.rounding, false});
  if (!shared.empty()) return shared;
  if (p.sub_block < 1 || p.block % p.sub_block) {
    return unmet("sub_block_size", "a divisor of block_size " + std::to_string(p.block), std::to_string(p.sub_block));
  }
  if (p.shift_bits < 0 || p.shift_bits > 7) {
    return unmet("sub_block_shift_bits", "0 to 7", std::to_string(p.shift_bits));
  }
  return "";
}

std::string fault(const MxParams& p) {
  return first_of(block_fault(p.block), rounding_fault(p.rounding));
}

std::string storage_fault(const BfpParams& p) {
  const std::string storage =
      first_of(storage_block_fault(p.block), width_fault(p.mantissa_bits, 7, " for packed storage"));
  return first_of(fault(p), storage);
}

std::string storage_fault(const BfpPrimeParams& p) {
  const std::string storage =
      first_of(storage_block_fault(p.block), width_fault(p.mantissa_bits, 7, " for packed storage"));
  const std::string all = first_of(fault(p), storage);
  if (!all.empty()) return all;
  if (p.block / p.sub_block % 8) {
    return unmet("sub_block_size", "a multiple of 8 sub-blocks in a block for packed storage",
                 std::to_string(p.block / p.sub_block));
  }
  return "";
}

std::string storage_fault(const MxParams& p) {
  return first_of(fault(p), storage_block_fault(p.block));
}

std::string storage_fault(const LinearBlockParams& p) {
  if ((p.bits < 2 || p.bits > 4) && p.bits != 8) {
    return unmet("bits", "2, 3, 4 or 8", std::to_string(p.bits));
  }
  return storage_block_fault(p.block);
}

bool parse(const std::string& name, MxElement& element) {
  static const char* const names[] = {"fp8_e5m2", "fp8_e4m3", "fp6_e3m2", "fp6_e2m3", "fp4_e2m1", "int8"};
  for (int32_t i = 0; i < 6; ++i) {
    if (name == names[i]) {
      element = static_cast<MxElement>(i);
      return true;
    }
  }
  return false;
}

}  // namespace quarkfast
