// Sends a file to the receiver: send_file FILE [address]. The bytes go from the file straight into the channel.
#include <atbus/atbus.hpp>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>

int main(int argc, char** argv) {
  if (argc < 2)
    return std::cerr << "usage: " << argv[0] << " FILE [ADDRESS]\n", 2;
  const std::filesystem::path path = argv[1];
  std::ifstream file{path, std::ios::binary};
  std::error_code bad;
  const std::uintmax_t size = std::filesystem::file_size(path, bad);
  if (!file || bad)
    return std::cerr << path.string() << " can't be read\n", 1;

  atbus::node node{1};
  node.on_log([](std::string_view line) { std::cerr << line << std::endl; });
  if (auto s = node.connect(2, argc > 2 ? argv[2] : "shm://files"); !s)
    return s.print(), 1;
  const auto read = [&file](atbus::mutable_bytes room) -> atbus::status {
    const auto wanted = static_cast<std::streamsize>(room.size());
    return file.read(reinterpret_cast<char*>(room.data()), wanted) ? atbus::errc::ok
                                                                   : atbus::errc::system_error;
  };
  bool taken = false;
  const auto sent = node.send_blob(2, 0, {size, read},
                                   [&](const atbus::blob_outcome& o) {
                                     taken = static_cast<bool>(o);
                                     std::cout << (o ? "sent" : o.how().text()) << ' ' << o.text()
                                               << std::endl;
                                     node.stop();
                                   },
                                   {.note = path.filename().string()});
  if (!sent)
    return sent.why().print(), 1;
  node.run();
  return taken ? 0 : 1;
}
