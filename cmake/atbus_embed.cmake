# Run with cmake -P: writes OUTPUT, a C++ file with a function atbus::detail::FUNCTION that returns the bytes of
# INPUT. HEADER declares it.
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes
                     "${bytes}")
file(WRITE ${OUTPUT} "// Made of ${INPUT}.
#include \"${HEADER}\"

namespace atbus::detail {
namespace {

constexpr unsigned char bytes[] = {
${bytes}};

}  // namespace

std::string_view ${FUNCTION}() noexcept {
  return {reinterpret_cast<const char*>(bytes), sizeof bytes};
}

}  // namespace atbus::detail
")
