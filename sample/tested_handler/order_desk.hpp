// A handler as programs have them: takes orders and writes each into a database once.
#pragma once

#include <atbus/atbus.hpp>
#include <set>
#include <string>

// It outlives the process.
using database = std::multiset<std::string>;

class order_desk {
 public:
  order_desk(atbus::node& node, database& orders) {
    node.on_message([&orders](const atbus::message& m) {
      const std::string order{m.text()};
      // An earlier incarnation of this process may have written it before it died.
      if (!m.redelivered() || !orders.contains(order))
        orders.insert(order);
    });
  }
};
