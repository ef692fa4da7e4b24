// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <memory_resource>
#include <span>
#include <string_view>
#include <vector>

#include "comm/describe.hpp"
#include "comm/mpi/group.hpp"
#include "comm/parts.hpp"
#include "profile/collective_log.hpp"

namespace shard8::comm {

/// A collective under way: messages that were posted, and what is to be done when they are complete. Each collective
/// has its own tag, so stages may start in any order on any rank. The collective and its lists lie in its group's
/// memory.
class PendingCollective {
 public:
  /// When a call begins, for the log: with the constructor, or when the collective calls begin_now().
  enum class Begin { now, later };
  /// The bytes of `tensors` are those of the call, as CollectiveKey defines them. `label`, static text that may be
  /// empty, names the matrix product.
  PendingCollective(std::shared_ptr<Group> group, profile::Collective op, std::span<const tensor::Tensor> tensors,
                    std::string_view label = {}, Begin begin = Begin::now);
  virtual ~PendingCollective();
  /// Makes a P(group, arguments...) in the group's memory.
  template <class P, class... Arguments>
  static Request::Pending make(const std::shared_ptr<Group>& group, const Arguments&... arguments) {
    return {std::pmr::polymorphic_allocator<>(&group->memory).new_object<P>(group, arguments...), {&give_back<P>}};
  }
  PendingCollective(const PendingCollective&) = delete;
  PendingCollective& operator=(const PendingCollective&) = delete;

  /// Tests the messages, and when all are complete starts the next stage. True when the collective is complete.
  bool advance();
  /// Blocks until the collective is complete and records the call, once for each dtype with its share of the time by
  /// bytes. Tells Engine::waits what it waits for.
  void wait();
  /// Called for a collective that an exception left under way. Waits for the collective, at most two seconds for all
  /// such collectives together. False when the collective is still under way: then it must be leaked, because MPI may
  /// still write to its memory.
  bool abandon() noexcept;
  /// More messages will be started when those under way are complete.
  virtual bool staged() const { return false; }

 protected:
  using Clock = std::chrono::steady_clock;

  /// Called when every message is complete. False while something else than messages is missing for the next stage;
  /// then advance() calls the function again.
  virtual bool ready() { return true; }
  /// Called when every message is complete and ready(). Does the local work and posts the messages of the next stage.
  /// True when the collective is complete.
  virtual bool next_stage() = 0;

  /// Records the call, once for each dtype with its share of the time by bytes. This rank has waited for `exposed`.
  void record(Clock::duration exposed) const;
  /// What a wait for this collective is called.
  HostWaits::Subject subject() const;
  /// The rank that has to do its part of the first message that is not complete, or HostWaits::kNoPeer.
  int peer() const;
  bool done() const { return done_; }
  void begin_now();

  /// How the messages of one part end. `with_short`: with a message that is shorter than Limits::message_bytes, an
  /// empty one if need be. So the receiver finds every other number of bytes than it expects.
  enum class Ending { with_last_bytes, with_short };
  /// Posts messages of at most Limits::message_bytes each; none for 0 bytes, unless the ending is a short one. A
  /// message of another length than expected is an Error(failed) of advance() and wait().
  void send(const std::byte* data, std::size_t bytes, int to, Ending ending = Ending::with_last_bytes);
  void receive(std::byte* data, std::size_t bytes, int from, Ending ending = Ending::with_last_bytes);
  /// As send(), but the messages are added to `list`: no stage waits for them until wait_for(list).
  void send_aside(std::pmr::vector<MPI_Request>& list, const std::byte* data, std::size_t bytes, int to);
  /// In next_stage(), which posts nothing else: the stage waits for these messages to `to`. True if there are none.
  bool wait_for(std::pmr::vector<MPI_Request>& list, int to);
  /// The k-th peer to receive from and to send to, k = 1 … size − 1. Ranks begin with different peers, so that no rank
  /// gets the messages of all others at once.
  int source(int k) const { return (group_->rank + k) % group_->size; }
  int destination(int k) const { return (group_->rank - k + group_->size) % group_->size; }

  /// Gives the collective's memory back to its group.
  template <class P>
  static void give_back(PendingCollective* pending) noexcept {
    const std::shared_ptr<Group> group = pending->group_;
    std::pmr::polymorphic_allocator<>(&group->memory).delete_object(static_cast<P*>(pending));
  }

  std::shared_ptr<Group> group_;
  std::pmr::vector<MPI_Request> requests_;
  std::string_view label_;
  Clock::time_point started_;

 private:
  /// Takes the collective out of the engine, and tells the log that it is no longer in flight.
  void leave_engine() noexcept;
  profile::CollectiveGroup logged_group() const;
  bool test_messages();
  void check_message(int status, const MPI_Status& message, std::string_view call) const;
  std::size_t message_count(std::size_t bytes, Ending ending) const;
  void wait_for_messages(Clock::time_point entered);
  void note_message(int peer, int received_bytes);
  void post_sends(std::pmr::vector<MPI_Request>& list, const std::byte* data, std::size_t bytes, int to, Ending ending);
  int tag() const;

  struct Message {
    int peer = HostWaits::kNoPeer;
    int received_bytes = -1;  ///< bytes that must arrive; −1: a message that is sent, or several messages
  };

  profile::Collective op_;
  std::pmr::vector<DTypeBytes> sizes_;
  std::pmr::vector<Message> messages_;  // of requests_, as far as send() and receive() made them
  std::size_t first_pending_ = 0;       // of requests_: those before it are complete
  unsigned number_;
  std::uint64_t traced_ = 0;  ///< handle of the trace; 0: not traced
  bool done_ = false;
  bool in_flight_ = false;  ///< the log knows that it began, and not that it ended
  Clock::time_point completed_{};
};

}  // namespace shard8::comm
