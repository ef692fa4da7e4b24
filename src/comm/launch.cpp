// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/environment.hpp"

#include <fmt/format.h>
#include <mpi.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "base/error.hpp"

namespace shard8::comm {
namespace {

constexpr const char* kOneNode = "self,sm";  ///< transports of UCX for ranks of one node

std::optional<int> number(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  int value = 0;
  const char* const end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace

Variables process_variables() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* const value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

bool on_one_node(const Variables& variable) {
  const auto local = number(variable("MPI_LOCALNRANKS")), all = number(variable("PMI_SIZE"));
  if (local && all) return *local == *all;
  return variable("SLURM_PROCID") && number(variable("SLURM_STEP_NUM_NODES")) == 1;
}

void prepare_mpi() {
#if defined(MPICH_VERSION)
  const Variables variable = process_variables();
  if (!on_one_node(variable) || variable("UCX_TLS") || variable("UCX_NET_DEVICES")) return;
  ::setenv("UCX_TLS", kOneNode, 0);  // without memory for it, UCX chooses as it did before
#endif
}

std::optional<std::string> launch_problem(const Variables& variable, int ranks) {
  const auto processes = number(variable("PMI_SIZE"));  // of the PMI that Slurm's plugin and mpiexec speak
  if (processes && *processes != ranks)
    return fmt::format(
        "the launcher started {} processes, but mpi counts {} rank{}: the mpi library does not understand this "
        "launcher; "
        "start with the mpiexec of the library, or with a type of `srun --mpi=list` that it understands (srun "
        "--mpi=pmi2 "
        "for mpich)",
        *processes, ranks, ranks == 1 ? "" : "s");
  const auto of_open_mpi = number(variable("OMPI_COMM_WORLD_SIZE"));
  if (of_open_mpi && *of_open_mpi != ranks && !processes)
    return fmt::format(
        "the launcher of open mpi started {} processes, but mpi counts {} rank{}: this program is one of another mpi "
        "library ({}); start it with the mpiexec of this library, by its full path if there are several (`shard8 info` "
        "names the library)",
        *of_open_mpi, ranks, ranks == 1 ? "" : "s", library_version());
  // A batch script has SLURM_NTASKS and SLURM_PROCID, too; only a step's tasks have a step.
  if (!variable("SLURM_STEP_ID") || !variable("SLURM_PROCID")) return std::nullopt;
  auto tasks = number(variable("SLURM_STEP_NUM_TASKS"));
  if (!tasks) tasks = number(variable("SLURM_NTASKS"));
  if (!tasks || *tasks == ranks) return std::nullopt;
  // mpiexec inside a step starts as many ranks as it is told.
  for (const char* name : {"PMI_FD", "PMI_PORT", "PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE"}) {
    if (variable(name)) return std::nullopt;
  }
  return fmt::format(
      "slurm started {} tasks in this step, but mpi counts {} rank{}: the launcher did not connect them; start with "
      "srun --mpi=pmi2 (or the type that `srun --mpi=list` has for this mpi library), or with mpiexec",
      *tasks, ranks, ranks == 1 ? "" : "s");
}

std::string launcher_hint(const Variables& variable, int ranks) {
  if (ranks != 1) return "";
  for (const char* name : {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"})
    if (variable(name)) return "";  // the launcher says how many it started: see launch_problem()
  if (variable("PMIX_RANK"))
    return fmt::format(
        "; PMIX_RANK is set, so a launcher did start this process: if it started the others, too, it is one of another "
        "mpi library than this program's ({}): use the mpiexec of this library",
        library_version());
  if (const auto tasks = number(variable("SLURM_NTASKS")); tasks && *tasks > 1)
    return fmt::format("; this job of slurm has {} tasks (SLURM_NTASKS): a program becomes a task by srun", *tasks);
  return "";
}

bool reports_launch(const Variables& variable) {
  for (const char* name : {"PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"})
    if (const auto rank = number(variable(name))) return *rank == 0;
  return true;
}

std::optional<Room> room_of(const std::string& folder) {
  struct statvfs status {};
  if (::statvfs(folder.c_str(), &status) != 0) return std::nullopt;
  return Room{std::uint64_t{status.f_blocks} * status.f_frsize, std::uint64_t{status.f_bavail} * status.f_frsize};
}

std::optional<std::string> shared_memory_problem(const Variables& variable, const std::string& library,
                                                 const std::optional<Room>& shared) {
  constexpr std::uint64_t kRank = 4292720;  // what UCX 1.13 requests in its error
  const auto chosen = variable("UCX_TLS");
  if (!shared || library.find("ch4:ucx") == std::string::npos || (chosen && *chosen != kOneNode)) return std::nullopt;
  const auto ranks = static_cast<std::uint64_t>(std::max(number(variable("MPI_LOCALNRANKS")).value_or(1), 1));
  // Other ranks may have taken theirs already.
  if (shared->total >= ranks * kRank && shared->free >= kRank) return std::nullopt;
  return fmt::format(
      "/dev/shm has {} bytes, {} of them free, and mpi needs {} for each rank of this node, {} in all: make it "
      "larger (docker run --shm-size=1g, mount -o remount,size=1g /dev/shm), or remove files of other programs there",
      shared->total, shared->free, kRank, ranks * kRank);
}

std::string library_text() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  SHARD8_REQUIRE(MPI_Get_library_version(text.data(), &length) == MPI_SUCCESS, "MPI does not tell its version");
  return {text.data(), static_cast<std::size_t>(length)};
}

std::string library_version() {
  const std::string text = library_text();
  std::string line = text.substr(0, text.find('\n'));
  std::replace(line.begin(), line.end(), '\t', ' ');
  return line;
}

}  // namespace shard8::comm
