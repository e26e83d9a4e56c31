#include "runtime/keep_loaded.h"

#if defined(_WIN32)
#include <windows.h>
#elif defined(__APPLE__)
#include <dlfcn.h>
#endif

namespace quarkfast {

void keep_loaded() {
#if defined(_WIN32)
  HMODULE library = nullptr;
  GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_PIN | GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS,
                     reinterpret_cast<LPCWSTR>(&keep_loaded), &library);
#elif defined(__APPLE__)
  Dl_info library;
  if (dladdr(reinterpret_cast<void*>(&keep_loaded), &library)) {
    dlopen(library.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
  }
#endif
}

}  // namespace quarkfast
