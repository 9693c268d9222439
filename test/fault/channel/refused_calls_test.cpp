// System calls that a seccomp filter or a setting of the kernel refuses for good.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "atbus/receiver.hpp"
#include "atbus/sender.hpp"
#include "child_process.h"
#include "scratch_directory.h"
#include "system/kernel.h"
#include "test.h"

namespace atbus::test::refused_calls {
namespace {

int waits = 0;
int refusals = 0;
int refusal_code = 0;

class RefusedCalls : public ::testing::Test {
 protected:
  RefusedCalls() { waits = refusals = 0; }
  ~RefusedCalls() override { detail::kernel() = saved_; }

  result<receiver> open_receiver(const std::string& address) const {
    receiver_options options;
    options.directory = directory_.path();
    options.lanes = 2;
    options.spin = 0ns;
    return receiver::open(address, options);
  }
  static void count_waits() {
    static const auto wait = detail::kernel().epoll_wait;
    detail::kernel().epoll_wait = [](int epoll, epoll_event* events, int count,
                                     std::int64_t timeout_ns) {
      ++waits;
      return wait(epoll, events, count, timeout_ns);
    };
  }
  // In a child: a wait for nothing lasts as long as asked for and is a few system calls.
  void expect_quiet_waits() const {
    count_waits();
    for (const std::string& address : {std::string{"shm://refused"}, std::string{"mem://refused"},
                                       "unix://@refused-" + std::to_string(getpid())}) {
      auto in = required(open_receiver(address));
      waits = 0;
      const auto begin = std::chrono::steady_clock::now();
      const status waited = in->wait(100ms);
      require(waited == errc::timed_out, waited.text());
      require(std::chrono::steady_clock::now() - begin >= 100ms, "too short");
      require(waits <= 4, address + ": " + std::to_string(waits) + " waits");
      (void)in->remove();
    }
  }
  // As filters do that do not know a call.
  static void forbid(long number, int code) {
    sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(code)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    sock_fprog filter{.len = std::size(program), .filter = program};
    require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
    require(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0, "seccomp");
  }

  scratch_directory directory_;
  detail::kernel_calls saved_ = detail::kernel();
};

TEST_F(RefusedCalls, WaitsInNanosecondsAreReplacedOnceAndForAll) {
  for (const int code : {EPERM, ENOSYS, EACCES}) {
    child_process child{[&] {
      refusal_code = code;
      detail::kernel().epoll_wait_in_ns = [](int, epoll_event*, int, std::int64_t) {
        ++refusals;
        errno = refusal_code;
        return -1;
      };
      expect_quiet_waits();
      require(refusals <= 1, std::to_string(refusals) + " refusals");
      return 0;
    }};
    EXPECT_EQ(child.wait_end(), "exit 0") << code;
  }
}

#if defined(SYS_epoll_pwait2)
TEST_F(RefusedCalls, WaitsUnderASeccompFilterSleep) {
  for (const int code : {EPERM, ENOSYS}) {
    child_process child{[&] {
      forbid(SYS_epoll_pwait2, code);
      expect_quiet_waits();
      return 0;
    }};
    EXPECT_EQ(child.wait_end(), "exit 0") << code;
  }
}
#endif

TEST_F(RefusedCalls, MembarrierUnderASeccompFilterIsReplacedByFences) {
  for (const int code : {EPERM, ENOSYS}) {
    child_process child{[&] {
      forbid(SYS_membarrier, code);
      auto in = required(open_receiver("shm://fences"));
      auto out = required(sender::open("shm://fences", {.directory = directory_.path()}));
      require(static_cast<bool>(out->send(as_bytes("x"))), "send");
      require(in->poll([](bytes_view) {}) == 1, "poll");
      (void)in->remove();
      return 0;
    }};
    EXPECT_EQ(child.wait_end(), "exit 0") << code;
  }
}

constexpr unsigned noexec_seal = 8;  // MFD_NOEXEC_SEAL

TEST_F(RefusedCalls, AMemfdThatMayBeExecutedIsNotNeeded) {
  detail::kernel().memfd_create = [](const char* name, unsigned flags) {
    if ((flags & noexec_seal) == 0) {  // vm.memfd_noexec=2
      errno = EACCES;
      return -1;
    }
    return ::memfd_create(name, flags & ~noexec_seal);
  };
  auto in = open_receiver("mem://noexec");
  ASSERT_TRUE(in) << in.error().text();
  EXPECT_TRUE(in->remove());
}

TEST_F(RefusedCalls, AMemfdIsMadeWhereTheKernelDoesNotKnowThatOneMayNotBeExecuted) {
  detail::kernel().memfd_create = [](const char* name, unsigned flags) {
    if ((flags & noexec_seal) != 0) {  // before 6.3
      errno = EINVAL;
      return -1;
    }
    return ::memfd_create(name, flags);
  };
  auto in = open_receiver("mem://noexec");
  ASSERT_TRUE(in) << in.error().text();
  EXPECT_TRUE(in->remove());
}

}  // namespace
}  // namespace atbus::test::refused_calls
