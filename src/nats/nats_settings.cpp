#include "nats/nats_settings.h"

#include <openssl/crypto.h>

#include <fstream>
#include <string_view>
#include <utility>
#include <vector>

#include "nats/carrier_frame.h"

namespace atbus::detail {
namespace {

constexpr std::size_t prefix_max = 100;

error bad(std::string_view option, std::string_view wanted) {
  return {errc::invalid_argument,
          "nats_options::" + std::string{option} + " must be " + std::string{wanted}};
}

// What it says when something went wrong first stays.
class setting {
 public:
  void use(natsStatus status, std::string_view what) {
    if (failed_ || status == NATS_OK)
      return;
    const char* const text = nats_GetLastError(nullptr);
    failed_ = true;
    why_ = {errc::invalid_argument,
            std::string{what} + ": " +
                (text != nullptr && *text != '\0' ? text : natsStatus_GetText(status))};
  }
  void fail(std::string text) {
    if (!std::exchange(failed_, true))
      why_ = {errc::invalid_argument, std::move(text)};
  }
  [[nodiscard]] error why() const { return why_; }

 private:
  bool failed_ = false;
  error why_;
};

// Without names and passwords: libnats keeps copies of what it is given.
void set_user(natsOptions& to, const std::string& path, setting& all) {
  std::ifstream file{path};
  std::string first;
  std::string second;
  if (!std::getline(file, first) || first.empty())
    return all.fail(path + ": no user in its first line");
  if (std::getline(file, second) && !second.empty())
    all.use(natsOptions_SetUserInfo(&to, first.c_str(), second.c_str()), path);
  else
    all.use(natsOptions_SetToken(&to, first.c_str()), path);
  OPENSSL_cleanse(first.data(), first.size());
  OPENSSL_cleanse(second.data(), second.size());
}

void set_tls(natsOptions& to, const nats_options& from, setting& all) {
  if (!from.tls && from.authority.empty() && from.certificate.empty())
    return;
  all.use(natsOptions_SetSecure(&to, true), "tls");
  if (!from.authority.empty())
    all.use(natsOptions_LoadCATrustedCertificates(&to, from.authority.c_str()), from.authority);
  if (!from.certificate.empty())
    all.use(natsOptions_LoadCertificatesChain(&to, from.certificate.c_str(), from.key.c_str()),
            from.certificate);
}

void set_servers(natsOptions& to, const nats_options& from, const std::string& server,
                 setting& all) {
  std::vector<std::string> urls{"nats://" + server};
  for (const std::string& other : from.servers) {
    if (other != server)
      urls.push_back("nats://" + other);
  }
  std::vector<const char*> texts;
  for (const std::string& url : urls)
    texts.push_back(url.c_str());
  all.use(natsOptions_SetServers(&to, texts.data(), static_cast<int>(texts.size())), server);
}

// Times in milliseconds.
void set_behaviour(natsOptions& to, setting& all) {
  all.use(natsOptions_SetName(&to, "atbus"), "name");
  all.use(natsOptions_SetNoRandomize(&to, true), "order of servers");
  all.use(natsOptions_SetTimeout(&to, 2000), "timeout");
  all.use(natsOptions_SetPingInterval(&to, 2000), "pings");
  all.use(natsOptions_SetMaxPingsOut(&to, 2), "pings");
  all.use(natsOptions_SetMaxReconnect(&to, -1), "reconnects");
  all.use(natsOptions_SetReconnectWait(&to, 250), "reconnects");
  all.use(natsOptions_SetReconnectJitter(&to, 100, 100), "reconnects");
  // Nothing waits for another connection: the links have ended by then.
  all.use(natsOptions_SetReconnectBufSize(&to, 1), "reconnects");
  all.use(natsOptions_SetSendAsap(&to, true), "sending");
  all.use(natsOptions_SetWriteDeadline(&to, 2000), "sending");
  all.use(natsOptions_SetIOBufSize(&to, 128 * 1024), "buffers");
}

void set_callbacks(natsOptions& to, const nats_mailbox& tells, setting& all) {
  void* const closure = tells.closure();
  all.use(natsOptions_SetDisconnectedCB(&to, nats_mailbox::on_disconnected, closure), "callbacks");
  all.use(natsOptions_SetClosedCB(&to, nats_mailbox::on_closed, closure), "callbacks");
  all.use(natsOptions_SetErrorHandler(&to, nats_mailbox::on_error, closure), "callbacks");
}

}  // namespace

error check_nats(const nats_options& options) {
  if (options.inbox_prefix.size() > prefix_max || !is_subject(options.inbox_prefix))
    return bad("inbox_prefix", "a subject of at most 100 bytes without wildcards");
  if (options.certificate.empty() != options.key.empty())
    return bad("certificate", "given together with key");
  if (!options.credentials.empty() && !options.user_file.empty())
    return bad("credentials", "given without user_file");
  for (const std::string& server : options.servers) {
    if (!address::parse("nats://" + server + "/subject"))
      return bad("servers", "of the form host:port");
  }
  return {};
}

error configure_nats(natsOptions& to, const nats_options& from, const std::string& server,
                     const nats_mailbox& tells) {
  setting all;
  set_servers(to, from, server, all);
  set_behaviour(to, all);
  set_callbacks(to, tells, all);
  set_tls(to, from, all);
  if (!from.credentials.empty())
    all.use(natsOptions_SetUserCredentialsFromFiles(&to, from.credentials.c_str(), nullptr),
            from.credentials);
  if (!from.user_file.empty())
    set_user(to, from.user_file, all);
  return all.why();
}

}  // namespace atbus::detail
