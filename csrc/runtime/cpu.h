// What the processor at hand can run, one question per instruction set.
#pragma once

namespace quarkfast::cpu {

bool supports_x86_64_v2();
bool supports_x86_64_v3();
bool supports_x86_64_v4();
bool supports_arm64();

}  // namespace quarkfast::cpu
