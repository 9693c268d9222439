// A directory that is a file, looked at by hand.
#include "node/directory/file_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <new>

#include "counting_allocator.h"
#include "scratch_directory.h"
#include "system/kernel.h"
#include "test.h"

namespace atbus::detail {
namespace {

using addresses = std::vector<std::string>;

class FileDirectory : public ::testing::Test {
 protected:
  void write(const std::string& text) const { std::ofstream{path_} << text; }
  void replace(const std::string& text) const {
    std::ofstream{path_ + ".new"} << text;
    ASSERT_EQ(rename((path_ + ".new").c_str(), path_.c_str()), 0);
  }
  static std::string node_7(const std::string& address) {
    return "[[node]]\nid = 7\naddresses = [\"" + address + "\"]\n";
  }
  // What has changed is read at the second look.
  error look_twice() {
    (void)nodes_.poll();
    return nodes_.poll();
  }

  test::scratch_directory scratch_;
  std::string path_ = scratch_.path() + "/nodes.toml";
  file_directory nodes_{path_};
};

TEST_F(FileDirectory, KnowsWhatStandsInTheFileFromTheFirstLookOn) {
  write(node_7("unix://@one"));
  EXPECT_TRUE(nodes_.poll());
  EXPECT_EQ(nodes_.lookup(7), addresses{"unix://@one"});
  EXPECT_TRUE(nodes_.lookup(8).empty());
}

TEST_F(FileDirectory, FollowsAFileThatIsEditedInPlaceOrReplaced) {
  write(node_7("unix://@one"));
  ASSERT_TRUE(nodes_.poll());
  write(node_7("unix://@two"));
  EXPECT_TRUE(look_twice());
  EXPECT_EQ(nodes_.lookup(7), addresses{"unix://@two"});
  replace(node_7("unix://@six"));
  EXPECT_TRUE(look_twice());
  EXPECT_EQ(nodes_.lookup(7), addresses{"unix://@six"});
}

TEST_F(FileDirectory, TellsEachChangeThoughItMissesAnAllocation) {
  if (!test::can_fail_allocations())
    GTEST_SKIP() << "this build can't let allocations fail";
  std::vector<std::vector<bus_id>> told(2);
  for (auto& one : told) {
    nodes_.watch([&one](bus_id id) {
      one.reserve(one.size() + 1);  // as of who keeps them: it takes memory
      one.push_back(id);
    });
  }
  bool missed = true;
  for (std::uint64_t good = 0; missed; ++good) {
    ASSERT_LT(good, 1000U);
    const std::string fresh = "unix://@" + std::to_string(1000 + good);
    for (auto& one : told)
      std::vector<bus_id>{}.swap(one);
    replace(node_7(fresh) + "[[node]]\nid = 8\naddresses = [\"" + fresh + "\"]\n");
    (void)nodes_.poll();
    {
      const test::allocation_failure next{good, 1};
      try {
        (void)nodes_.poll();
      } catch (const std::bad_alloc&) {
      }
      missed = test::allocation_failure::happened();
    }
    (void)look_twice();
    ASSERT_EQ(nodes_.lookup(8), addresses{fresh}) << good;
    for (const auto& one : told) {
      for (const bus_id id : {bus_id{7}, bus_id{8}})
        ASSERT_NE(std::count(one.begin(), one.end(), id), 0) << good;
    }
  }
}

TEST_F(FileDirectory, FollowsALinkThatIsTurned) {
  const std::string target = scratch_.path() + "/target";
  std::ofstream{target + "1"} << node_7("unix://@one");
  std::ofstream{target + "2"} << node_7("unix://@two");
  ASSERT_EQ(symlink((target + "1").c_str(), path_.c_str()), 0);
  ASSERT_TRUE(nodes_.poll());
  unlink(path_.c_str());
  ASSERT_EQ(symlink((target + "2").c_str(), path_.c_str()), 0);
  EXPECT_TRUE(look_twice());
  EXPECT_EQ(nodes_.lookup(7), addresses{"unix://@two"});
}

TEST_F(FileDirectory, ReadsNothingThatIsBeingWritten) {
  write(node_7("unix://@one"));
  ASSERT_TRUE(nodes_.poll());
  ASSERT_TRUE(nodes_.poll());
  write("");
  EXPECT_TRUE(nodes_.poll());
  write(node_7("unix://@two") + "[[node]]\n");
  EXPECT_TRUE(nodes_.poll());
  EXPECT_EQ(nodes_.lookup(7), addresses{"unix://@one"});
}

TEST_F(FileDirectory, ReadsAgainWhatItReadInItsFirstMoment) {
  write("");
  ASSERT_TRUE(nodes_.poll());
  // Who wrote on meanwhile can have left size and times as they were: another file stands for that.
  struct stat before {};
  ASSERT_EQ(stat(path_.c_str(), &before), 0);
  const auto untouched = kernel();
  static struct stat told;
  told = before;
  kernel().fstatat = [](int, const char*, struct stat* out, int) {
    *out = told;
    return 0;
  };
  write(node_7("unix://@one"));
  EXPECT_TRUE(nodes_.poll());
  kernel() = untouched;
  EXPECT_EQ(nodes_.lookup(7), addresses{"unix://@one"});
}

TEST_F(FileDirectory, ReadsAFileThatStaysAsItIsNoMoreThanTwice) {
  write(node_7("unix://@one"));
  ASSERT_TRUE(nodes_.poll());
  ASSERT_TRUE(nodes_.poll());
  const auto untouched = kernel();
  kernel().open = [](const char*, int, mode_t) {
    errno = EIO;
    return -1;
  };
  EXPECT_TRUE(nodes_.poll());
  EXPECT_TRUE(nodes_.poll());
  kernel() = untouched;
}

TEST_F(FileDirectory, KeepsWhatItKnewWhenTheFileIsMissingOrBroken) {
  write(node_7("unix://@one"));
  ASSERT_TRUE(nodes_.poll());
  unlink(path_.c_str());
  const error missing = look_twice();
  EXPECT_EQ(missing, errc::not_found);
  EXPECT_NE(missing.text().find("nodes.toml can't be read"), std::string::npos) << missing.text();
  EXPECT_EQ(nodes_.lookup(7), addresses{"unix://@one"});
  write("[[node]]\nid = seven\n");
  const error broken = look_twice();
  EXPECT_EQ(broken, errc::invalid_argument);
  EXPECT_NE(broken.text().find("nodes.toml:2:"), std::string::npos) << broken.text();
  EXPECT_EQ(nodes_.lookup(7), addresses{"unix://@one"});
  write(node_7("unix://@two"));
  EXPECT_TRUE(look_twice());
  EXPECT_EQ(nodes_.lookup(7), addresses{"unix://@two"});
}

TEST_F(FileDirectory, SaysThatItIsMissingForAsLongAsItIs) {
  EXPECT_EQ(nodes_.poll(), errc::not_found);
  EXPECT_EQ(nodes_.poll(), errc::not_found);
  EXPECT_EQ(nodes_.poll(), errc::not_found);
}

TEST_F(FileDirectory, WaitsForNothing) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(nodes_.poll(), errc::invalid_argument);
  unlink(path_.c_str());
  ASSERT_EQ(mkdir(path_.c_str(), 0700), 0);
  EXPECT_EQ(look_twice(), errc::invalid_argument);
}

TEST_F(FileDirectory, RefusesAFileThatIsTooLongUnread) {
  std::ofstream{path_}.close();
  ASSERT_EQ(truncate(path_.c_str(), watched_file_size_max + 1), 0);
  const error bad = nodes_.poll();
  EXPECT_NE(bad.text().find("more than 8M bytes"), std::string::npos) << bad.text();
}

TEST_F(FileDirectory, GoesOnAfterASignalAndSaysWhatCannotBeRead) {
  write(node_7("unix://@one"));
  static int calls;
  calls = 0;
  const auto untouched = kernel();
  kernel().read = [](int fd, void* data, std::size_t length) -> ssize_t {
    errno = ++calls == 1 ? EINTR : EIO;
    return calls == 1 || calls == 3 ? -1 : ::read(fd, data, length);
  };
  const error bad = nodes_.poll();
  kernel() = untouched;
  EXPECT_EQ(bad.system_code(), EIO);
  EXPECT_EQ(calls, 3);
}

TEST_F(FileDirectory, TellsWatchersWhichNodesHaveChanged) {
  write(node_7("unix://@one") + "[[node]]\nid = 8\naddresses = [\"unix://@8\"]\n");
  ASSERT_TRUE(nodes_.poll());
  std::vector<bus_id> changed;
  addresses seen;
  const directory::watch_id watch = nodes_.watch([&](bus_id id) {
    changed.push_back(id);
    seen = nodes_.lookup(id);
  });
  write(node_7("unix://@two") + "[[node]]\nid = 8\naddresses = [\"unix://@8\"]\n");
  ASSERT_TRUE(look_twice());
  EXPECT_EQ(changed, std::vector<bus_id>{7});
  EXPECT_EQ(seen, addresses{"unix://@two"});
  write(node_7("unix://@two"));
  ASSERT_TRUE(look_twice());
  EXPECT_EQ(changed, (std::vector<bus_id>{7, 8}));
  EXPECT_EQ(seen, addresses{});
  nodes_.unwatch(watch);
  write(node_7("unix://@three"));
  ASSERT_TRUE(look_twice());
  EXPECT_EQ(changed.size(), 2U);
}

TEST_F(FileDirectory, IsNotWritten) {
  EXPECT_EQ(nodes_.announce({.id = 7}), errc::not_supported);
}

TEST_F(FileDirectory, ReadsAnEditThatTheSystemRefusedAtItsFirstLook) {
  write(node_7("unix://@one"));
  ASSERT_TRUE(nodes_.poll());
  write(node_7("unix://@two"));
  const auto untouched = kernel();
  kernel().open = [](const char*, int, mode_t) {
    errno = EMFILE;
    return -1;
  };
  EXPECT_EQ(look_twice(), errc::system_error);
  kernel() = untouched;
  EXPECT_TRUE(nodes_.poll());
  EXPECT_EQ(nodes_.lookup(7), addresses{"unix://@two"});
}

}  // namespace
}  // namespace atbus::detail
