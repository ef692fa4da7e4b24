// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/peer/handshake.hpp"
#include "comm/peer/words_reader.hpp"
#include "tensor/tensor.hpp"

namespace shard8::comm::peer {

/// A 32-bit word in device memory.
using FlagAddress = std::uint32_t*;

/// Writes and waits of a stream on words in this rank's memory. No multiprocessor takes part. The words of other ranks
/// must not be given here: since CUDA 13.1 a stream cannot write to memory of another device (NVIDIA/nccl#2052).
class StreamFlags {
 public:
  StreamFlags();

  /// The stream writes `number` to the word, behind all that the stream wrote before.
  void write(FlagAddress flag, std::uint32_t number);
  /// The stream waits until the word has reached `number`, cyclically.
  void await(FlagAddress flag, std::uint32_t number);
  /// Gives the writes and waits so far to the stream, in their order. At most 255.
  void enqueue(cudaStream_t stream);

 private:
  using BatchMemOp = CUresult (*)(CUstream, unsigned, CUstreamBatchMemOpParams*, unsigned);
  BatchMemOp batch_;
  std::vector<CUstreamBatchMemOpParams> operations_;
};

/// Device memory of every rank of a group, which all ranks of the group can read and write (CUDA IPC). The ranks must
/// be on one node, with devices that reach each other.
class IpcBlock final : public PeerAddresses {
 public:
  /// Collective, with the same bytes on every rank, which are cleared on `stream`. Throws AgreedError(environment) with
  /// the reason on every rank when one rank cannot have the memory.
  IpcBlock(const Communicator& group, std::size_t bytes, cudaStream_t stream);
  /// Collective. All ranks' writes must be complete. During an exception the destructor frees nothing: the process
  /// ends.
  ~IpcBlock() override;

 private:
  void allocate(cudaIpcMemHandle_t& handle, cudaStream_t stream);
  void open(const std::vector<std::string>& handles);
  void close() noexcept;

  Communicator group_;
  std::byte* own_ = nullptr;
};

/// Collectives in memory of every rank of a group, which the other ranks can read and write. Ranks push into it by copy
/// engines, all copies of a call at once, so that no multiprocessor is taken from kernels; or kernels with a Handshake
/// use it. Copies within the rank come after the copies to peers, when the peers have been told of those.
///
/// Each call has a number; a call in parts has one for each piece. To tell a peer a number, a copy engine copies it
/// from a word in this rank's memory to one in the peer's, behind the copies before. A rank tells every peer that its
/// stream has come to the call, so its memory may be used. The rank waits until all peers have told it so, does the
/// call's copies, and tells every peer that the copies are done. What reads the part of a peer waits until that peer
/// has told this rank so. In every call a rank first tells its peers that it is ready, and then waits for them. So
/// ranks that make their calls in the same order never block each other.
class PeerBlock {
 public:
  /// Collective: allocates and maps the memory of the group. Copies and waits run on `stream`. Throws
  /// AgreedError(environment) where ranks cannot share memory.
  PeerBlock(const Communicator& group, std::size_t bytes, cudaStream_t stream);
  /// In memory that exists: `memory` has memory_bytes(bytes, ranks) cleared bytes on every rank.
  PeerBlock(std::shared_ptr<const PeerAddresses> memory, std::size_t bytes, cudaStream_t stream);
  ~PeerBlock();
  PeerBlock(const PeerBlock&) = delete;
  PeerBlock& operator=(const PeerBlock&) = delete;

  /// Bytes of each rank's memory for `bytes` bytes of data: the data, and behind them the words of handshakes.
  static std::size_t memory_bytes(std::size_t bytes, int ranks);
  /// Why ranks cannot push to each other, or nothing if they can. Collective.
  static std::optional<std::string> problem(const Communicator& group, cudaStream_t stream);

  int rank() const { return memory_->rank(); }
  int size() const { return memory_->size(); }
  std::byte* data() const { return memory_->own(); }
  std::size_t bytes() const { return bytes_; }
  cudaStream_t stream() const { return stream_; }
  /// The k-th rank to push to, k = 1 … size. Ranks begin with different peers. The last one is this rank.
  int peer(int k) const { return (rank() + k) % size(); }

  /// Adds a copy to the next push(): `bytes` bytes, from anywhere on the device, to `offset` in the memory of rank
  /// `to`, which may be this rank.
  void add(int to, std::size_t offset, const std::byte* from, std::size_t bytes);
  /// As add(), of `rows` rows of `width` bytes. The rows lie one behind the other in `from`. The copies of the rows
  /// begin `pitch` bytes apart, the first one at `offset`.
  void add_rows(int to, std::size_t offset, std::size_t pitch, const std::byte* from, std::size_t width,
                std::size_t rows);
  /// Adds a copy back to this rank: push() copies `bytes` bytes at `offset` in the memory of the first peer, peer(1),
  /// to `offset` in this rank's memory, after its copies to peers. This rank must push these bytes to that peer in the
  /// same push(). The copy back stands for a copy within the device, which needs multiprocessors.
  void add_return(std::size_t offset, std::size_t bytes);
  /// As add_return(), of `rows` rows of `width` bytes that begin `pitch` bytes apart.
  void add_return_of_rows(std::size_t offset, std::size_t pitch, std::size_t width, std::size_t rows);
  /// Does all copies that were added and waits for those of all peers: what the stream is given afterwards sees all
  /// ranks' bytes.
  void push();

  /// A call in parts, in place of push(). The stream comes to the call: this rank's memory may be used from here on.
  void tell_ready();
  /// The stream waits until it may use all peers' memory. Comes before the first push_to().
  void await_ready();
  /// Starts the copies that were added since the last call of push_to(). The copies must go to `peer`. Behind them the
  /// call tells `peer` that this piece of this rank's part is there. The pieces of a part have the numbers 0, 1, 2, …
  /// and are pushed in this order. On every rank, every part has the same number of pieces. If `peer` is this rank, the
  /// call starts the copies within this rank and tells nobody.
  void push_to(int peer, int piece = 0);
  /// What the stream is given afterwards sees the part of `peer` in this rank's memory, up to this piece. The last
  /// piece of every part must be waited for before the next call. The part that arrives k-th, k = 1 … size − 1, is that
  /// of rank (rank − k) mod size if all ranks push in the order of peer().
  void await_part(int peer, int piece = 0);

  /// What a watchdog's thread reads of the next call, to find out which peers are late. The call has one number.
  CallWords next_call() const { return call_words(number_ + 1, number_ + 1); }
  /// What a watchdog reads of the call in parts that tell_ready() began, with the numbers of the pieces so far.
  CallWords call_in_parts() const { return call_words(first_, number_); }
  /// The last number of the last call, so far.
  std::uint32_t last_number() const { return number_; }

  /// The handshake of the next call, for kernels that do the call in place of push().
  Handshake handshake();
  /// The memory of `rank`, as this rank reads and writes it.
  std::byte* of(int rank) const { return memory_->of(rank); }
  bool holds(const tensor::Tensor& tensor) const {
    return tensor.empty() || (tensor.data >= data() && tensor.data + tensor.bytes() <= data() + bytes());
  }

 private:
  FlagAddress words(int of) const;
  FlagAddress number_to_tell() const;
  void tell(Handshake::Word word, std::uint32_t number, int first, int last);
  void tell_all(Handshake::Word word, std::uint32_t number) { tell(word, number, 1, size() - 1); }
  void await(Handshake::Word word);
  std::uint32_t number_of(int piece);
  void copy_own();
  void copy_own_rows() const;
  CallWords call_words(std::uint32_t first, std::uint32_t last) const {
    return {readable_, {rank(), size(), first, last}};
  }

  struct Copies {
    struct Rows {
      void* to;
      std::size_t pitch;
      const void* from;
      std::size_t from_pitch, width, rows;
    };
    std::vector<void*> to;
    std::vector<const void*> from;
    std::vector<std::size_t> sizes;
    std::vector<Rows> in_rows;

    void add(void* place, const void* data, std::size_t bytes);
    bool empty() const { return sizes.empty() && in_rows.empty(); }
    /// Gives all collected copies to the copy engines, on `stream`, and clears the lists.
    void batch(cudaStream_t stream);
    void clear();
  };

  std::shared_ptr<const PeerAddresses> memory_;
  std::size_t bytes_;
  cudaStream_t stream_;
  int multiprocessors_;  ///< of the device
  std::shared_ptr<ReadableWords> readable_;
  StreamFlags flags_;
  std::uint32_t number_ = 0;  ///< of the last call, or of its last piece
  std::uint32_t first_ = 0;   ///< of the first piece of a call in parts
  std::uint32_t told_ = 0;    ///< what the stream wrote last to number_to_tell()
  Copies to_peers_, own_, returns_, numbers_;
};

}  // namespace shard8::comm::peer
