// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// This library is loaded before all others. It counts what a rank of a run sends, receives and does with files, and
// lets a few processes be ranks of a job of thousands:
//
//   SHARD8_COUNT_FILE    FILE.RANK gets a line of counts when MPI ends: names and numbers
//   SHARD8_PAPER_RANKS   the number of ranks of the job; without it the ranks are those that were started
//   SHARD8_PAPER_SAMPLE  "0,7,16376": the ranks that the processes are
//   SHARD8_PAPER_MESH    "replicate,shard,tensor"
//   SHARD8_PAPER_NODE    ranks of a node
//
// All others are on paper: messages to and from them are counted, and what they would send is zeros. Between processes
// of the sample, collectives of control values go by MPI. There a rank on paper gives what a rank of the sample gives
// that is at the same place of its node, or in a group smaller than the world what the calling rank gives.
//
// Counted are messages sent and received (MPI_Isend, MPI_Irecv), calls of MPI's collectives, the bytes that both bring
// to this rank (control: by calls of all ranks of the job), and opened and examined files whose paths are relative:
// those of the job's folder. Polls ask whether a checkpoint is written; their number depends on the disk.

#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

struct Counts {
  std::atomic<long> messages{0}, calls{0}, polls{0};
  std::atomic<long long> bytes{0}, control{0};
  std::atomic<long> opens{0}, stats{0};
};
Counts counts;

std::vector<int> numbers(const char* name) {
  std::vector<int> all;
  const char* const text = std::getenv(name);
  std::istringstream in(text == nullptr ? "" : text);
  for (std::string word; std::getline(in, word, ',');) all.push_back(std::atoi(word.c_str()));
  return all;
}

/// A communicator as the program sees it. The handle is that of a communicator of the processes of the sample.
struct Group {
  int rank = 0, size = 1;
  std::vector<int> sample;  ///< the ranks of its processes, in their order
};

struct Paper {
  bool on = false;
  int ranks = 1, node = 1, rank = 0;
  std::vector<int> mesh;
  int splits = 0;
  std::map<MPI_Comm, Group> groups;
};
Paper paper;

[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "paper_ranks: %s\n", what);
  std::_Exit(9);
}

const Group& group_of(MPI_Comm comm) {
  const auto found = paper.groups.find(comm);
  if (found == paper.groups.end()) give_up("a communicator that nobody made");
  return found->second;
}

/// The group of a new communicator in which this process has the rank `rank`.
void add_group(MPI_Comm comm, int rank, int size) {
  Group group{rank, size, {}};
  int processes = 0;
  PMPI_Comm_size(comm, &processes);
  group.sample.resize(static_cast<std::size_t>(processes));
  PMPI_Allgather(&rank, 1, MPI_INT, group.sample.data(), 1, MPI_INT, comm);
  if (rank < 0 || rank >= size) give_up("a rank outside of its group");
  paper.groups[comm] = std::move(group);
}

std::size_t bytes_of(int count, MPI_Datatype type) {
  int size = 0;
  PMPI_Type_size(type, &size);
  return static_cast<std::size_t>(count) * static_cast<std::size_t>(size);
}

int size_of(MPI_Comm comm) {
  if (paper.on) return group_of(comm).size;
  int size = 0;
  PMPI_Comm_size(comm, &size);
  return size;
}

/// A call of the group of all ranks moves control values, no tensors.
void count_call(MPI_Comm comm, std::size_t received) {
  int ranks = paper.ranks;
  if (!paper.on) PMPI_Comm_size(MPI_COMM_WORLD, &ranks);
  ++counts.calls;
  (size_of(comm) == ranks ? counts.control : counts.bytes) += static_cast<long long>(received);
}

/// A rank names the file of its own node.
void name_node_file(char* text, std::size_t bytes, int rank) {
  constexpr std::string_view kName = "node_n0000.h5";
  if (bytes < kName.size() || std::string_view(text, 6) != kName.substr(0, 6)) return;
  char name[32];
  std::snprintf(name, sizeof name, "node_n%04d.h5", rank / paper.node);
  std::memcpy(text, name, kName.size());
}

/// The process of the sample that is rank `rank` of the group; −1: none is.
int process_of(const Group& group, int rank) {
  const auto found = std::find(group.sample.begin(), group.sample.end(), rank);
  return found == group.sample.end() ? -1 : static_cast<int>(found - group.sample.begin());
}

/// The process that gives what rank `rank` of the group gives.
std::size_t giver_of(const Group& group, int rank) {
  if (const int process = process_of(group, rank); process >= 0) return static_cast<std::size_t>(process);
  if (group.size < paper.ranks) return static_cast<std::size_t>(process_of(group, group.rank));
  for (std::size_t process = 0; process < group.sample.size(); ++process)
    if (group.sample[process] % paper.node == rank % paper.node) return process;
  give_up("a place of a node without a rank in the sample");
}

int all_gather(const void* in, int count, MPI_Datatype type, void* out, MPI_Comm comm) {
  const Group& group = group_of(comm);
  const std::size_t bytes = bytes_of(count, type);
  char* const all = static_cast<char*>(out);
  const char* const mine = in != MPI_IN_PLACE ? static_cast<const char*>(in) : all + std::size_t(group.rank) * bytes;
  std::vector<char> own(mine, mine + bytes), given(bytes * group.sample.size());
  PMPI_Allgather(own.data(), static_cast<int>(bytes), MPI_BYTE, given.data(), static_cast<int>(bytes), MPI_BYTE, comm);
  for (int r = 0; r < group.size; ++r) {
    char* const to = all + static_cast<std::size_t>(r) * bytes;
    std::memcpy(to, given.data() + giver_of(group, r) * bytes, bytes);
    if (group.size == paper.ranks) name_node_file(to, bytes, r);
  }
  return MPI_SUCCESS;
}

int broadcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  const int process = process_of(group_of(comm), root);
  return process < 0 ? MPI_SUCCESS : PMPI_Bcast(data, count, type, process, comm);
}

void write_counts() {
  const char* const file = std::getenv("SHARD8_COUNT_FILE");
  if (file == nullptr) return;
  if (!paper.on) PMPI_Comm_rank(MPI_COMM_WORLD, &paper.rank);
  const long opens = counts.opens, stats = counts.stats;
  std::FILE* const out = std::fopen((std::string(file) + "." + std::to_string(paper.rank)).c_str(), "w");
  if (out == nullptr) give_up("cannot write the counts");
  std::fprintf(out, "messages %ld calls %ld bytes %lld control %lld opens %ld stats %ld polls %ld\n",
               counts.messages.load(), counts.calls.load(), counts.bytes.load(), counts.control.load(), opens, stats,
               counts.polls.load());
  std::fclose(out);
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

bool counts_path(const char* path) { return path != nullptr && *path != '/' && *path != '\0'; }

/// The file of a node on paper is that of the first node.
std::string of_the_sample(const char* path) {
  const std::string text(path == nullptr ? "" : path), begin = "/node_n";
  const auto at = text.rfind(begin);
  if (!paper.on || at == std::string::npos || errno != ENOENT) return {};
  return text.substr(0, at) + begin + "0000.h5";
}

}  // namespace

extern "C" {

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  const int status = PMPI_Init_thread(argc, argv, required, provided);
  const std::vector<int> ranks = numbers("SHARD8_PAPER_RANKS"), sample = numbers("SHARD8_PAPER_SAMPLE");
  if (ranks.empty()) return status;
  paper.on = true;
  paper.ranks = ranks[0];
  paper.node = numbers("SHARD8_PAPER_NODE").at(0);
  paper.mesh = numbers("SHARD8_PAPER_MESH");
  int process = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &process);
  paper.rank = sample.at(static_cast<std::size_t>(process));
  add_group(MPI_COMM_WORLD, paper.rank, paper.ranks);
  ::setenv("PMI_SIZE", std::to_string(paper.ranks).c_str(), 1);  // the launcher is believed to have started all
  return status;
}

int MPI_Finalize() {
  write_counts();
  return PMPI_Finalize();
}

int MPI_Comm_size(MPI_Comm comm, int* size) {
  if (!paper.on) return PMPI_Comm_size(comm, size);
  *size = group_of(comm).size;
  return MPI_SUCCESS;
}

int MPI_Comm_rank(MPI_Comm comm, int* rank) {
  if (!paper.on) return PMPI_Comm_rank(comm, rank);
  *rank = group_of(comm).rank;
  return MPI_SUCCESS;
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* copy) {
  ++counts.calls;
  const int status = PMPI_Comm_dup(comm, copy);
  if (paper.on) paper.groups[*copy] = Group(group_of(comm));
  return status;
}

/// The mesh makes four groups of the world: see comm::make_mesh. The next split is that of nodes.
int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* part) {
  ++counts.calls;
  if (!paper.on) return PMPI_Comm_split(comm, color, key, part);
  const int replicate = paper.mesh.at(0), shard = paper.mesh.at(1), tensor = paper.mesh.at(2);
  const int sizes[] = {replicate, shard, tensor, shard * tensor, paper.node};
  const bool is_node = paper.splits == 4;
  if (paper.splits > 4) give_up("a split that it does not know");
  if (is_node) {
    color = paper.rank / paper.node;
    key = paper.rank % paper.node;
  }
  const int status = PMPI_Comm_split(comm, color, key, part);
  add_group(*part, key, sizes[paper.splits++]);
  return status;
}

int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* part) {
  ++counts.calls;
  if (!paper.on) return PMPI_Comm_split_type(comm, type, key, info, part);
  const Group& group = group_of(comm);
  if (group.size != paper.ranks) give_up("nodes of a group that is not the world");
  const int status = PMPI_Comm_split(comm, paper.rank / paper.node, paper.rank, part);
  add_group(*part, paper.rank % paper.node, paper.node);
  return status;
}

int MPI_Comm_free(MPI_Comm* comm) {
  paper.groups.erase(*comm);
  return PMPI_Comm_free(comm);
}

int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  ++counts.messages;
  if (!paper.on) return PMPI_Isend(data, count, type, to, tag, comm, request);
  *request = MPI_REQUEST_NULL;
  return MPI_SUCCESS;
}

int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request) {
  ++counts.messages;
  counts.bytes += static_cast<long long>(bytes_of(count, type));
  if (!paper.on) return PMPI_Irecv(data, count, type, from, tag, comm, request);
  std::memset(data, 0, bytes_of(count, type));
  *request = MPI_REQUEST_NULL;
  return MPI_SUCCESS;
}

int MPI_Iallgather(const void* in, int count, MPI_Datatype type, void* out, int out_count, MPI_Datatype out_type,
                   MPI_Comm comm, MPI_Request* request) {
  const std::size_t bytes = bytes_of(out_count, out_type);
  count_call(comm, bytes * static_cast<std::size_t>(size_of(comm) - 1));
  if (!paper.on) return PMPI_Iallgather(in, count, type, out, out_count, out_type, comm, request);
  *request = MPI_REQUEST_NULL;
  return all_gather(in, out_count, out_type, out, comm);
}

int MPI_Allgather(const void* in, int count, MPI_Datatype type, void* out, int out_count, MPI_Datatype out_type,
                  MPI_Comm comm) {
  const std::size_t bytes = bytes_of(out_count, out_type);
  count_call(comm, bytes * static_cast<std::size_t>(size_of(comm) - 1));
  if (!paper.on) return PMPI_Allgather(in, count, type, out, out_count, out_type, comm);
  return all_gather(in, count, type, out, comm);
}

int MPI_Igather(const void* in, int count, MPI_Datatype type, void* out, int out_count, MPI_Datatype out_type, int root,
                MPI_Comm comm, MPI_Request* request) {
  const std::size_t bytes = bytes_of(count, type);
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  count_call(comm, rank == root ? bytes * static_cast<std::size_t>(size_of(comm) - 1) : 0);
  if (!paper.on) return PMPI_Igather(in, count, type, out, out_count, out_type, root, comm, request);
  *request = MPI_REQUEST_NULL;
  std::vector<char> all(bytes * static_cast<std::size_t>(size_of(comm)));
  const int status = all_gather(in, count, type, all.data(), comm);
  if (rank == root) std::memcpy(out, all.data(), all.size());
  return status;
}

int MPI_Iallreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request* request) {
  if (count == 2 && type == MPI_UINT64_T && op == MPI_MAX)
    ++counts.polls;
  else
    count_call(comm, bytes_of(count, type));
  if (!paper.on) return PMPI_Iallreduce(in, out, count, type, op, comm, request);
  *request = MPI_REQUEST_NULL;
  return PMPI_Allreduce(in, out, count, type, op, comm);
}

int MPI_Allreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  count_call(comm, bytes_of(count, type));
  return PMPI_Allreduce(in, out, count, type, op, comm);
}

int MPI_Ibcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* request) {
  count_call(comm, bytes_of(count, type));
  if (!paper.on) return PMPI_Ibcast(data, count, type, root, comm, request);
  *request = MPI_REQUEST_NULL;
  return broadcast(data, count, type, root, comm);
}

int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  count_call(comm, bytes_of(count, type));
  return paper.on ? broadcast(data, count, type, root, comm) : PMPI_Bcast(data, count, type, root, comm);
}

int MPI_Ibarrier(MPI_Comm comm, MPI_Request* request) {
  count_call(comm, 0);
  if (!paper.on) return PMPI_Ibarrier(comm, request);
  *request = MPI_REQUEST_NULL;
  return PMPI_Barrier(comm);
}

int MPI_Ialltoall(const void* in, int count, MPI_Datatype type, void* out, int out_count, MPI_Datatype out_type,
                  MPI_Comm comm, MPI_Request* request) {
  const std::size_t bytes = bytes_of(out_count, out_type) * static_cast<std::size_t>(size_of(comm) - 1);
  count_call(comm, bytes);
  if (!paper.on) return PMPI_Ialltoall(in, count, type, out, out_count, out_type, comm, request);
  std::memset(out, 0, bytes_of(out_count, out_type) * static_cast<std::size_t>(size_of(comm)));
  *request = MPI_REQUEST_NULL;
  return MPI_SUCCESS;
}

#define OPEN(name)                                                                \
  int name(const char* path, int flags, ...) {                                    \
    va_list list;                                                                 \
    va_start(list, flags);                                                        \
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : mode_t{}; \
    va_end(list);                                                                 \
    if (counts_path(path)) ++counts.opens;                                        \
    const int file = next<int(const char*, int, ...)>(#name)(path, flags, mode);  \
    if (file >= 0) return file;                                                   \
    const std::string other = of_the_sample(path);                                \
    if (other.empty()) return file;                                               \
    return next<int(const char*, int, ...)>(#name)(other.c_str(), flags, mode);   \
  }
#define FOPEN(name)                                                       \
  std::FILE* name(const char* path, const char* mode) {                   \
    if (counts_path(path)) ++counts.opens;                                \
    return next<std::FILE*(const char*, const char*)>(#name)(path, mode); \
  }
OPEN(open)
OPEN(open64)
FOPEN(fopen)
FOPEN(fopen64)

#define STAT(name, type)                                                                         \
  int name(const char* path, type* status) noexcept {                                            \
    if (counts_path(path)) ++counts.stats;                                                       \
    const int result = next<int(const char*, type*)>(#name)(path, status);                       \
    if (result == 0) return result;                                                              \
    const std::string other = of_the_sample(path);                                               \
    return other.empty() ? result : next<int(const char*, type*)>(#name)(other.c_str(), status); \
  }
STAT(stat, struct stat)
STAT(lstat, struct stat)
STAT(stat64, struct stat64)
STAT(lstat64, struct stat64)

}  // extern "C"
