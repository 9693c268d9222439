// Connections to other cache servers.
#pragma once

#include <sys/uio.h>

#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace atbus::bench {

// `address` is the path of a Unix socket, or a port of this host. The descriptor does not block. -1
// and errno: nothing listens there.
int connect_to_cache(const std::string& address) noexcept;

// One connection, which does not block. What is written is kept until the kernel takes it; what has
// come is kept until it is dropped. Functions throw std::runtime_error if the connection is lost.
class cache_connection {
 public:
  // `longest`: bytes of the longest answer.
  cache_connection(const std::string& address, std::size_t longest);
  ~cache_connection();
  cache_connection(const cache_connection&) = delete;
  cache_connection& operator=(const cache_connection&) = delete;

  void write(std::string_view text);
  // The same without a copy: `text` must be valid until it is written.
  void write_in_place(std::string_view text);

  // Hands over what the kernel takes, and reads what there is. False: neither was possible.
  bool move();
  // Sleeps until `move` has something to do, or some milliseconds have passed.
  void wait() noexcept;

  // What has come.
  [[nodiscard]] std::string_view received() const noexcept {
    return {buffer_.data() + begin_, end_ - begin_};
  }
  void drop(std::size_t length) noexcept { begin_ += length; }

 private:
  struct piece {
    const char* text;  // null: the next bytes of text_
    std::size_t length;
  };

  bool send();
  bool receive();

  int descriptor_;
  std::vector<char> text_;
  std::size_t text_begin_ = 0;
  std::deque<piece> pieces_;
  std::vector<iovec> vectors_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t longest_;
};

}  // namespace atbus::bench
