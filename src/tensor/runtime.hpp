// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

/// SHARD8_EXEC_SPACE is the default execution space of the Kokkos library of the build. The class is declared here
/// without a Kokkos header. So only sources that launch kernels include Kokkos, and in a build for GPUs only those need
/// the device's compiler.
namespace Kokkos {
class SHARD8_EXEC_SPACE;
}

namespace shard8::tensor {

/// The execution space of all portable kernels. An instance stands for one stream on a device, or for a set of threads
/// on hosts. Functions take the execution space as their first argument; only app constructs one.
using Exec = Kokkos::SHARD8_EXEC_SPACE;

/// Whether tensors lie in the memory of a device. The host must then not access them; tensor/transfer.hpp copies.
#if defined(SHARD8_CUDA)
inline constexpr bool kDevice = true;
#else
inline constexpr bool kDevice = false;
#endif

}  // namespace shard8::tensor

namespace shard8::tensor {

/// Initialises Kokkos, and finalises it in the destructor. From then on regions of OpenMP have the threads that they
/// request, whatever the machine's load (OMP_DYNAMIC): a BLAS that shares a product among threads waits for each of
/// them. Owns the instance on which all kernels of a run are launched. On a device the instance is a stream of its own,
/// never the default stream. A process may construct one Runtime only.
class Runtime {
 public:
  struct Settings {
    int threads = 1;  ///< threads of a host; devices ignore it
    int device = 0;   ///< the device's number among those that this process sees; hosts ignore it
  };
  explicit Runtime(const Settings& settings);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const Exec& exec() const;
  /// How many threads run kernels, for the sizes of workspaces. Always 1 on a device, and with a Kokkos library without
  /// threads, whatever the settings say.
  int threads() const;

 private:
  struct Instance;
  std::unique_ptr<Instance> instance_;
};

/// An execution space instance on another stream of the device than the run's. The stream must outlive this object.
class StreamExec {
 public:
  /// `stream` is a cudaStream_t. Throws Error(failed) in a build for hosts, which have no streams.
  explicit StreamExec(void* stream);
  ~StreamExec();
  StreamExec(const StreamExec&) = delete;
  StreamExec& operator=(const StreamExec&) = delete;

  const Exec& get() const;

 private:
  struct Instance;
  std::unique_ptr<Instance> instance_;
};

/// How many threads a parallel region of OpenMP has that requests `threads`. Runs such a region. Returns `threads`
/// where kernels do not run on OpenMP.
int count_threads(int threads);

/// The most threads that OpenMP lets this process have (OMP_THREAD_LIMIT).
int thread_limit();

/// Version and execution space of Kokkos: "5.0.2, kernels on OpenMP".
std::string kokkos_description();

}  // namespace shard8::tensor
