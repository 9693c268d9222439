// The events of a simulated node's links, on their way from the simulation into the node.
#pragma once

#include "node/link/link.h"
#include "testing/foreign_code.h"

namespace atbus::detail {

class node_events final : public link_events {
 public:
  explicit node_events(link_events& of) noexcept : of_(of) {}

  void opened(link& at, bool accepted) override {
    const foreign_code ends{false};
    of_.opened(at, accepted);
  }
  void writable(link& at) override {
    const foreign_code ends{false};
    of_.writable(at);
  }
  void closed(link& at, const error& why) override {
    const foreign_code ends{false};
    of_.closed(at, why);
  }
  void left(link& at) override {
    const foreign_code ends{false};
    of_.left(at);
  }
  void recalling(link& at) override {
    const foreign_code ends{false};
    of_.recalling(at);
  }
  void returned(link& at) override {
    const foreign_code ends{false};
    of_.returned(at);
  }
  bool inherited(const node_instance& source, bytes_view message, bool redelivered,
                 bool awaited) override {
    const foreign_code ends{false};
    return of_.inherited(source, message, redelivered, awaited);
  }
  void problem(const error& what) override {
    const foreign_code ends{false};
    of_.problem(what);
  }

 private:
  bool received_other(link& from, bytes_view message, bool redelivered) override {
    const foreign_code ends{false};
    return of_.received(from, message, redelivered);
  }

  link_events& of_;
};

}  // namespace atbus::detail
