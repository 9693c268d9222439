// The keyword arguments of atbus.Node as options of C.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "values.h"

namespace atbus_python {

// What keeps the texts of options alive until the node has copied them.
struct option_texts {
  std::vector<std::string> tokens, parents;
  std::vector<const char*> token_list, parent_list;
  std::vector<std::unique_ptr<std::string>> others;

  const char* keep(nb::handle value) {
    return text_of(
        *others.emplace_back(std::make_unique<std::string>(nb::cast<std::string>(value))));
  }
};

// Sets all options. Raises atbus.Error if there is none of a name, or its value has the wrong type. None is the default.
void set_options(atbus_node_options& to, const nb::dict& given, option_texts& all);

}  // namespace atbus_python
