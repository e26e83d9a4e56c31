// Compiled once per instruction set (cmake/isa.cmake); exports one symbol, the instruction set's table.
#include "kernels.h"

#include "kernels/bfp.inl.h"
#include "kernels/bfp_prime.inl.h"
#include "kernels/cast_bf16.inl.h"
#include "kernels/cast_f16.inl.h"
#include "kernels/compare.inl.h"
#include "kernels/descend_codes.inl.h"
#include "kernels/dot_i16.inl.h"
#include "kernels/fp4.inl.h"
#include "kernels/gguf.inl.h"
#include "kernels/gguf_super.inl.h"
#include "kernels/instance_normalization.inl.h"
#include "kernels/linear.inl.h"
#include "kernels/linear_float.inl.h"
#include "kernels/mx.inl.h"
#include "kernels/pack_codes.inl.h"
#include "kernels/pack_columns.inl.h"
#include "kernels/quantization_error.inl.h"
#include "kernels/requantize.inl.h"
#include "kernels/small_floats.inl.h"
#include "kernels/statistics.inl.h"
#include "kernels/stochastic.inl.h"

namespace quarkfast::QF_ISA {

extern const Kernels kernels;
const Kernels kernels = {
    .isa = QF_ISA_NAME,
    .i2 = linear_kernels<i2>(),
    .u2 = linear_kernels<u2>(),
    .i4 = linear_kernels<i4>(),
    .u4 = linear_kernels<u4>(),
    .i8 = linear_kernels<int8_t>(),
    .u8 = linear_kernels<uint8_t>(),
    .i16 = linear_kernels<int16_t>(),
    .u16 = linear_kernels<uint16_t>(),
    .i32 = linear_kernels<int32_t>(),
    .u32 = linear_kernels<uint32_t>(),
    .requantize_i8 = requantize_kernels<int8_t>(),
    .requantize_u8 = requantize_kernels<uint8_t>(),
    .p2 = pack_kernels<2>(),
    .p3 = pack_kernels<3>(),
    .p4 = pack_kernels<4>(),
    .pack_columns_p4 = pack_columns_p4,
    .e4m3fn = small_float_kernels<quarkfast::e4m3fn>(),
    .e5m2 = small_float_kernels<quarkfast::e5m2>(),
    .e4m3fnuz = small_float_kernels<quarkfast::e4m3fnuz>(),
    .e5m2fnuz = small_float_kernels<quarkfast::e5m2fnuz>(),
    .e3m2fn = small_float_kernels<quarkfast::e3m2fn>(),
    .e2m3fn = small_float_kernels<quarkfast::e2m3fn>(),
    .e2m1fn = small_float_kernels<quarkfast::e2m1fn>(),
    .e8m0fnu = {cast_f32_e8m0fnu<false>, cast_f32_e8m0fnu<true>, cast_e8m0fnu_f32, round_trip_f32_e8m0fnu<false>,
                round_trip_f32_e8m0fnu<true>},
    .bfp = {fake_quantize_bfp_f32, fake_quantize_columns_bfp_f32, quantize_bfp_f32, dequantize_bfp_f32},
    .bfp_prime = {fake_quantize_bfp_prime_f32, fake_quantize_columns_bfp_prime_f32, quantize_bfp_prime_f32,
                  dequantize_bfp_prime_f32},
    .mx = {fake_quantize_mx_f32, fake_quantize_columns_mx_f32, quantize_mx_f32, dequantize_mx_f32},
    .q4_0 = gguf_kernels<GgufNibbles<4, false>>(),
    .q4_1 = gguf_kernels<GgufNibbles<4, true>>(),
    .q5_0 = gguf_kernels<GgufNibbles<5, false>>(),
    .q5_1 = gguf_kernels<GgufNibbles<5, true>>(),
    .q8_0 = gguf_kernels<GgufBytes>(),
    .q4_k = gguf_kernels<GgufQ4K>(),
    .q6_k = gguf_kernels<GgufQ6K>(),
    .quantize_mxfp4_f32 = quantize_mxfp4_f32,
    .dequantize_mxfp4_f32 = dequantize_mxfp4_f32,
    .quantize_nvfp4_f32 = quantize_nvfp4_f32,
    .dequantize_nvfp4_f32 = dequantize_nvfp4_f32,
    .round_stochastic_f32 = round_stochastic_f32,
    .cast_stochastic_f32_bf16 = cast_stochastic_f32_bf16,
    .cast_f32_bf16 = cast_f32_bf16,
    .cast_bf16_f32 = cast_bf16_f32,
    .round_trip_f32_bf16 = round_trip_f32_bf16,
    .saturate_f32_bf16 = saturate_f32_bf16,
    .saturate_round_trip_f32_bf16 = saturate_round_trip_f32_bf16,
    .cast_f32_f16 = cast_f32_f16,
    .cast_f16_f32 = cast_f16_f32,
    .round_trip_f32_f16 = round_trip_f32_f16,
    .saturate_f32_f16 = saturate_f32_f16,
    .saturate_round_trip_f32_f16 = saturate_round_trip_f32_f16,
    .quantize_float_f32_bf16 = quantize_float_f32_bf16,
    .quantize_float_f32_f16 = quantize_float_f32_f16,
    .dequantize_float_bf16_f32 = dequantize_float_bf16_f32,
    .dequantize_float_f16_f32 = dequantize_float_f16_f32,
    .instance_moments_f32 = instance_moments_f32,
    .normalize_instance_f32 = normalize_instance_f32,
    .dot_i16_i64 = dot_i16_i64,
    .descend_codes_f64 = descend_codes_f64,
    .compare_f32 = compare_f32,
    .compare_channels_f32 = compare_channels_f32,
    .stats_f32 = statistics_kernels<float>(),
    .stats_f16 = statistics_kernels<f16>(),
    .stats_bf16 = statistics_kernels<bf16>(),
    .fold_histogram = fold_histogram,
    .quantization_error = quantization_error,
};

}  // namespace quarkfast::QF_ISA
