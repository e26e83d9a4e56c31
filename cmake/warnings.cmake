# Warnings (and sanitizers, when asked for) for every target of ours.
add_library(quarkfast_warnings INTERFACE)
if(MSVC)
  # C4068: GCC's pragmas in the kernels, which GCC alone needs. C4251: members of the standard library in exported
  # classes, which both sides compile with one compiler.
  target_compile_options(quarkfast_warnings INTERFACE /W4 /wd4068 /wd4251 /permissive- /utf-8 $<$<BOOL:${QUARKFAST_WERROR}>:/WX>)
else()
  target_compile_options(quarkfast_warnings INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion
                                                      $<$<BOOL:${QUARKFAST_WERROR}>:-Werror>)
endif()
if(QUARKFAST_SANITIZE)
  target_compile_options(quarkfast_warnings INTERFACE -fsanitize=${QUARKFAST_SANITIZE} -fno-omit-frame-pointer
                                                      -fno-sanitize-recover=all)
  target_link_options(quarkfast_warnings INTERFACE -fsanitize=${QUARKFAST_SANITIZE})
endif()
