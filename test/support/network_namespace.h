// Two hosts on one machine: two network namespaces of the kernel, joined by a cable (a pair of veth
// devices) that can be cut and mended. Needs no program and no right but that to make namespaces.
//
//   network_pair net;
//   if (!net.refused().empty())
//     GTEST_SKIP() << net.refused();
//   child_process server = net.start(host::left, [] { ...; return 0; });
//   ASSERT_EQ(net.cut(), "");
//
// The namespaces end with this object and the processes inside.
#pragma once

#include <array>
#include <functional>
#include <string>

#include "child_process.h"

namespace atbus::test {

enum class host { left, right };

class network_pair {
 public:
  network_pair();
  network_pair(const network_pair&) = delete;
  network_pair& operator=(const network_pair&) = delete;
  ~network_pair();

  // Why the kernel lets us make no such pair here; empty when all is well. Then nothing else works.
  [[nodiscard]] const std::string& refused() const noexcept { return refused_; }

  // 10.77.0.1 and fd77::1 on the left, .2 and ::2 on the right, until changed.
  [[nodiscard]] const std::string& ipv4(host at) const { return addresses_[index(at)][0]; }
  [[nodiscard]] const std::string& ipv6(host at) const { return addresses_[index(at)][1]; }

  // Runs `body` in a process on that host; exit code 96: it could not get there.
  [[nodiscard]] child_process start(host at, std::function<int()> body) const;

  // All of these return an empty string, or what failed.
  [[nodiscard]] std::string cut();
  [[nodiscard]] std::string mend();
  // Takes the address of the same kind away: "10.77.0.9" or "fd77::9".
  [[nodiscard]] std::string change_address(host at, const std::string& address);

 private:
  static std::size_t index(host at) noexcept { return at == host::left ? 0 : 1; }
  [[nodiscard]] std::string build();
  [[nodiscard]] bool enter(host at) const;
  [[nodiscard]] std::string run(host at, const std::function<std::string()>& body) const;

  int user_ = -1;  // namespace of the user, if one was needed
  std::array<int, 2> networks_{-1, -1};
  std::array<std::array<std::string, 2>, 2> addresses_{
      {{"10.77.0.1", "fd77::1"}, {"10.77.0.2", "fd77::2"}}};
  std::string refused_;
};

}  // namespace atbus::test
