#include "atbus/carrier.hpp"

namespace atbus {

carried_link::~carried_link() = default;
carrier::~carrier() = default;

}  // namespace atbus
