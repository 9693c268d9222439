// ATBUS_API exports a symbol. All other symbols are hidden, so that two libraries in one process can embed
// different versions of atbus. The CMake package and the pkg-config file set ATBUS_STATIC for a static
// library; then all symbols stay private to the binary that the library is linked into.
#pragma once

#if defined(ATBUS_STATIC)
#define ATBUS_API
#else
#define ATBUS_API __attribute__((visibility("default")))
#endif
