// What both programs of this sample need.
#pragma once

#include <atbus/atbus.hpp>
#include <atbus/etcd.hpp>
#include <csignal>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>

inline constexpr std::uint32_t kSay = 1;

inline volatile std::sig_atomic_t asked_to_end = 0;

// What the command line names: ID ETCD TOKEN_FILE. Nothing: it says why.
struct start {
  atbus::bus_id id{};
  atbus::node_options options;

  [[nodiscard]] static std::unique_ptr<start> from(char** argv) {
    auto made = std::make_unique<start>();
    const auto id = atbus::bus_id::parse(argv[1]);
    if (!id)
      return id.error().print(), nullptr;
    made->id = *id;
    auto registry = atbus::etcd_directory::open(
        {.endpoints = {argv[2]}, .lease_time = std::chrono::seconds{5}});
    if (!registry)
      return registry.error().print(), nullptr;
    std::string token;
    if (std::ifstream file{argv[3]}; !std::getline(file, token))
      return std::cerr << argv[3] << " has no token\n", nullptr;
    made->options.token(token).directory(*registry);
    std::signal(SIGTERM, [](int) { asked_to_end = 1; });
    return made;
  }
};
