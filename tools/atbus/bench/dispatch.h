// Turns a choice made at run time into a template argument, once, outside the hot loops.
#pragma once

#include "atbus/bench/workload.h"

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

// Calls body.operator()<Check, Api>().
template <class Body>
void with_check_and_api(const workload& work, Body&& body) {
  with_check(work.check, [&]<check_kind Check>() {
    work.api == api_kind::claim ? body.template operator()<Check, api_kind::claim>()
                                : body.template operator()<Check, api_kind::send>();
  });
}

}  // namespace atbus::bench
