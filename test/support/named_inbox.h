// The name of a shm:// inbox for one test of this process. What lies under that name outlives its node or
// receiver; it is removed when this goes.
#pragma once

#include <unistd.h>

#include <string>

namespace atbus::test {

class named_inbox {
 public:
  // `label` tells the inboxes of one process apart.
  explicit named_inbox(const std::string& label)
      : name_("atbus-test-" + label + "-" + std::to_string(getpid())) {}
  named_inbox(const named_inbox&) = delete;
  named_inbox& operator=(const named_inbox&) = delete;
  ~named_inbox() {
    unlink(("/dev/shm/atbus-segment." + name_).c_str());
    unlink(("/dev/shm/atbus-bell." + name_).c_str());
  }

  [[nodiscard]] std::string address() const { return "shm://" + name_; }

 private:
  std::string name_;
};

}  // namespace atbus::test
