# The ISA ladder: the only place where a -m flag appears. Instruction sets are listed best first; a compiler that does not know a
# instruction set's flag simply builds a shorter ladder, and runtime/dispatch.cc learns the list from the generated instruction_sets.cc.
include(CheckCXXCompilerFlag)

string(TOLOWER "${CMAKE_OSX_ARCHITECTURES}" quarkfast_arch)
if(NOT quarkfast_arch)
  string(TOLOWER "${CMAKE_SYSTEM_PROCESSOR}" quarkfast_arch)
endif()

# Rows: C++ namespace | public name | GCC and Clang flags | MSVC flags.
if(quarkfast_arch MATCHES "^(x86_64|amd64)$")
  set(QUARKFAST_LADDER
    "x86_64_v4|x86-64-v4|-march=x86-64-v4 -mprefer-vector-width=512|/arch:AVX512"
    "x86_64_v3|x86-64-v3|-march=x86-64-v3|/arch:AVX2"
    "x86_64_v2|x86-64-v2|-march=x86-64-v2|")
elseif(quarkfast_arch MATCHES "^(aarch64|arm64)$")
  set(QUARKFAST_LADDER "arm64|arm64||")
else()
  message(FATAL_ERROR "quarkfast: expected an x86-64 or arm64 target, got '${quarkfast_arch}'")
endif()

# -ffp-contract=off keeps a*b+c two roundings, so every instruction set gives the same bytes. -fno-trapping-math and
# -fno-math-errno change no result, only flags nobody reads, and let comparisons become selects in the vectorizer.
if(MSVC)
  set(quarkfast_kernel_flags /O2 /fp:precise /EHs-c-)
else()
  set(quarkfast_kernel_flags -O3 -ffp-contract=off -fno-math-errno -fno-trapping-math -fno-exceptions -fno-rtti)
  if(QUARKFAST_SANITIZE)
    # It looks for faults, not for speed, and GCC 12 takes minutes for a instruction set at -O3.
    list(APPEND quarkfast_kernel_flags -O1)
  endif()
endif()

# quarkfast_add_kernels(<out> <source>): compiles the source once per instruction set; <out> becomes the list of object targets and
# <out>_instruction_sets the generated file that lists them for the dispatcher.
function(quarkfast_add_kernels out source)
  set(targets "")
  set(QUARKFAST_ISA_DECLARATIONS "")
  set(QUARKFAST_ISA_ROWS "")
  foreach(row IN LISTS QUARKFAST_LADDER)
    string(REPLACE "|" ";" fields "${row}")
    list(GET fields 0 space)
    list(GET fields 1 name)
    if(MSVC)
      list(GET fields 3 flags)
    else()
      list(GET fields 2 flags)
    endif()
    separate_arguments(flags)
    if(flags)
      check_cxx_compiler_flag("${flags}" QUARKFAST_HAS_${space})
      if(NOT QUARKFAST_HAS_${space})
        continue()
      endif()
    endif()
    add_library(${out}_${space} OBJECT ${source})
    target_compile_options(${out}_${space} PRIVATE ${quarkfast_kernel_flags} ${flags})
    target_compile_definitions(${out}_${space} PRIVATE QF_ISA=${space} QF_ISA_NAME="${name}")
    target_include_directories(${out}_${space} PRIVATE csrc)
    target_link_libraries(${out}_${space} PRIVATE quarkfast_warnings)
    list(APPEND targets ${out}_${space})
    string(APPEND QUARKFAST_ISA_DECLARATIONS "namespace ${space} {\nextern const Kernels kernels;\n}\n")
    string(APPEND QUARKFAST_ISA_ROWS "    {&${space}::kernels, &cpu::supports_${space}},\n")
  endforeach()
  if(NOT targets)
    message(FATAL_ERROR "quarkfast: the compiler knows none of the instruction sets of the ladder")
  endif()
  configure_file(csrc/runtime/instruction_sets.cc.in ${CMAKE_CURRENT_BINARY_DIR}/instruction_sets.cc @ONLY)
  set(${out} ${targets} PARENT_SCOPE)
  set(${out}_instruction_sets ${CMAKE_CURRENT_BINARY_DIR}/instruction_sets.cc PARENT_SCOPE)
endfunction()
