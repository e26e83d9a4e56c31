// Marks the C++ API: what libquarkfast exports to the Python module.
#pragma once

#if defined(_WIN32) && defined(QUARKFAST_BUILDING_LIBRARY)
#define QUARKFAST_API __declspec(dllexport)
#elif defined(_WIN32)
#define QUARKFAST_API __declspec(dllimport)
#else
#define QUARKFAST_API __attribute__((visibility("default")))
#endif
