// Players of a fleet: each of a hundred says something to its own server of the service "chat", once in a tenth of
// a second, and to the next one if a message provably did not arrive. SIGTERM ends it: then it says what became of
// all that was said.
//
//   player ID ETCD TOKEN_FILE
#include <algorithm>
#include <map>

#include "common.h"

using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t players = 100;

class crowd {
 public:
  explicit crowd(atbus::node& node) : node_(node), chat_(node, "chat") {}

  void say(std::uint64_t player) {
    ++said_;
    ++waiting_;
    ask(player);
  }
  [[nodiscard]] std::size_t members() { return chat_.members().size(); }
  [[nodiscard]] bool waits() const { return waiting_ != 0; }
  void tell() const {
    std::cout << "said " << said_ << ", answered " << answered_ << ", said again " << again_;
    for (const auto& [how, count] : lost_)
      std::cout << ", " << how << " " << count;
    std::cout << std::endl;
  }

 private:
  void ask(std::uint64_t player) {
    const auto asked = node_.request(chat_.for_key(player), kSay, "hello", 20s,
                                     [this, player](const atbus::response& r) { take(player, r); });
    if (!asked)
      later_.push_back(player);  // nobody offers it now, or that server's queue is full
  }
  void take(std::uint64_t player, const atbus::response& r) {
    if (r) {
      ++answered_;
      --waiting_;
    } else if (r.how() == atbus::errc::not_delivered || r.how() == atbus::errc::no_route ||
               r.how() == atbus::errc::not_connected) {
      later_.push_back(player);  // no server has seen it
    } else {
      ++lost_[std::string{atbus::name(r.how().code())}];
      --waiting_;
    }
  }

 public:
  void say_again() {
    for (const std::uint64_t player : std::exchange(later_, {})) {
      ++again_;
      ask(player);
    }
  }

 private:
  atbus::node& node_;
  atbus::service chat_;
  std::vector<std::uint64_t> later_;
  std::uint64_t said_ = 0;
  std::uint64_t answered_ = 0;
  std::uint64_t again_ = 0;
  std::uint64_t waiting_ = 0;
  std::map<std::string, std::uint64_t> lost_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4)
    return std::cerr << "usage: player ID ETCD TOKEN_FILE\n", 2;
  const auto start = start::from(argv);
  if (start == nullptr)
    return 2;
  atbus::node node{start->id, start->options};
  node.on_log([](std::string_view line) { std::cerr << line << std::endl; });
  crowd all{node};
  std::size_t members = 0;
  auto next = atbus::now();
  while (node.is_open() && (asked_to_end == 0 || all.waits())) {
    if (all.members() != members) {
      members = all.members();
      std::cout << "chat has " << members << " servers" << std::endl;
    }
    if (asked_to_end == 0 && members != 0 && atbus::now() >= next) {
      next = atbus::now() + 100ms;
      for (std::uint64_t player = 0; player < players; ++player)
        all.say(player);
    }
    all.say_again();
    node.poll();
    node.wait(20ms);
  }
  all.tell();
}
