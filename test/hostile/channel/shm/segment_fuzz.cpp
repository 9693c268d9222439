// A segment that holds any bytes whatsoever, changed at any moment between two steps or inside a
// handler: whoever attaches, polls, sends, takes back, waits or counts does not crash, does not
// hang, and reads and writes nothing outside its lanes.
//
// The input is a program of small steps for one attacker, one receiver and two senders. Every
// mapping of the library lies between two pages without access, so that the first byte outside it
// ends the run; every byte handed to a handler is read, and has to lie in the lane it is said to
// come from.
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <vector>

#include "atbus/receiver.hpp"
#include "atbus/sender.hpp"
#include "hostile/channel/shm/hostile_segment.h"
#include "system/kernel.h"

namespace {

using namespace atbus;
using namespace atbus::hostile;
using detail::lane_slot;
using detail::record_kind;

void require(bool held) {
  if (!held)
    std::abort();  // how libFuzzer learns of a broken promise
}

// --- guarded mappings

struct mapped {
  std::byte* base;
  std::size_t size;
  std::uint64_t offset;
};
std::vector<mapped> mappings;
constexpr std::size_t guard = 4096;

void* guarded_mmap(void* address, std::size_t size, int protection, int flags, int fd,
                   off_t offset) {
  void* const whole =
      mmap(nullptr, size + 2 * guard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (whole == MAP_FAILED || address != nullptr)
    return MAP_FAILED;
  std::byte* const base = static_cast<std::byte*>(whole) + guard;
  if (mmap(base, size, protection, flags | MAP_FIXED, fd, offset) == MAP_FAILED) {
    munmap(whole, size + 2 * guard);
    return MAP_FAILED;
  }
  mappings.push_back({base, size, static_cast<std::uint64_t>(offset)});
  return base;
}
int guarded_munmap(void* address, std::size_t size) {
  std::erase_if(mappings, [&](const mapped& m) { return m.base == address; });
  return munmap(static_cast<std::byte*>(address) - guard, size + 2 * guard);
}

// Whether the bytes are the payload of a record that lies whole in that lane. `lane` is its place
// in the file.
bool lies_in(mapped lane, bytes_view bytes) {
  for (const mapped& m : mappings) {
    if (bytes.data() < m.base || bytes.data() >= m.base + m.size)
      continue;
    const std::uint64_t at = m.offset + static_cast<std::uint64_t>(bytes.data() - m.base);
    return at >= lane.offset + detail::record_header_size && at % 8 == 0 &&
           at + bytes.size() <= lane.offset + lane.size;
  }
  return false;
}

volatile unsigned sum_of_everything;
void touch(bytes_view bytes) {
  unsigned sum = 0;
  for (const std::byte b : bytes)
    sum += static_cast<unsigned>(b);
  sum_of_everything = sum;
}

// --- the program

class input {
 public:
  input(const std::uint8_t* data, std::size_t size) : at_{data}, end_{data + size} {}
  [[nodiscard]] bool empty() const noexcept { return at_ == end_; }
  std::uint8_t byte() noexcept { return at_ == end_ ? std::uint8_t{0} : *at_++; }
  std::uint64_t number(int bytes) noexcept {
    std::uint64_t value = 0;
    for (int i = 0; i < bytes; ++i)
      value |= std::uint64_t{byte()} << (8 * i);
    return value;
  }

 private:
  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

struct patch {
  std::size_t offset;
  std::uint64_t value;
};

class world {
 public:
  explicit world(input program) : in_{program} {}
  ~world() {
    senders_ = {};
    receiver_.reset();
    for (const std::string& name : names_in(directory().path()))
      unlink((directory().path() + "/" + name).c_str());
  }
  world(const world&) = delete;
  world& operator=(const world&) = delete;

  void run() {
    open_receiver(0);
    open_sender(0);
    for (int steps = 0; steps < 64 && !in_.empty(); ++steps)
      step();
    poll(64);
  }

 private:
  static private_directory& directory() {
    static private_directory d;
    return d;
  }

  void step() {
    switch (const std::uint8_t what = in_.byte(); what % 20) {
      case 0:
      case 1:
      case 2:
        return apply(read_patch());
      case 3:
        return for_handler_.push_back(read_patch());
      case 4:
        return publish_record();
      case 5:
        return move_lane();
      case 6:
        return open_receiver(in_.byte());
      case 7:
        return open_sender(what / 20 % 2);
      case 8:
        return poll(in_.byte());
      case 9:
        return send(what / 20 % 2);
      case 10:
        return take_back(what / 20 % 2);
      case 11:
        senders_[what / 20 % 2].reset();
        return;
      case 12:
        receiver_.reset();
        return;
      case 13:
        return sleep_receiver();
      case 14:
        return wait_writable(what / 20 % 2);
      case 15:
        return count();
      case 16:
        return ring();
      case 17:
        return resize();
      case 18:
        close_in_handler_ = true;
        return;
      default:
        return remove();
    }
  }

  // --- the attacker

  // Values that decide something: small, near a position of the lane, near the end of all numbers.
  std::uint64_t read_value(const lane_slot* slot) {
    const std::uint8_t mode = in_.byte();
    const auto delta = static_cast<std::uint64_t>(static_cast<std::int8_t>(in_.byte())) *
                       ((mode & 0x80) != 0 ? 1U : 8U);
    if (slot == nullptr)
      return (mode & 1) != 0 ? in_.number(8) : delta;
    switch (mode % 8) {
      case 0:
        return slot->tail.load() + delta;
      case 1:
        return slot->head.load() + delta;
      case 2:
        return slot->done.load() + delta;
      case 3:
        return slot->handling.load() + delta;
      case 4:
        return slot->done.load() + lane_size + delta;
      case 5:
        return in_.number(8);
      case 6:
        return (delta << 36) | in_.byte();
      default:
        return delta;
    }
  }
  patch read_patch() {
    const std::uint8_t where = in_.byte();
    const std::uint32_t lane = where / 8 % lanes;
    const detail::segment_geometry g{lanes, lane_size, message_limit};
    const lane_slot* const slot = raw_ ? &raw_->slot(lane) : nullptr;
    const std::size_t slot_at = g.table_offset() + lane * sizeof(lane_slot);
    switch (where % 8) {
      case 0:
        return {in_.byte() % sizeof(detail::segment_identity), read_value(nullptr)};
      case 1:
        return {in_.byte() * std::size_t{8}, read_value(nullptr)};
      case 2:
      case 3:
        return {slot_at + words_of_lane[in_.byte() % std::size(words_of_lane)].offset,
                read_value(slot)};
      case 4:
        return {slot_at + in_.byte() % 128 * 8, read_value(slot)};
      case 5:
        return {g.lane_offset(lane) + in_.number(2) % lane_size, in_.number(8)};
      default: {
        const std::uint64_t position = read_value(slot) & ~std::uint64_t{7};
        return {g.lane_offset(lane) + (position & (lane_size - 1)), read_header()};
      }
    }
  }
  std::uint64_t read_header() {
    constexpr record_kind kinds[] = {record_kind::message, record_kind::padding, record_kind::open};
    const std::uint8_t kind = in_.byte();
    std::uint64_t length = in_.number(2);
    if ((kind & 0x40) != 0)
      length = length << 16 | length;
    if ((kind & 0x20) != 0)
      length %= lane_size;
    if (kind % 8 == 7)
      return in_.number(8);
    return detail::make_record_header(kinds[kind % 3], kind % 8 == 6 ? 64 : length);
  }
  void apply(const patch& p) {
    if (raw_ && p.offset + 8 <= raw_->size())
      std::memcpy(raw_->base() + p.offset, &p.value, 8);
  }
  // As a sender would, but of whatever kind and length.
  void publish_record() {
    if (!raw_)
      return;
    const std::uint32_t lane = in_.byte() % lanes;
    lane_slot& slot = raw_->slot(lane);
    const std::uint64_t tail = slot.tail.load() & ~std::uint64_t{7};
    const std::uint64_t header = read_header();
    std::memcpy(raw_->record(lane, tail), &header, 8);
    const std::uint64_t size = detail::record_size(detail::record_length(header));
    slot.tail.store(tail + (size > lane_size ? 8 : size) + (in_.byte() % 4) * 8);
    raw_->header().ready[0].fetch_or(std::uint64_t{1} << lane);
  }
  // All positions of a lane, consistent, but anywhere in the range of numbers.
  void move_lane() {
    if (!raw_)
      return;
    lane_slot& slot = raw_->slot(in_.byte() % lanes);
    const std::uint64_t base = std::uint64_t{0} - in_.number(2) * 8;
    slot.head.store(base);
    slot.done.store(base);
    slot.handling.store(base + in_.byte() % 2 * 8);
    slot.tail.store(base + in_.byte() * std::uint64_t{8});
  }
  void ring() {
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_un bell{.sun_family = AF_UNIX, .sun_path = {}};
    const std::string path = directory().bell_path("fuzz");
    std::memcpy(bell.sun_path, path.c_str(), path.size());
    const std::uint64_t word = in_.number(8);
    if (connect(fd, reinterpret_cast<sockaddr*>(&bell), sizeof bell) == 0) {
      for (std::uint8_t i = in_.byte() % 4; i > 0; --i)
        (void)::send(fd, &word, in_.byte() % 9, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    ::close(fd);
  }
  // Of a file that nobody has mapped: cutting one that is mapped is beyond what any check can stop.
  void resize() {
    if (receiver_ || senders_[0] || senders_[1])
      return;
    raw_.reset();
    (void)truncate(directory().segment_path("fuzz").c_str(),
                   static_cast<off_t>(in_.number(2) * 8 + (in_.byte() % 2) * 8192));
  }

  // --- the victims

  void open_receiver(std::uint8_t how) {
    receiver_.reset();
    receiver_options o;
    o.directory = directory().path();
    o.spin = {};
    o.copy_on_receive = (how & 1) != 0;
    copies_ = o.copy_on_receive;
    if ((how & 2) == 0) {
      o.lanes = lanes;
      o.lane_size = lane_size;
      o.message_limit = message_limit;
    }
    if ((how & 2) != 0 && !raw_)
      return;  // the defaults would make a large segment
    auto opened = receiver::open("shm://fuzz", o);
    if (!opened) {
      require(is_printable(opened.error().text()) && !opened.error().text().empty());
      return;
    }
    receiver_.emplace(std::move(*opened));
    lanes_ = mappings.back();
    receiver_->on_problem([](const error& e) { require(is_printable(e.text())); });
    remap();
  }
  void remap() {
    raw_.reset();
    raw_segment now_named{directory().segment_path("fuzz")};
    const detail::segment_geometry g{lanes, lane_size, message_limit};
    if (now_named && now_named.size() == g.file_size() && now_named.geometry() == g)
      raw_.emplace(std::move(now_named));
  }
  void open_sender(std::size_t which) {
    sender_options o;
    o.directory = directory().path();
    o.spin = {};
    senders_[which].reset();
    auto opened = sender::open("shm://fuzz", o);
    if (opened) {
      senders_[which].emplace(std::move(*opened));
      own_lane_[which] = mappings.back();
    } else {
      require(is_printable(opened.error().text()) && !opened.error().text().empty());
    }
  }
  void handle(const received_message& m) {
    // As it read them from a header which the attacker may have written.
    require(m.lane < receiver_->lane_count() && m.bytes.size() <= receiver_->message_limit());
    mapped lane = lanes_;
    lane.size /= receiver_->lane_count();
    lane.offset += m.lane * lane.size;
    require(copies_ || lies_in(lane, m.bytes));
    touch(m.bytes);
    if (!for_handler_.empty()) {
      apply(for_handler_.back());
      for_handler_.pop_back();
      touch(m.bytes);
    }
    if (close_in_handler_) {
      close_in_handler_ = false;
      receiver_->close();
    }
  }
  void poll(std::size_t most) {
    if (!receiver_)
      return;
    receiver_->poll([this](const received_message& m) { handle(m); }, {.messages = most});
    if (!receiver_->is_open())
      receiver_.reset();
  }
  void send(std::size_t which) {
    const std::size_t length = in_.number(2) % (message_limit + 2);
    if (!senders_[which])
      return;
    sender& out = *senders_[which];
    const std::uint8_t how = in_.byte();
    const std::vector<std::byte> message(length, std::byte{how});
    if (how % 3 == 0) {
      (void)out.send(message);
    } else if (how % 3 == 1) {
      if (auto slot = out.claim(length)) {
        std::memset(slot.bytes().data(), how, length);
        if ((how & 8) != 0)
          slot.commit(length / 2);
      }
    } else {
      auto batch = out.batch();
      for (int i = 0; i < how % 8; ++i)
        (void)batch.send(message);
    }
  }
  void take_back(std::size_t which) {
    if (!senders_[which])
      return;
    const std::uint64_t limit = senders_[which]->message_limit();
    (void)senders_[which]->take_back([&](bytes_view bytes, errc) {
      require(bytes.size() <= limit && lies_in(own_lane_[which], bytes));
      touch(bytes);
    });
  }
  void sleep_receiver() {
    if (!receiver_)
      return;
    (void)receiver_->wait(std::chrono::nanoseconds{0});
    if (receiver_->prepare_sleep()) {
      apply(read_patch());
      receiver_->finish_sleep();
    }
  }
  void wait_writable(std::size_t which) {
    if (senders_[which])
      (void)senders_[which]->wait_writable(std::chrono::nanoseconds{0}, in_.byte() * 8U);
  }
  void count() {
    if (receiver_)
      (void)receiver_->stats();
    for (const auto& s : senders_) {
      if (s) {
        (void)s->stats();
        (void)s->receiver_alive();
      }
    }
  }
  void remove() {
    if (receiver_ && in_.byte() % 4 == 0) {
      (void)receiver_->remove();
      receiver_.reset();
    }
  }

  input in_;
  std::optional<raw_segment> raw_;
  std::optional<receiver> receiver_;
  std::array<std::optional<sender>, 2> senders_;
  mapped lanes_{};                    // the receiver's mapping of all of them
  std::array<mapped, 2> own_lane_{};  // each sender's of its own
  std::vector<patch> for_handler_;
  bool close_in_handler_ = false;
  bool copies_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  detail::kernel().mmap = guarded_mmap;
  detail::kernel().munmap = guarded_munmap;
  world{input{data, size}}.run();
  require(mappings.empty());
  return 0;
}
