// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/peer/peer_block.hpp"

#include <cstring>
#include <exception>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "comm/agree.hpp"
#include "comm/node.hpp"
#include "comm/peer/sum_parts.hpp"
#include "tensor/cuda/device.hpp"
#include "tensor/dtype.hpp"

namespace shard8::comm::peer {

namespace {

// CUDA cuts smaller allocations out of larger ones, which would be mapped as a whole.
constexpr std::size_t kPage = std::size_t{2} << 20;

}  // namespace

IpcBlock::IpcBlock(const Communicator& group, std::size_t bytes, cudaStream_t stream)
    : PeerAddresses(group.rank(), std::vector<std::byte*>(static_cast<std::size_t>(group.size()), nullptr), bytes),
      group_(group.same()) {
  try {
    cudaIpcMemHandle_t handle{};
    agree(group_, [&] { allocate(handle, stream); });
    const auto nodes = group_.all_gather(device_node_identity());
    agree(group_, [&] {
      for (const std::string& node : nodes) {
        if (node_identity().empty() || node != nodes.front())
          base::fail(base::ExitCode::environment, "the ranks of group '{}' are on several nodes", group_.name());
      }
    });
    const auto handles = group_.all_gather(std::string_view(reinterpret_cast<const char*>(&handle), sizeof handle));
    agree(group_, [&] { open(handles); });
  } catch (const AgreedError&) {  // thrown by all ranks
    close();
    group_.barrier();
    if (own_ != nullptr) cudaFree(own_);
    throw;
  }
}

IpcBlock::~IpcBlock() {
  if (std::uncaught_exceptions() > 0) return;  // others may still write
  close();
  group_.barrier();  // nobody may free what another has open
  cudaFree(own_);
}

void IpcBlock::allocate(cudaIpcMemHandle_t& handle, cudaStream_t stream) {
  void* memory = nullptr;
  SHARD8_CUDA_CHECK(cudaMalloc(&memory, (bytes_ + kPage - 1) / kPage * kPage));
  own_ = static_cast<std::byte*>(memory);
  SHARD8_CUDA_CHECK(cudaMemsetAsync(own_, 0, bytes_, stream));
  SHARD8_CUDA_CHECK(cudaStreamSynchronize(stream));
  SHARD8_CUDA_CHECK(cudaIpcGetMemHandle(&handle, own_));
}

void IpcBlock::open(const std::vector<std::string>& handles) {
  for (std::size_t rank = 0; rank < handles.size(); ++rank) {
    if (static_cast<int>(rank) == group_.rank()) {
      base_[rank] = own_;
      continue;
    }
    cudaIpcMemHandle_t handle{};
    std::memcpy(&handle, handles[rank].data(), sizeof handle);
    void* base = nullptr;
    const cudaError_t status = cudaIpcOpenMemHandle(&base, handle, cudaIpcMemLazyEnablePeerAccess);
    if (status != cudaSuccess) {
      static_cast<void>(cudaGetLastError());  // seen; later calls must not find it
      base::fail(base::ExitCode::environment,
                 "cannot map memory of rank {} of group '{}' (cudaIpcOpenMemHandle gave {}: {}); devices of one node "
                 "with peer access are needed, in one IPC namespace",
                 rank, group_.name(), cudaGetErrorName(status), cudaGetErrorString(status));
    }
    base_[rank] = static_cast<std::byte*>(base);
  }
}

void IpcBlock::close() noexcept {
  for (std::byte*& base : base_) {
    if (base != nullptr && base != own_) cudaIpcCloseMemHandle(base);
    base = nullptr;
  }
}

PeerBlock::PeerBlock(const Communicator& group, std::size_t bytes, cudaStream_t stream)
    : PeerBlock(std::make_shared<IpcBlock>(group, memory_bytes(bytes, group.size()), stream), bytes, stream) {}

PeerBlock::PeerBlock(std::shared_ptr<const PeerAddresses> memory, std::size_t bytes, cudaStream_t stream)
    : memory_(std::move(memory)),
      bytes_(bytes),
      stream_(stream),
      multiprocessors_(tensor::cuda::describe_device(tensor::cuda::current_device()).multiprocessors) {
  SHARD8_REQUIRE(memory_->bytes() >= memory_bytes(bytes, size()), "{} bytes of peers' memory for {} bytes of data",
                 memory_->bytes(), bytes);
  readable_ = std::make_shared<ReadableWords>(words(rank()));
}

std::size_t PeerBlock::memory_bytes(std::size_t bytes, int ranks) {
  const std::size_t words = 2 * static_cast<std::size_t>(ranks) + 2;  // of a Handshake, its count, number_to_tell()
  return tensor::aligned(bytes) + tensor::aligned(words * sizeof(std::uint32_t));
}

PeerBlock::~PeerBlock() {
  if (std::uncaught_exceptions() > 0) return;  // IpcBlock then frees nothing
  static_cast<void>(cudaStreamSynchronize(stream_));
  readable_->close();
}

std::optional<std::string> PeerBlock::problem(const Communicator& group, cudaStream_t stream) {
  try {
    const IpcBlock trial(group, tensor::kAlignment, stream);
    return std::nullopt;
  } catch (const AgreedError& e) {
    return e.what();
  }
}

/// The words of rank `of`: see Handshake::words.
FlagAddress PeerBlock::words(int of) const {
  return reinterpret_cast<FlagAddress>(memory_->of(of) + tensor::aligned(bytes_));
}

Handshake PeerBlock::handshake() {
  Handshake h;
  for (int r = 0; r < size(); ++r) h.words[r] = words(r);
  h.arrived = words(rank()) + 2 * size();
  h.rank = rank();
  h.size = size();
  h.number = ++number_;
  return h;
}

void PeerBlock::Copies::add(void* place, const void* data, std::size_t bytes) {
  to.push_back(place);
  from.push_back(data);
  sizes.push_back(bytes);
}

void PeerBlock::Copies::batch(cudaStream_t stream) {
  if (!sizes.empty()) {
    cudaMemcpyAttributes attributes{};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    attributes.flags = cudaMemcpyFlagPreferOverlapWithCompute;
    std::size_t first = 0;  // of the copies that have them: all
    SHARD8_CUDA_CHECK(
        cudaMemcpyBatchAsync(to.data(), from.data(), sizes.data(), sizes.size(), &attributes, &first, 1, stream));
  }
  for (const Rows& r : in_rows)
    SHARD8_CUDA_CHECK(
        cudaMemcpy2DAsync(r.to, r.pitch, r.from, r.from_pitch, r.width, r.rows, cudaMemcpyDeviceToDevice, stream));
  clear();
}

void PeerBlock::Copies::clear() {
  to.clear();
  from.clear();
  sizes.clear();
  in_rows.clear();
}

void PeerBlock::add(int to, std::size_t offset, const std::byte* from, std::size_t bytes) {
  (to == rank() ? own_ : to_peers_).add(memory_->of(to) + offset, from, bytes);
}

void PeerBlock::add_rows(int to, std::size_t offset, std::size_t pitch, const std::byte* from, std::size_t width,
                         std::size_t rows) {
  if (rows == 0 || width == 0) return;
  (to == rank() ? own_ : to_peers_).in_rows.push_back({memory_->of(to) + offset, pitch, from, width, width, rows});
}

void PeerBlock::add_return(std::size_t offset, std::size_t bytes) {
  returns_.add(data() + offset, memory_->of(peer(1)) + offset, bytes);
}

void PeerBlock::add_return_of_rows(std::size_t offset, std::size_t pitch, std::size_t width, std::size_t rows) {
  if (rows == 0 || width == 0) return;
  returns_.in_rows.push_back({data() + offset, pitch, memory_->of(peer(1)) + offset, pitch, width, rows});
}

/// The address of the number that tell() copies to peers, in this rank's memory, behind the words of the handshake.
FlagAddress PeerBlock::number_to_tell() const { return words(rank()) + 2 * size() + 1; }

/// Copies `number` to the words of the `first`-th … `last`-th peers, behind the copies that the stream has been given.
void PeerBlock::tell(Handshake::Word word, std::uint32_t number, int first, int last) {
  if (number != told_) {  // in the order of the stream, the copies of the number before are over
    flags_.write(number_to_tell(), number);
    flags_.enqueue(stream_);
    told_ = number;
  }
  for (int k = first; k <= last; ++k)
    numbers_.add(words(peer(k)) + word * size() + rank(), number_to_tell(), sizeof number);
  numbers_.batch(stream_);
}

void PeerBlock::await(Handshake::Word word) {
  for (int k = 1; k < size(); ++k) flags_.await(words(rank()) + word * size() + peer(k), number_);
}

void PeerBlock::tell_ready() {
  first_ = ++number_;
  tell_all(Handshake::ready, first_);
}

void PeerBlock::await_ready() {
  await(Handshake::ready);
  flags_.enqueue(stream_);
}

/// The number of a piece of the call in parts. The next call has a later number.
std::uint32_t PeerBlock::number_of(int piece) {
  const std::uint32_t number = first_ + static_cast<std::uint32_t>(piece);
  if (static_cast<std::int32_t>(number - number_) > 0) number_ = number;
  return number;
}

/// Multiprocessors do all copies within a device, also those of cudaMemcpyBatchAsync that should overlap with kernels:
/// a copy overlapped with a product that fills the device ends after that product.
void PeerBlock::copy_own() {
  for (std::size_t i = 0; i < own_.sizes.size(); ++i)
    SHARD8_CUDA_CHECK(cudaMemcpyAsync(own_.to[i], own_.from[i], own_.sizes[i], cudaMemcpyDeviceToDevice, stream_));
  if (!own_.in_rows.empty()) copy_own_rows();
  own_.clear();
}

/// Copies by a kernel of shard8: on an H100 the kernel copies 32 MiB in rows of 8 KiB in 28 us, cudaMemcpy2DAsync in 45
/// us.
void PeerBlock::copy_own_rows() const {
  Handshake alone;
  alone.arrived = words(rank()) + 2 * size();
  for (const Copies::Rows& r : own_.in_rows) {
    ExchangeKernels::Destinations to;
    to.add(static_cast<std::byte*>(r.to));
    ExchangeKernels{stream_, multiprocessors_}.copy_rows(alone, static_cast<const std::byte*>(r.from), r.rows, r.width,
                                                         r.pitch, to);
  }
}

void PeerBlock::push_to(int peer, int piece) {
  if (peer == rank()) return copy_own();
  to_peers_.batch(stream_);
  const int k = (peer - rank() + size()) % size();
  tell(Handshake::done, number_of(piece), k, k);
}

void PeerBlock::await_part(int peer, int piece) {
  if (peer == rank()) return;  // copied in the order of the stream
  flags_.await(words(rank()) + Handshake::done * size() + peer, number_of(piece));
  flags_.enqueue(stream_);
}

void PeerBlock::push() {
  ++number_;
  tell_all(Handshake::ready, number_);
  await(Handshake::ready);
  flags_.enqueue(stream_);
  to_peers_.batch(stream_);
  if (returns_.empty()) {
    tell_all(Handshake::done, number_);
  } else {  // the first peer is told last: from then on it may use the memory that the copies read
    tell(Handshake::done, number_, 2, size() - 1);
    returns_.batch(stream_);
    tell(Handshake::done, number_, 1, 1);
  }
  if (!own_.empty()) copy_own();
  await(Handshake::done);
  flags_.enqueue(stream_);
}

StreamFlags::StreamFlags() {
  // Found at run time, so that nothing links the driver.
  constexpr unsigned kVersion = 12000;
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  SHARD8_CUDA_CHECK(
      cudaGetDriverEntryPointByVersion("cuStreamBatchMemOp", &function, kVersion, cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess)
    base::fail(base::ExitCode::environment, "the driver has no cuStreamBatchMemOp of CUDA 12; use a newer one");
  batch_ = reinterpret_cast<BatchMemOp>(function);
}

void StreamFlags::write(FlagAddress flag, std::uint32_t number) {
  auto& operation = operations_.emplace_back();
  operation = {};
  operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  operation.writeValue.address = reinterpret_cast<CUdeviceptr>(flag);
  operation.writeValue.value = number;
  operation.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
}

void StreamFlags::await(FlagAddress flag, std::uint32_t number) {
  auto& operation = operations_.emplace_back();
  operation = {};
  operation.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  operation.waitValue.address = reinterpret_cast<CUdeviceptr>(flag);
  operation.waitValue.value = number;
  operation.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
}

void StreamFlags::enqueue(cudaStream_t stream) {
  if (operations_.empty()) return;
  const CUresult status = batch_(stream, static_cast<unsigned>(operations_.size()), operations_.data(), 0);
  if (status != CUDA_SUCCESS)
    base::fail(base::ExitCode::failed, "cuda: cuStreamBatchMemOp of {} operations gave {}", operations_.size(),
               static_cast<int>(status));
  operations_.clear();
}

}  // namespace shard8::comm::peer
