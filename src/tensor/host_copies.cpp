// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "tensor/transfer.hpp"

// HostCopies in a build for hosts. A build for devices has src/tensor/cuda/host_copies.cpp instead.

namespace shard8::tensor {

struct HostCopies::Memory {
  explicit Memory(std::size_t size) : bytes(size) {
    if (bytes == 0) return;
    data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
      base::fail(
          base::ExitCode::environment,
          "{} bytes of address space for copies of the training state cannot be had ({}): raise the limit on this "
          "process's memory (ulimit -v), or write no checkpoints",
          bytes, std::strerror(errno));
    ::madvise(data, bytes, MADV_HUGEPAGE);  // fewer page faults where the system has huge pages
  }
  ~Memory() {
    if (bytes > 0) ::munmap(data, bytes);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::size_t bytes;
  void* data = nullptr;
};

HostCopies::HostCopies(std::size_t bytes, int) : memory_(std::make_unique<Memory>(bytes)) {}
HostCopies::~HostCopies() = default;

bool HostCopies::concurrent() { return false; }
std::byte* HostCopies::data() const { return static_cast<std::byte*>(memory_->data); }
std::size_t HostCopies::bytes() const { return memory_->bytes; }

void HostCopies::begin(const Exec& exec) { finish(exec); }
void HostCopies::copy(std::byte* to, const Tensor& from) {
  if (!from.empty()) std::memcpy(to, from.data, from.bytes());
}
void HostCopies::end_group(int) {}
void HostCopies::hold(const Exec&, int) const {}
void HostCopies::wait(int) const {}

}  // namespace shard8::tensor
