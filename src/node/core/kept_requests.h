// The requests of other nodes that were moved out of their handlers and have no answer yet.
//
// They are where their owner has put them; this finds one by its number, for a cancel, and all of them when the
// node ends. A list for each hash, through the requests themselves: keeping one takes no memory. One thread.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "atbus/request.hpp"
#include "core/node_instance.h"

namespace atbus::detail {

class kept_requests {
 public:
  // `key` is secret: peers choose the numbers, and could put all of them into one list.
  explicit kept_requests(std::uint64_t key) : key_(key | 1) {}

  // The high bits of a product depend on all bits below (Dietzfelbinger, J. Algorithms 1997). The incarnation is
  // multiplied first, so that no pair of it and a number can be chosen that has the hash of another pair.
  [[nodiscard]] static std::uint64_t hash(std::uint64_t key, std::uint64_t incarnation,
                                          std::uint64_t number) noexcept {
    const std::uint64_t mixed = incarnation * key;
    return (number ^ mixed ^ mixed >> 32) * key;
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  void add(request& which) noexcept {
    if (size_ >= lists_.size())
      grow();
    link_in(which);
    ++size_;
  }
  void remove(request& which) noexcept {
    *which.at_ = which.next_;
    if (which.next_ != nullptr)
      which.next_->at_ = which.at_;
    which.at_ = nullptr;
    --size_;
  }
  // `to` takes the place of `from`.
  static void move(request& from, request& to) noexcept {
    to.next_ = from.next_;
    to.at_ = std::exchange(from.at_, nullptr);
    *to.at_ = &to;
    if (to.next_ != nullptr)
      to.next_->at_ = &to.next_;
  }
  [[nodiscard]] request* find(const node_instance& source, std::uint64_t number) noexcept {
    for (request* one = list_of(source.incarnation, number); one != nullptr; one = one->next_) {
      if (one->number_ == number && one->incarnation_ == source.incarnation &&
          one->source_ == source.id)
        return one;
    }
    return nullptr;
  }
  template <class Each>
  void remove_all(Each&& each) noexcept {
    for (request*& list : lists_) {
      while (list != nullptr) {
        request& first = *list;
        remove(first);
        each(first);
      }
    }
  }

 private:
  [[nodiscard]] request*& list_of(std::uint64_t incarnation, std::uint64_t number) noexcept {
    return lists_[hash(key_, incarnation, number) >> (64 - std::countr_zero(lists_.size()))];
  }
  void link_in(request& which) noexcept {
    request*& list = list_of(which.incarnation_, which.number_);
    which.next_ = list;
    if (list != nullptr)
      list->at_ = &which.next_;
    list = &which;
    which.at_ = &list;
  }
  // Without memory the lists become longer instead.
  void grow() noexcept {
    std::vector<request*> wider;
    try {
      wider.resize(lists_.size() * 2);
    } catch (const std::bad_alloc&) {
      return;
    }
    wider.swap(lists_);
    for (request* list : wider) {
      while (list != nullptr) {
        request* const next = list->next_;
        link_in(*list);
        list = next;
      }
    }
  }

  std::uint64_t key_;
  std::size_t size_ = 0;
  std::vector<request*> lists_ = std::vector<request*>(16);
};

}  // namespace atbus::detail
