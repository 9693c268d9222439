// `atbus errors [NAME]`: what each error code means and what to do about it.
#pragma once

#include <CLI/CLI.hpp>

namespace atbus::tool {

void add_errors(CLI::App& app);

}  // namespace atbus::tool
