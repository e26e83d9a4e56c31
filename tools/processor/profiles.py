"""The processors that a command can be run as, as what CPUID says of them."""

from __future__ import annotations

from dataclasses import dataclass

# What CPUID calls features, by (leaf, subleaf, register, bit); the names are those of /proc/cpuinfo. Subleaf -1: any.
EAX, EBX, ECX, EDX = range(4)
FEATURES = {
    "fma": (1, -1, ECX, 12),
    "movbe": (1, -1, ECX, 22),
    "avx": (1, -1, ECX, 28),
    "f16c": (1, -1, ECX, 29),
    "abm": (0x80000001, -1, ECX, 5),
    "xop": (0x80000001, -1, ECX, 11),
    "fma4": (0x80000001, -1, ECX, 16),
    "bmi1": (7, 0, EBX, 3),
    "avx2": (7, 0, EBX, 5),
    "bmi2": (7, 0, EBX, 8),
    "vaes": (7, 0, ECX, 9),
    "vpclmulqdq": (7, 0, ECX, 10),
    "avx512f": (7, 0, EBX, 16),
    "avx512dq": (7, 0, EBX, 17),
    "avx512ifma": (7, 0, EBX, 21),
    "avx512pf": (7, 0, EBX, 26),
    "avx512er": (7, 0, EBX, 27),
    "avx512cd": (7, 0, EBX, 28),
    "avx512bw": (7, 0, EBX, 30),
    "avx512vl": (7, 0, EBX, 31),
    "avx512vbmi": (7, 0, ECX, 1),
    "avx512_vbmi2": (7, 0, ECX, 6),
    "avx512_vnni": (7, 0, ECX, 11),
    "avx512_bitalg": (7, 0, ECX, 12),
    "avx512_vpopcntdq": (7, 0, ECX, 14),
    "avx512_4vnniw": (7, 0, EDX, 2),
    "avx512_4fmaps": (7, 0, EDX, 3),
    "avx512_vp2intersect": (7, 0, EDX, 8),
    "amx_bf16": (7, 0, EDX, 22),
    "avx512_fp16": (7, 0, EDX, 23),
    "amx_tile": (7, 0, EDX, 24),
    "amx_int8": (7, 0, EDX, 25),
    "avx_vnni": (7, 1, EAX, 4),
}
# Leaf 7, subleaf 1 holds what came after AVX-512 (AVX-VNNI-INT8, AVX10, APX, ...), leaf 24h describes AVX10.
LATER = ((7, 1), (0x24, -1))

V3 = ("fma", "movbe", "avx", "f16c", "abm", "bmi1", "avx2", "bmi2")
SKYLAKE_X = ("avx512f", "avx512dq", "avx512cd", "avx512bw", "avx512vl")


@dataclass(frozen=True)
class Profile:
    """A processor: of `FEATURES` it has those of `features`, which the machine must have too."""

    features: tuple[str, ...]
    description: str

    def masks(self) -> str:
        """The bits that stay, as audit.cc reads them."""
        keep = {leaf: [0] * 4 for leaf in LATER}
        for name, (leaf, subleaf, register, bit) in FEATURES.items():
            bits = keep.setdefault((leaf, subleaf), [0xFFFFFFFF] * 4)
            if name not in self.features:
                bits[register] &= ~(1 << bit)
            elif (leaf, subleaf) in LATER:
                bits[register] |= 1 << bit
        return " ".join(
            ":".join(f"{number & 0xFFFFFFFF:x}" for number in (*leaf, *bits)) for leaf, bits in keep.items()
        )

    def tunables(self) -> str:
        """The same for the functions that glibc chooses by processor (libm's with FMA round otherwise)."""
        return "glibc.cpu.hwcaps=" + ",".join(
            f"-{name.upper()}" for name in FEATURES if name not in self.features and "_" not in name
        )


PROFILES = {
    "v2": Profile((), "x86-64-v2: SSE4.2, no AVX"),
    "avx2": Profile(V3, "x86-64-v3: AVX2 without VNNI"),
    "avx2-vnni": Profile((*V3, "avx_vnni"), "x86-64-v3 with AVX-VNNI"),
    "avx512": Profile((*V3, *SKYLAKE_X), "x86-64-v4: AVX-512 without VNNI"),
    "avx512-vnni": Profile((*V3, *SKYLAKE_X, "avx512_vnni"), "x86-64-v4 with AVX512-VNNI"),
}
