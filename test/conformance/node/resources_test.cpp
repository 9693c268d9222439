// What a node takes of its process and of the machine, through every kind of address.
#include <fcntl.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <set>

#include "node_fixture.h"

namespace atbus::test {
namespace {

std::chrono::nanoseconds thread_cpu_time() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return std::chrono::seconds{t.tv_sec} + std::chrono::nanoseconds{t.tv_nsec};
}

std::size_t threads_of_process() {
  const std::filesystem::directory_iterator all{"/proc/self/task"};
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

std::set<int> open_descriptors() {
  std::set<int> all;
  for (const auto& one : std::filesystem::directory_iterator{"/proc/self/fd"})
    all.insert(std::stoi(one.path().filename()));
  std::erase_if(all, [](int fd) { return fcntl(fd, F_GETFD) < 0; });  // that of the listing
  return all;
}

class NodeResources : public NodeFixture {
 protected:
  void exchange_messages() {
    connect_both();
    ASSERT_TRUE(first->send(2, 0, "there"));
    ASSERT_TRUE(second->send(1, 0, "back"));
    ASSERT_TRUE(turn({&*first, &*second}, [&] {
      return first_log.messages.size() == 1 && second_log.messages.size() == 1;
    }));
  }
};

// `wait` is what is under test: it returns when there is something to do, or at its deadline.
TEST_P(NodeResources, AnIdlePairUsesNoCpu) {
  exchange_messages();
  const auto idle = [](node& at) {
    for (const auto until = now() + 200ms; now() < until;) {
      if (at.wait(until - now()))
        at.poll();
    }
  };
  // Links settle at first, and on a busy machine the time of others may count as ours.
  std::chrono::nanoseconds least = 1h;
  for (int i = 0; i < 20 && least >= 2ms; ++i) {
    const auto before = thread_cpu_time();
    idle(*first);
    idle(*second);
    least = std::min(least, thread_cpu_time() - before);
  }
  EXPECT_LT(least, 2ms);
}

TEST_P(NodeResources, StartsNoThread) {
  const std::size_t before = threads_of_process();
  exchange_messages();
  EXPECT_EQ(threads_of_process(), before);
}

TEST_P(NodeResources, LeavesNoDescriptorToAnotherProgram) {
  const std::set<int> before = open_descriptors();
  exchange_messages();
  const node_sender of_thread = first->sender();
  std::size_t opened = 0;
  for (const int fd : open_descriptors()) {
    if (before.contains(fd))
      continue;
    ++opened;
    EXPECT_NE(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0)
        << fd << ": " << std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd));
  }
  EXPECT_GT(opened, 0U);
}

TEST_P(NodeResources, GivesBackEveryDescriptor) {
  const std::set<int> before = open_descriptors();
  exchange_messages();
  first.reset();
  second.reset();
  EXPECT_EQ(open_descriptors(), before);
}

INSTANTIATE_TEST_SUITE_P(Kinds, NodeResources, ::testing::ValuesIn(node_kinds()),
                         [](const auto& kind) { return std::string{kind.param.name}; });

}  // namespace
}  // namespace atbus::test
