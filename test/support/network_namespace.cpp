#include "network_namespace.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "shared_memory.h"

namespace atbus::test {
namespace {

constexpr const char* device = "cable";

std::string failed(const std::string& what, int code) {
  return what + ": " + std::strerror(code);
}

// One request to the kernel's network configuration (rtnetlink(7)).
class request {
 public:
  request(std::uint16_t type, int flags) : bytes_(NLMSG_LENGTH(0)) {
    header().nlmsg_type = type;
    header().nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | NLM_F_ACK | flags);
  }

  template <class Value>
  void append(const Value& value) {
    append_bytes(&value, sizeof value);
  }
  void attribute(int type, const void* value, std::size_t size) {
    const std::size_t begin = open(type);
    append_bytes(value, size);
    close(begin);
  }
  void attribute(int type, std::string_view text) { attribute(type, text.data(), text.size()); }
  // Between these, attributes of an attribute.
  std::size_t open(int type) {
    const std::size_t begin = bytes_.size();
    append(rtattr{.rta_len = 0, .rta_type = static_cast<unsigned short>(type)});
    return begin;
  }
  void close(std::size_t begin) {
    const auto size = static_cast<unsigned short>(bytes_.size() - begin);
    std::memcpy(bytes_.data() + begin + offsetof(rtattr, rta_len), &size, sizeof size);
    bytes_.resize(NLMSG_ALIGN(bytes_.size()));
  }

  // 0, or the error the kernel answers with.
  int send() {
    header().nlmsg_len = static_cast<std::uint32_t>(bytes_.size());
    const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0)
      return errno;
    struct {
      nlmsghdr header;
      nlmsgerr error;
      char rest[512];
    } answer{};
    int code = EPROTO;
    if (::send(fd, bytes_.data(), bytes_.size(), 0) < 0 ||
        recv(fd, &answer, sizeof answer, 0) < 0) {
      code = errno;
    } else if (answer.header.nlmsg_type == NLMSG_ERROR) {
      code = -answer.error.error;
    }
    ::close(fd);
    return code;
  }

 private:
  nlmsghdr& header() { return *reinterpret_cast<nlmsghdr*>(bytes_.data()); }
  void append_bytes(const void* value, std::size_t size) {
    const std::size_t begin = bytes_.size();
    bytes_.resize(begin + size);
    std::memcpy(bytes_.data() + begin, value, size);
  }

  std::vector<char> bytes_;
};

// Both ends have the same name, each in its namespace.
int lay_cable(int other_network) {
  request r{RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL};
  r.append(ifinfomsg{});
  r.attribute(IFLA_IFNAME, device);
  const std::size_t info = r.open(IFLA_LINKINFO);
  r.attribute(IFLA_INFO_KIND, "veth");
  const std::size_t data = r.open(IFLA_INFO_DATA);
  const std::size_t peer = r.open(VETH_INFO_PEER);
  r.append(ifinfomsg{});
  r.attribute(IFLA_IFNAME, device);
  r.attribute(IFLA_NET_NS_FD, &other_network, sizeof other_network);
  r.close(peer);
  r.close(data);
  r.close(info);
  return r.send();
}

int switch_link(const char* name, bool up) {
  ifinfomsg link{};
  link.ifi_index = static_cast<int>(if_nametoindex(name));
  link.ifi_flags = up ? IFF_UP : 0;
  link.ifi_change = IFF_UP;
  request r{RTM_NEWLINK, 0};
  r.append(link);
  return r.send();
}

int change(std::uint16_t type, const std::string& text) {
  const bool four = text.find(':') == std::string::npos;
  std::array<std::byte, 16> bytes{};
  if (inet_pton(four ? AF_INET : AF_INET6, text.c_str(), bytes.data()) != 1)
    return EINVAL;
  ifaddrmsg message{};
  message.ifa_family = four ? AF_INET : AF_INET6;
  message.ifa_prefixlen = four ? 24 : 64;
  message.ifa_flags = IFA_F_NODAD;  // usable at once
  message.ifa_index = if_nametoindex(device);
  request r{type, type == RTM_NEWADDR ? NLM_F_CREATE | NLM_F_REPLACE : 0};
  r.append(message);
  r.attribute(IFA_LOCAL, bytes.data(), four ? 4 : 16);
  r.attribute(IFA_ADDRESS, bytes.data(), four ? 4 : 16);
  return r.send();
}

bool write_file(const char* path, const std::string& text) {
  std::FILE* const file = std::fopen(path, "we");
  if (file == nullptr)
    return false;
  const bool written = std::fputs(text.c_str(), file) >= 0;
  return std::fclose(file) == 0 && written;
}

// Files keep their owner in there.
bool keep_user_id(uid_t user, gid_t group) {
  const std::string uid = std::to_string(user);
  const std::string gid = std::to_string(group);
  return write_file("/proc/self/setgroups", "deny") &&
         write_file("/proc/self/uid_map", uid + " " + uid + " 1") &&
         write_file("/proc/self/gid_map", gid + " " + gid + " 1");
}

int open_namespace(pid_t pid, const char* kind) {
  return open(("/proc/" + std::to_string(pid) + "/ns/" + kind).c_str(), O_RDONLY | O_CLOEXEC);
}

struct founding {
  shared_counter step;   // of the founder: one namespace after the other
  shared_counter taken;  // of the test: has opened it
  bool own_user = false;
  std::array<char, 256> reason{};
};

// In the founder. "" or why not.
std::string found_namespaces(founding& f) {
  const uid_t user = geteuid();
  const gid_t group = getegid();
  if (unshare(CLONE_NEWNET) != 0) {
    const std::string why = failed("unshare(CLONE_NEWNET)", errno);
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
      return why + failed(", with CLONE_NEWUSER", errno);
    f.own_user = true;
    if (!keep_user_id(user, group))
      return "can't keep the user id in a user namespace";
  }
  f.step.set(1);
  if (!f.taken.wait(1))
    return "nobody took the first namespace";
  if (unshare(CLONE_NEWNET) != 0)
    return failed("the second unshare(CLONE_NEWNET)", errno);
  f.step.set(2);
  return f.taken.wait(2) ? std::string{} : "nobody took the second namespace";
}

void keep(std::array<char, 256>& text, const std::string& what) {
  std::memcpy(text.data(), what.data(), std::min(what.size(), text.size() - 1));
}

}  // namespace

network_pair::network_pair() : refused_(build()) {}

network_pair::~network_pair() {
  for (const int fd : {user_, networks_[0], networks_[1]}) {
    if (fd >= 0)
      close(fd);
  }
}

std::string network_pair::build() {
  {
    const shared<founding> f;
    child_process founder{[&f] {
      keep(f->reason, found_namespaces(*f));
      f->step.set(99);
      return 0;
    }};
    for (std::uint32_t step = 1; step <= 2; ++step) {
      if (!f->step.wait(step))
        return "making namespaces takes too long";
      if (f->reason.front() != '\0')
        return "the kernel allows no network namespaces here: " + std::string{f->reason.data()};
      if (step == 1 && f->own_user)
        user_ = open_namespace(founder.pid(), "user");
      networks_[step - 1] = open_namespace(founder.pid(), "net");
      if (networks_[step - 1] < 0 || (f->own_user && user_ < 0))
        return failed("open a namespace", errno);
      f->taken.set(step);
    }
    (void)founder.wait_end();
  }
  std::string why = run(host::left, [this] {
    const int code = lay_cable(networks_[1]);
    return code == 0 ? std::string{} : failed("the kernel makes no veth devices", code);
  });
  for (const host at : {host::left, host::right}) {
    if (!why.empty())
      break;
    why = run(at, [] {
      const int code = switch_link("lo", true);
      return code == 0 ? std::string{} : failed("switch the loopback on", code);
    });
  }
  return why.empty() ? mend() : why;
}

bool network_pair::enter(host at) const {
  return (user_ < 0 || setns(user_, CLONE_NEWUSER) == 0) &&
         setns(networks_[index(at)], CLONE_NEWNET) == 0;
}

child_process network_pair::start(host at, std::function<int()> body) const {
  return child_process{[this, at, body = std::move(body)] { return enter(at) ? body() : 96; }};
}

std::string network_pair::run(host at, const std::function<std::string()>& body) const {
  const shared<std::array<char, 256>> text;
  child_process runner = start(at, [&] {
    keep(*text, body());
    return 0;
  });
  const std::string end = runner.wait_end();
  return end == "exit 0" ? std::string{text->data()} : "on a host: " + end;
}

std::string network_pair::cut() {
  return run(host::right, [] {
    const int code = switch_link(device, false);
    return code == 0 ? std::string{} : failed("cut the cable", code);
  });
}

std::string network_pair::mend() {
  for (const host at : {host::right, host::left}) {
    // A device that was switched off has lost its IPv6 addresses.
    const std::string why = run(at, [this, at] {
      if (const int code = switch_link(device, true); code != 0)
        return failed("mend the cable", code);
      for (const std::string& address : addresses_[index(at)]) {
        if (const int code = change(RTM_NEWADDR, address); code != 0)
          return failed("take address " + address, code);
      }
      return std::string{};
    });
    if (!why.empty())
      return why;
  }
  return {};
}

std::string network_pair::change_address(host at, const std::string& address) {
  std::string& current = addresses_[index(at)][address.find(':') == std::string::npos ? 0 : 1];
  const std::string why = run(at, [&] {
    if (const int code = change(RTM_DELADDR, current); code != 0)
      return failed("give up address " + current, code);
    const int code = change(RTM_NEWADDR, address);
    return code == 0 ? std::string{} : failed("take address " + address, code);
  });
  if (why.empty())
    current = address;
  return why;
}

}  // namespace atbus::test
