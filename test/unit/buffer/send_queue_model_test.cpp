// Random operations on a queue and on a plain std::deque, compared after each one.
#include <deque>

#include "queue_kinds.h"

namespace atbus {
namespace {

template <class Kind>
class SendQueueModel : public ::testing::Test {
 protected:
  static constexpr std::size_t limit = 4096;

  explicit SendQueueModel() { RecordProperty("seed", std::to_string(seed_)); }

  void step() {
    switch (pick(8)) {
      case 0:
      case 1:
      case 2:
        open_claim(pick(10) == 0 ? pick(limit) : pick(200));
        break;
      case 3:
        close_claim(pick(4) == 0 ? 0 : pick(claimed_.size()));
        break;
      case 4:
      case 5:
        write(pick(queue_->unwritten()));
        break;
      case 6:
        release(pick(3) == 0 ? queue_->size() : pick(queue_->in_flight()));
        break;
      default:
        if (pick(10) == 0) {
          queue_->rewind();
          written_ = 0;
        }
    }
  }

  void compare() {
    ASSERT_EQ(queue_->size(), model_.size());
    ASSERT_EQ(queue_->in_flight(), written_);
    ASSERT_LE(queue_->size(), limit);
    const auto unwritten = test::unwritten_bytes(*queue_);
    const auto at = model_.begin() + static_cast<std::ptrdiff_t>(written_);
    ASSERT_TRUE(std::equal(unwritten.begin(), unwritten.end(), at, model_.end()));
    ASSERT_TRUE(std::ranges::equal(test::unreleased_bytes(*queue_), model_));
    ASSERT_TRUE(std::ranges::all_of(claimed_, [&](std::byte b) { return b == mark_; }));
  }

  std::uint32_t seed_ = std::random_device{}();
  std::mt19937 random_{seed_};
  std::unique_ptr<send_queue> queue_ = Kind::make(limit);
  std::uint64_t accepted_ = 0;
  std::uint64_t refused_ = 0;

 private:
  std::size_t pick(std::size_t most) {
    return std::uniform_int_distribution<std::size_t>{0, most}(random_);
  }

  void open_claim(std::size_t length) {
    if (!claimed_.empty())
      return close_claim(claimed_.size());
    const status said = pick(3) == 0 ? queue_->claim_up_to(length, length + pick(200), claimed_)
                                     : queue_->claim(length, claimed_);
    if (!said) {
      ++refused_;
      ASSERT_EQ(said, errc::would_block);
      ASSERT_FALSE(model_.empty());  // an empty queue takes anything within the limit
      return;
    }
    mark_ = static_cast<std::byte>(pick(255));
    std::ranges::fill(claimed_, mark_);
  }

  void close_claim(std::size_t actual) {
    if (claimed_.empty())
      return;
    const auto bytes = test::numbered_bytes(actual, queue_->committed());
    std::ranges::copy(bytes, claimed_.begin());
    queue_->commit(actual);
    model_.insert(model_.end(), bytes.begin(), bytes.end());
    claimed_ = {};
    ++accepted_;
  }

  void write(std::size_t length) {
    queue_->mark_written(length);
    written_ += length;
  }

  void release(std::size_t length) {
    queue_->release(length);
    model_.erase(model_.begin(), model_.begin() + static_cast<std::ptrdiff_t>(length));
    written_ -= std::min(written_, length);
  }

  std::deque<std::byte> model_;
  std::size_t written_ = 0;  // of the model's front
  mutable_bytes claimed_;
  std::byte mark_{};
};

TYPED_TEST_SUITE(SendQueueModel, test::queue_kinds);

TYPED_TEST(SendQueueModel, AgreesWithADequeAfterEveryStep) {
  SCOPED_TRACE("seed " + std::to_string(this->seed_));
  const auto enough = [&] { return this->accepted_ > 500 && this->refused_ > 10; };
  // Few seeds need more steps than the first bound until the queue has refused often enough.
  for (int i = 0; (i < 6'000 || (!enough() && i < 60'000)) && !this->HasFatalFailure(); ++i) {
    this->step();
    this->compare();
  }
  EXPECT_TRUE(enough()) << this->accepted_ << " accepted, " << this->refused_ << " refused";
}

}  // namespace
}  // namespace atbus
