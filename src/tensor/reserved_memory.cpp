// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tensor/reserved_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.hpp"

namespace shard8::tensor {

ReservedMemory::ReservedMemory(std::size_t bytes) : bytes_(std::max(bytes, kPage)) {
  void* const found = ::mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED)
    base::fail(base::ExitCode::environment,
               "{} addresses cannot be reserved: {}; raise the limit on addresses (ulimit "
               "-v), or use more ranks",
               bytes_, std::strerror(errno));
  data_ = static_cast<std::byte*>(found);
}

ReservedMemory::ReservedMemory(ReservedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

ReservedMemory::~ReservedMemory() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

void ReservedMemory::commit(std::size_t begin, std::size_t end) {
  begin = begin / kPage * kPage;
  end = std::min((end + kPage - 1) / kPage * kPage, (bytes_ + kPage - 1) / kPage * kPage);
  if (begin >= end) return;
  if (::mprotect(data_ + begin, end - begin, PROT_READ | PROT_WRITE) != 0)
    base::fail(base::ExitCode::environment,
               "{} bytes cannot be allocated: {}; raise the limit on this process's memory (ulimit -v, the job's "
               "--mem), or use more ranks",
               end - begin, std::strerror(errno));
  std::memset(data_ + begin, 0, end - begin);
}

}  // namespace shard8::tensor
