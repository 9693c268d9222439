// Cyclone DDS: one topic of octet sequences, over UDP on loopback or its shared memory.
//
// Settings: reliable writers, batches in one datagram (dds_write_set_batch, dds_write_flush), samples
// lent by the reader (dds_take with a loan). Through shared memory only KEEP_LAST is possible; over
// UDP all are kept until they are read. The rest stands in cyclonedds.xml.
#include <dds/dds.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "cyclonedds.h"
#include "harness/roles.h"

namespace atbus::compare {
namespace {

constexpr int samples_at_once = 64;
constexpr int kept_samples = 256;
constexpr dds_duration_t block_at_most = DDS_MSECS(50);

dds_entity_t require(dds_entity_t made, const char* what) {
  if (made < 0) {
    throw std::runtime_error(std::string{what} + ": " + dds_strretcode(-made));
  }
  return made;
}

bool shares_memory() noexcept {
  const char* const settings = std::getenv("CYCLONEDDS_URI");
  return settings != nullptr && std::string_view{settings}.find("shm") != std::string_view::npos;
}

// A participant of its own with the topic that the address names.
class site {
 public:
  explicit site(std::string address)
      : participant{require(dds_create_participant(DDS_DOMAIN_DEFAULT, nullptr, nullptr),
                            "participant")},
        settings{dds_create_qos()} {
    std::replace(address.begin(), address.end(), '-', '_');
    dds_qset_reliability(settings, DDS_RELIABILITY_RELIABLE, block_at_most);
    if (shares_memory()) {
      dds_qset_history(settings, DDS_HISTORY_KEEP_LAST, kept_samples);
    } else {
      dds_qset_history(settings, DDS_HISTORY_KEEP_ALL, 0);
    }
    topic = require(
        dds_create_topic(participant, &compare_blob_desc, address.c_str(), settings, nullptr),
        "topic");
  }
  site(const site&) = delete;
  site& operator=(const site&) = delete;
  ~site() {
    dds_delete_qos(settings);
    dds_delete(participant);
  }

  dds_entity_t participant;
  dds_qos_t* settings;
  dds_entity_t topic = 0;
};

struct cyclone {
  static constexpr bool has_threads = true;

  class inbox {
   public:
    inbox(const options&, const std::string& address)
        : site_{address},
          reader_{
              require(dds_create_reader(site_.participant, site_.topic, site_.settings, nullptr),
                      "reader")},
          readable_{require(dds_create_readcondition(reader_, DDS_ANY_STATE), "condition")},
          waitset_{require(dds_create_waitset(site_.participant), "waitset")} {
      require(dds_waitset_attach(waitset_, readable_, 0), "attach");
    }

    template <class Handler>
    void poll(Handler&& handler, std::chrono::milliseconds patience) {
      if (!take(handler) && patience.count() != 0) {
        dds_waitset_wait(waitset_, nullptr, 0, DDS_MSECS(patience.count()));
        take(handler);
      }
    }

   private:
    template <class Handler>
    bool take(Handler&& handler) {
      void* samples[samples_at_once]{};
      dds_sample_info_t facts[samples_at_once];
      const int count =
          require(dds_take(reader_, samples, facts, samples_at_once, samples_at_once), "take");
      for (int i = 0; i < count; ++i) {
        if (facts[i].valid_data) {
          const auto& bytes = static_cast<const compare_blob*>(samples[i])->bytes;
          handler(std::span{reinterpret_cast<const std::byte*>(bytes._buffer),
                            static_cast<std::size_t>(bytes._length)});
        }
      }
      if (count > 0) {
        dds_return_loan(reader_, samples, count);
      }
      return count > 0;
    }

    site site_;
    dds_entity_t reader_;
    dds_entity_t readable_;
    dds_entity_t waitset_;
  };

  class outlet {
   public:
    outlet(const options& run, const std::string& address)
        : site_{address}, own_(std::max<std::size_t>(run.bytes_max, marker_bytes)) {
      // What is batched leaves with `publish`, which full speed has no use for before the end.
      dds_write_set_batch(true);
      writer_ = require(dds_create_writer(site_.participant, site_.topic, site_.settings, nullptr),
                        "writer");
      retry([&] {
        dds_publication_matched_status_t matched{};
        dds_get_publication_matched_status(writer_, &matched);
        return matched.current_count > 0;
      });
    }

    template <class Compose>
    bool send(std::size_t length, Compose&& compose) {
      compose(own_.data());
      compare_blob sample{};
      sample.bytes._buffer = reinterpret_cast<std::uint8_t*>(own_.data());
      sample.bytes._length = static_cast<std::uint32_t>(length);
      sample.bytes._maximum = sample.bytes._length;
      const dds_return_t code = dds_write(writer_, &sample);
      if (code == DDS_RETCODE_TIMEOUT) {
        return false;
      }
      require(code, "write");
      return true;
    }

    void publish() noexcept { dds_write_flush(writer_); }
    void wait_for_room() noexcept { publish(); }
    void finish() {
      publish();
      dds_wait_for_acks(writer_, DDS_SECS(8));
      // What shared memory holds ends with its writer.
      std::this_thread::sleep_for(std::chrono::milliseconds{300});
    }

   private:
    site site_;
    dds_entity_t writer_ = 0;
    std::vector<std::byte> own_;
  };
};

}  // namespace
}  // namespace atbus::compare

int main(int argc, char** argv) {
  return atbus::compare::run<atbus::compare::cyclone>(argc, argv);
}
