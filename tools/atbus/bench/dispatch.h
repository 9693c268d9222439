// Turns a choice made at run time into a template argument, once, outside the hot loops.
#pragma once

#include "atbus/bench/message.h"

namespace atbus::bench {

// Calls body.operator()<Check>().
template <class Body>
void with_check(check_kind check, Body&& body) {
  switch (check) {
    case check_kind::full:
      return body.template operator()<check_kind::full>();
    case check_kind::sequence:
      return body.template operator()<check_kind::sequence>();
    case check_kind::none:
      return body.template operator()<check_kind::none>();
  }
}

}  // namespace atbus::bench
