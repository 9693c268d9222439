// Takes one file of the sender into a directory: receive_file [DIRECTORY [address]]. Until all of it is there it
// has another name.
#include <atbus/atbus.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

int main(int argc, char** argv) {
  const std::filesystem::path directory = argc > 1 ? argv[1] : ".";
  atbus::node node{2};
  node.on_log([](std::string_view line) { std::cerr << line << std::endl; });
  node.on_blob(0, [&](atbus::incoming_blob& blob) {
    const std::filesystem::path name{blob.note()};
    // The name comes from somebody else: no path, and nothing hidden.
    if (name.empty() || name != name.filename() || name.string().front() == '.')
      return blob.refuse("that is no name for a file");
    const std::filesystem::path part = directory / (name.string() + ".part");
    std::ofstream file{part, std::ios::binary};
    if (!file)
      return blob.refuse("no file can be made here");
    blob.accept([&node, file = std::move(file), part,
                 whole = directory / name](const atbus::blob_part& p) mutable {
      if (!p.ended()) {
        const auto size = static_cast<std::streamsize>(p.bytes().size());
        if (file.write(p.text().data(), size) && (!p.is_last() || file.flush()))
          return;
        p.refuse("the file can't be written");
      }
      std::error_code bad;
      if (p.ended() && p.how())
        std::filesystem::rename(part, whole, bad);
      else
        std::filesystem::remove(part, bad);
      std::cout << whole.filename().string() << ": " << p.position() << " bytes, "
                << (p.ended() ? atbus::name(p.how().code()) : "can't be written") << std::endl;
      node.stop();
    });
  });
  if (auto s = node.listen(argc > 2 ? argv[2] : "shm://files"); !s)
    return s.print(), 1;
  return node.run() ? 0 : 1;
}
