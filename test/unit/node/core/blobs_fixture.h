// Two nodes of a simulated network: the first one sends blobs to the second.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "unit/node/simulated_party.h"

namespace atbus::detail {

class Blobs : public ::testing::Test {
 protected:
  static constexpr std::uint32_t wanted_type = 7;
  static constexpr std::size_t window = node_options::blob_window_min;

  // What the sender of one was told. A blob that has no outcome yet gets one when the nodes go.
  class told {
   public:
    struct facts {
      int times = 0;
      status how;
      std::string text;
      std::uint64_t taken = 0;
    };
    [[nodiscard]] auto write() const {
      return [all = all_](const blob_outcome& o) {
        const foreign_code here;
        ++all->times;
        all->how = o.how();
        all->text = o.text();
        all->taken = o.taken();
      };
    }
    const facts* operator->() const { return all_.get(); }

   private:
    std::shared_ptr<facts> all_ = std::make_shared<facts>();
  };
  // What a receiver was told.
  struct heard {
    std::string bytes;
    int ends = 0;
    status how;
    std::optional<blob_id> id;
  };

  Blobs() {
    two.node.user().on_blob(wanted_type, [this](incoming_blob& blob) {
      const foreign_code here;
      ++begun;
      if (on_begin)
        return on_begin(blob);
      accept(blob);
    });
  }
  void accept(incoming_blob& blob) {
    blob.accept([this](const blob_part& part) {
      const foreign_code here;
      if (part.ended()) {
        ++got.ends;
        got.how = part.how();
        return;
      }
      EXPECT_EQ(part.position(), got.bytes.size());
      got.id = part.id();
      got.bytes += part.text();
      if (on_part)
        on_part(part);
    });
  }
  void connect() {
    one.connect(2);
    ASSERT_TRUE(net.run_until([&] { return one.is_connected(2) && two.is_connected(1); }, 5s));
    net.run_for(5ms);
  }
  blob_handle send(std::string_view bytes, told& to, std::uint64_t whom = 2,
                   std::uint32_t type = wanted_type, const blob_options& options = {}) {
    const auto owned = std::make_shared<const std::string>(bytes);
    const blob_handle sent =
        one.node.user().send_blob(whom, type, {owned, as_bytes(*owned)}, to.write(), options);
    one.node.wake();
    return sent;
  }
  static void expect(const told& of, errc how, std::string_view text = {}) {
    EXPECT_EQ(of->times, 1);
    EXPECT_EQ(of->how.code(), how) << name(of->how.code());
    EXPECT_EQ(of->text, text);
  }
  static std::string long_text(std::size_t size) {
    std::string made(size, ' ');
    for (std::size_t i = 0; i != size; ++i)
      made[i] = static_cast<char>('a' + (i * 7 + i / 1000) % 26);
    return made;
  }

  int begun = 0;
  heard got;
  std::function<void(incoming_blob&)> on_begin;
  std::function<void(const blob_part&)> on_part;
  simulated_network net{1};
  party one{net, 1, plain().blob_window(window)};
  party two{net, 2, plain().blob_window(window)};
};

}  // namespace atbus::detail
