// ATBUS_API marks what users of the library may call. Everything else stays hidden, so that two
// libraries in one process that embed different versions of atbus do not bind to each other's
// insides. ATBUS_STATIC is set by our CMake package and pkg-config file when the library is static;
// there the symbols stay private to whatever the library is linked into.
#pragma once

#if defined(ATBUS_STATIC)
#define ATBUS_API
#else
#define ATBUS_API __attribute__((visibility("default")))
#endif
