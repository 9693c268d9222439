// boost::interprocess::message_queue.
//
// Settings: every slot has the size of the largest message and all are allocated at once (its
// documentation, "Message Queue"); as many as make 1 MiB, which stays in the cache, 16 at least.
#include <boost/date_time/posix_time/posix_time_types.hpp>
#include <boost/interprocess/ipc/message_queue.hpp>

#include "harness/roles.h"

namespace atbus::compare {
namespace {

namespace ipc = boost::interprocess;

constexpr std::uint64_t queue_bytes = 1 << 20;

std::size_t slots(const options& run) {
  return static_cast<std::size_t>(std::clamp<std::uint64_t>(queue_bytes / run.bytes_max, 16, 8192));
}

struct boost_queue {
  static constexpr bool has_threads = false;

  class inbox {
   public:
    inbox(const options& run, const std::string& address) : name_{address}, own_(slot_bytes(run)) {
      ipc::message_queue::remove(name_.c_str());
      queue_ = std::make_unique<ipc::message_queue>(ipc::create_only, name_.c_str(), slots(run),
                                                    own_.size());
    }
    ~inbox() {
      queue_.reset();
      ipc::message_queue::remove(name_.c_str());
    }

    template <class Handler>
    void poll(Handler&& handler, std::chrono::milliseconds patience) {
      std::size_t length = 0;
      unsigned priority = 0;
      const bool got =
          patience.count() == 0
              ? queue_->try_receive(own_.data(), own_.size(), length, priority)
              : queue_->timed_receive(own_.data(), own_.size(), length, priority,
                                      boost::posix_time::microsec_clock::universal_time() +
                                          boost::posix_time::milliseconds(patience.count()));
      if (got) {
        handler(std::span<const std::byte>{own_.data(), length});
      }
    }

   private:
    static std::size_t slot_bytes(const options& run) {
      return std::max<std::size_t>(run.bytes_max, marker_bytes);
    }

    std::string name_;
    std::vector<std::byte> own_;
    std::unique_ptr<ipc::message_queue> queue_;
  };

  class outlet {
   public:
    outlet(const options& run, const std::string& address)
        : own_(std::max<std::size_t>(run.bytes_max, marker_bytes)) {
      retry([&] {
        try {
          queue_ = std::make_unique<ipc::message_queue>(ipc::open_only, address.c_str());
        } catch (const ipc::interprocess_exception&) {
          return false;  // not made yet
        }
        return true;
      });
    }

    template <class Compose>
    bool send(std::size_t length, Compose&& compose) {
      compose(own_.data());
      return queue_->try_send(own_.data(), length, 0);
    }

    void publish() noexcept {}
    void wait_for_room() noexcept { std::this_thread::yield(); }
    void finish() noexcept {}

   private:
    std::vector<std::byte> own_;
    std::unique_ptr<ipc::message_queue> queue_;
  };
};

}  // namespace
}  // namespace atbus::compare

int main(int argc, char** argv) {
  return atbus::compare::run<atbus::compare::boost_queue>(argc, argv);
}
