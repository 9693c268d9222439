// Runs of blocks, taken and given back in any order: segregated free lists with immediate
// coalescing (the idea is TLSF's: Masmano, Ripoll, Crespo, Real, "TLSF: a new dynamic memory
// allocator for real-time systems", ECRTS 2004), with its tags beside the memory instead of in it.
//
// Refers to blocks by their index and never touches the memory it manages. take() and give() take
// constant time, except for a bounded search when the pool is nearly full.
//
// One thread. Invariants: tags[b].head is 0 unless a run starts at b; no two free runs are
// neighbours; the tag of the run after a free one has a flag for that and the free run's length.
#pragma once

#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>

namespace atbus::detail {

using block_index = std::uint32_t;
inline constexpr block_index no_block = 0xffffffffU;

struct run_tag {
  std::uint32_t head;  // length << 3 | flags, or 0
  block_index next;    // of a free run: its list
  block_index prev;    // of a free run: its list; of the run after a free one: that one's length
};

// A taken run so long that no other run can start in the same `long_run_blocks` blocks. These entries lie
// close together, while the tags of long runs lie at least a page apart.
struct long_run {
  block_index block;
  std::uint32_t state;  // length << 3 | flags as in a tag, or 0
};
inline constexpr unsigned long_run_shift = 8;
inline constexpr std::uint32_t long_run_blocks = 1U << long_run_shift;

class run_allocator {
 public:
  static constexpr std::size_t blocks_max = (std::size_t{1} << 28) - 1;

  // `tags` are `blocks + 1` zeroed entries, `long_runs` one for each long_run_blocks blocks begun.
  // Both outlive the allocator.
  void start(run_tag* tags, long_run* long_runs, std::uint32_t blocks) noexcept;

  // A run of `length` blocks, at least 1; no_block if there is none. It is cut from the far end of a free
  // run, so that the near ends stay aligned for take_aligned.
  [[nodiscard]] block_index take(std::uint32_t length) noexcept {
    kept_runs& kept = kept_for(length);
    if (kept.count > 0 && kept.length == length) [[likely]] {
      const block_index block = kept.blocks[--kept.count];
      state_of(block) &= ~kept_flag;
      free_blocks_ -= length;
      return block;
    }
    return take_from_lists(length);
  }
  // As take, starting at a multiple of `length`, which is a power of two.
  [[nodiscard]] block_index take_aligned(std::uint32_t length) noexcept;

  // Whether a taken run starts at `block`.
  [[nodiscard]] bool is_taken(block_index block) const noexcept {
    return (state_of(block) & (taken_flag | kept_flag)) == taken_flag;
  }
  // `block` starts a taken run.
  [[nodiscard]] std::uint32_t length(block_index block) const noexcept {
    return state_of(block) >> flag_bits;
  }
  void give(block_index block) noexcept {
    assert(is_taken(block));
    std::uint32_t& state = state_of(block);
    const std::uint32_t freed = state >> flag_bits;
    free_blocks_ += freed;
    kept_runs& kept = kept_for(freed);
    if (kept.count == 0) {
      kept.length = freed;
    }
    if (kept.length == freed && kept.count < kept.blocks.size()) [[likely]] {
      kept.blocks[kept.count++] = block;
      state |= kept_flag;
      return;
    }
    release(block);
  }

  // Runs given back lately are kept whole: the next take() of the same length finds one without a search,
  // with its memory still in the cache. This function returns them to the free lists.
  void coalesce_kept() noexcept;

  [[nodiscard]] std::uint32_t free_blocks() const noexcept { return free_blocks_; }
  [[nodiscard]] std::uint32_t blocks() const noexcept { return blocks_; }
  // The longest free run that is not kept. Looks at one list.
  [[nodiscard]] std::uint32_t longest() const noexcept;

 private:
  static constexpr std::uint32_t flag_bits = 3;
  static constexpr std::uint32_t taken_flag = 1;
  static constexpr std::uint32_t kept_flag = 2;        // kept: looks taken to its neighbours
  static constexpr std::uint32_t after_free_flag = 4;  // the run before is free
  static constexpr unsigned fine_bits = 4;             // 16 lists for each power of two
  static constexpr std::uint32_t exact_lists = 1U << (fine_bits + 1);  // shorter runs: a list each
  static constexpr std::size_t list_count = (29 - fine_bits) << fine_bits;
  static constexpr std::size_t word_count = (list_count + 63) / 64;
  static constexpr unsigned candidates_max = 32;

  // Runs of one length that were given back and not yet coalesced.
  static constexpr std::size_t kept_lengths = 16;
  struct kept_runs {
    std::uint32_t length = 0;
    std::uint32_t count = 0;
    std::array<block_index, 62> blocks{};
  };

  // The word with the taken and kept flags of a taken run: in its long_run if it has one, else in its tag.
  // Neighbours look only at the tag, which shows a kept run as taken.
  [[nodiscard]] const std::uint32_t& state_of(block_index block) const noexcept {
    const long_run& entry = long_runs_[block >> long_run_shift];
    return entry.block == block && entry.state != 0 ? entry.state : tags_[block].head;
  }
  [[nodiscard]] std::uint32_t& state_of(block_index block) noexcept {
    long_run& entry = long_runs_[block >> long_run_shift];
    return entry.block == block && entry.state != 0 ? entry.state : tags_[block].head;
  }
  [[nodiscard]] std::uint32_t tagged_length(block_index block) const noexcept {
    return tags_[block].head >> flag_bits;
  }
  void set_taken(block_index block, std::uint32_t length) noexcept;

  static std::uint32_t list_of(std::uint32_t length) noexcept;
  static std::uint32_t list_that_fits(std::uint32_t length) noexcept;
  [[nodiscard]] std::uint32_t first_list_from(std::uint32_t list) const noexcept;
  [[nodiscard]] block_index find(std::uint32_t length) const noexcept;
  [[nodiscard]] block_index find_aligned(std::uint32_t length) const noexcept;
  [[nodiscard]] bool fits_aligned(block_index block, std::uint32_t length) const noexcept;
  void link(block_index block, std::uint32_t length) noexcept;
  void unlink(block_index block) noexcept;
  block_index take_from_lists(std::uint32_t length) noexcept;
  void release(block_index block) noexcept;
  kept_runs& kept_for(std::uint32_t length) noexcept { return kept_[length % kept_lengths]; }

  run_tag* tags_ = nullptr;
  long_run* long_runs_ = nullptr;
  std::uint32_t blocks_ = 0;
  std::uint32_t free_blocks_ = 0;
  std::uint32_t full_words_ = 0;                   // bit w: words_[w] is not 0
  std::array<std::uint64_t, word_count> words_{};  // bit: that list is not empty
  std::array<block_index, list_count> lists_{};
  std::array<kept_runs, kept_lengths> kept_{};
};

}  // namespace atbus::detail
