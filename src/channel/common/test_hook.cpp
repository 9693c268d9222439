#include "atbus/detail/test_hook.hpp"

namespace atbus::detail {

#if defined(ATBUS_TEST_HOOKS) && ATBUS_TEST_HOOKS
void (*on_step)(step) = nullptr;
#endif

}  // namespace atbus::detail
