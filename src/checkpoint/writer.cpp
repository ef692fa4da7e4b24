// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/writer.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <exception>
#include <span>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "comm/agree.hpp"
#include "comm/host_waits.hpp"
#include "io/shard_file.hpp"

namespace shard8::checkpoint {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

/// A summary as text, for the other ranks.
std::string pack(const io::ShardSummary& s) {
  return fmt::format("{} {} {} {} {} {}", s.file, s.length, s.index_offset, s.index_bytes, s.index_digest,
                     s.rest_digest);
}
io::ShardSummary unpack(const std::string& text) {
  io::ShardSummary s;
  std::istringstream in(text);
  in >> s.file >> s.length >> s.index_offset >> s.index_bytes >> s.index_digest >> s.rest_digest;
  return s;
}

/// The digests of boxes as text, for the rank that writes the index: 8 bytes each.
std::string pack_digests(std::span<const io::ShardBox> boxes) {
  std::string text;
  for (const io::ShardBox& box : boxes)
    text.append(reinterpret_cast<const char*>(box.digests.data()), box.digests.size() * sizeof(std::uint64_t));
  return text;
}

}  // namespace

/// The work of this rank for one checkpoint. Each stage runs on a thread of its own: on the I/O thread a disk that is
/// slow to write would keep tokens from being read. The main thread uses the work only while `state` is not working.
struct Writer::Work {
  enum class State { ended, working, failed };
  using Stage = void (*)(Work&);

  Work(io::IoThread& for_hdf5, Snapshot& of_state) : io(for_hdf5), snapshot(of_state) {}
  ~Work() {
    cancelled = true;
    if (thread.joinable()) thread.join();
  }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  /// Starts a stage; the one before has ended. An exception fails it.
  void start(Stage stage) {
    if (thread.joinable()) thread.join();
    state = State::working;
    try {
      thread = std::thread([this, stage] { run(stage); });
    } catch (const std::system_error& e) {
      error = fmt::format("cannot start a thread that writes: {}", e.what());
      state = State::failed;
    }
  }
  void run(Stage stage) {
    try {
      stage(*this);
      ended = Clock::now();
      state = State::ended;
    } catch (const std::exception& e) {
      error = e.what();
      state = State::failed;
    }
  }

  static void lay_out(Work& w) {
    w.file = std::make_unique<io::ShardWriter>(w.io, w.path, w.identity, std::move(w.boxes));
    w.boxes = w.file->boxes();
  }

  /// Writes the tensors into the file that this rank made, or into that of its node.
  static void write(Work& w) {
    std::vector<std::byte> buffer;
    io::ShardBlockWriter& file = w.file != nullptr ? w.file->blocks() : *w.guest;
    if (w.direct_io) file.use_direct_io();
    for (std::size_t piece = 0; piece < w.snapshot.pieces().size(); ++piece) {
      const io::ShardBox& box = w.boxes[w.first_box + piece];
      const auto size = static_cast<std::uint64_t>(box.element_bytes);
      for (std::uint64_t block = 0; block < box.blocks(); ++block) {
        if (w.cancelled) return;
        const std::uint64_t first = block * io::kShardBlock;
        std::uint64_t digest = 0;
        w.snapshot.read(piece, static_cast<std::int64_t>(first / size),
                        static_cast<std::int64_t>(box.block_bytes(block) / size), buffer,
                        [&](std::span<const std::byte> data) { digest = file.put(w.first_box + piece, block, data); });
        file.adopt(w.first_box + piece, block, {&digest, 1});
      }
    }
    w.snapshot.release();
    if (w.guest != nullptr) w.guest->file().sync();
  }

  /// The work of a rank that is not the first of its node.
  static void write_as_guest(Work& w) {
    w.guest = std::make_unique<io::ShardBlockWriter>(w.path, w.boxes);
    write(w);
  }

  /// The work of a rank that has a file of its own.
  static void write_file(Work& w) {
    lay_out(w);
    write(w);
    if (!w.cancelled) index(w);
  }

  static void index(Work& w) { w.summary = w.file->finish(); }

  /// The check of a rank that made a file: the file has its length, and the rank sees the file that the next rank made.
  /// So each rank looks for two files, and ranks that see different folders are found in the ring, whatever their
  /// number.
  static void check(Work& w) {
    w.directory->require_file(w.identity.step, w.summary->file, w.summary->length);
    w.directory->require_file(w.identity.step, w.next_file, std::nullopt);
  }

  static void commit(Work& w) {
    w.manifest.serial = w.directory->next_serial();
    write_manifest(w.folder, w.manifest);
    if (const std::string why = w.lost ? w.lost() : ""; !why.empty()) base::fail(base::ExitCode::checkpoint, "{}", why);
    const auto note = [&](const Directory::Done& done) {
      w.warnings.insert(w.warnings.end(), done.trouble.begin(), done.trouble.end());
    };
    note(w.directory->commit(w.manifest.step));
    w.durable = Clock::now();
    note(w.directory->retain(w.keep, w.manifest.run));
  }

  io::IoThread& io;
  Snapshot& snapshot;
  std::atomic<State> state = State::ended;
  Clock::time_point ended;  ///< when a stage of this rank ended last
  std::atomic<bool> cancelled = false;
  std::string error;

  bool direct_io = false;
  std::string path;  ///< of the shard file
  io::ShardIdentity identity;
  std::vector<io::ShardBox> boxes;              ///< in the file
  std::size_t first_box = 0;                    ///< the first of this rank
  std::unique_ptr<io::ShardWriter> file;        ///< of the rank that makes the file
  std::unique_ptr<io::ShardBlockWriter> guest;  ///< of another rank of the node
  std::optional<io::ShardSummary> summary;
  std::string next_file;  ///< the file that the next rank or node makes
  std::string folder;
  std::optional<Directory> directory;

  // The members that only rank 0 uses, for the commit.
  Clock::time_point durable;
  Manifest manifest;
  std::function<std::string()> lost;
  std::int64_t keep = 1;
  std::vector<std::string> warnings;

  std::thread thread;  // last: it uses the others
};

Writer::Writer(const comm::Communicator& world, const comm::Communicator* node, const std::vector<StateTensor>& tensors,
               Snapshot& snapshot, io::IoThread& io, Directory directory, Manifest common, std::int64_t keep,
               std::function<std::string()> lost)
    : world_(world),
      node_(node),
      tensors_(tensors),
      snapshot_(snapshot),
      io_(io),
      directory_(std::move(directory)),
      common_(std::move(common)),
      keep_(keep),
      lost_(std::move(lost)) {
  for (const StateTensor& t : tensors)
    common_.tensors.push_back({t.name, std::string(name_of(t.content)), t.dtype, t.extents()});
  // Nodes are numbered in the order of their first ranks.
  const std::array<double, 1> leads{leads_node() ? 1.0 : 0.0};
  const std::vector<double> leaders = world.all_gather(leads);
  std::array<double, 1> index{0};
  for (int r = 0; r < world.rank(); ++r) index[0] += leaders[static_cast<std::size_t>(r)];
  node_index_ = static_cast<int>(node == nullptr ? index[0] : node->all_gather(index)[0]);
  files_ = static_cast<int>(std::count(leaders.begin(), leaders.end(), 1.0));
}

/// Waits for the thread that writes, which uses the tensors.
Writer::~Writer() = default;

std::string Writer::file_name(int next) const {
  const int file = (node_index_ + next) % files_;
  return node_ == nullptr ? rank_file(file) : node_file(file);
}

std::vector<io::ShardBox> Writer::own_boxes() const {
  std::vector<io::ShardBox> boxes;
  for (const Snapshot::Piece& piece : snapshot_.pieces()) {
    const StateTensor& t = tensors_[piece.tensor];
    io::ShardBox& box = boxes.emplace_back();
    box.name = t.name;
    box.content = name_of(t.content);
    box.dtype = tensor::name_of(t.dtype);
    box.element_bytes = static_cast<std::int64_t>(tensor::size_of(t.dtype));
    box.shape = t.extents();
    box.box = t.parts[piece.part].box;
  }
  return boxes;
}

void Writer::begin(const tensor::Exec& exec, const Moment& moment) {
  SHARD8_REQUIRE(!under_way(), "a checkpoint is begun while one is being written");
  began_ = Clock::now();
  moment_ = moment;
  bytes_ = 0;
  {
    const comm::HostWaits::Unlimited files(world_.waits());
    comm::agree_on_root(world_, 0, [&] { directory_.begin(moment.step); });
  }
  snapshot_.take(exec);
  work_ = std::make_unique<Work>(io_, snapshot_);
  work_->folder = directory_.folder_of(moment.step) + ".tmp";
  work_->directory = directory_;
  work_->next_file = file_name(1);
  work_->path = work_->folder + "/" + file_name();
  work_->identity = {common_.run, moment.step};
  work_->direct_io = direct_io_;
  if (node_ == nullptr) {
    stage_ = Stage::write;
    work_->boxes = own_boxes();
    work_->start(Work::write_file);
  } else {
    begin_layout();
  }
}

/// The node's first rank lays the file out with the boxes of all ranks of the node, in the order of ranks.
void Writer::begin_layout() {
  stage_ = Stage::layout;
  const auto texts = node_->all_gather(io::shard_index_text(work_->identity, own_boxes()));
  for (int r = 0; r < node_->size(); ++r) {
    if (r == node_->rank()) work_->first_box = work_->boxes.size();
    const auto boxes = io::parse_shard_index(texts[static_cast<std::size_t>(r)], "the boxes of a rank").boxes;
    work_->boxes.insert(work_->boxes.end(), boxes.begin(), boxes.end());
  }
  if (leads_node()) work_->start(Work::lay_out);
}

/// The file is laid out: the other ranks of the node learn where their boxes are.
void Writer::begin_write() {
  stage_ = Stage::write;
  std::string text;
  if (leads_node()) text = io::shard_index_text(work_->identity, work_->boxes);
  node_->broadcast(text, 0);
  if (leads_node()) return work_->start(Work::write);
  work_->boxes = io::parse_shard_index(text, "the layout of " + work_->path).boxes;
  work_->start(Work::write_as_guest);
}

/// All data are written: the node's first rank gets the digests of the others.
void Writer::begin_index() {
  stage_ = Stage::index;
  std::string mine;
  if (!leads_node()) {
    const auto& boxes = work_->guest->boxes();
    mine = pack_digests(std::span(boxes).subspan(work_->first_box, snapshot_.pieces().size()));
  }
  const auto texts = node_->all_gather(mine);
  if (!leads_node()) return;
  std::size_t box = snapshot_.pieces().size();  // this rank's boxes are first
  for (std::size_t r = 1; r < texts.size(); ++r) {
    std::size_t at = 0;
    while (at < texts[r].size()) {
      std::vector<std::uint64_t> digests(work_->boxes[box].blocks());
      std::memcpy(digests.data(), texts[r].data() + at, digests.size() * sizeof(std::uint64_t));
      at += digests.size() * sizeof(std::uint64_t);
      work_->file->adopt(box++, 0, digests);
    }
  }
  work_->start(Work::index);
}

/// All files are written.
void Writer::begin_check() {
  stage_ = Stage::check;
  own_seconds_ = seconds_between(began_, work_->ended);
  if (leads_node()) work_->start(Work::check);
}

void Writer::begin_commit() {
  stage_ = Stage::commit;
  const auto texts = world_.gather(leads_node() ? pack(*work_->summary) : std::string(), 0);
  std::array<std::uint64_t, 1> bytes{leads_node() ? work_->summary->length : 0};
  world_.all_reduce(bytes, comm::Communicator::Reduce::sum);
  bytes_ = bytes[0];
  if (world_.rank() != 0) return;
  Manifest manifest = common_;
  manifest.step = moment_.step;
  manifest.sequences = moment_.sequences;
  manifest.loss = moment_.loss;
  for (const std::string& text : texts)
    if (!text.empty()) manifest.files.push_back(unpack(text));
  work_->manifest = std::move(manifest);
  work_->lost = lost_;
  work_->keep = keep_;
  work_->start(Work::commit);
}

void Writer::begin_stage_after() {
  switch (stage_) {
    case Stage::layout:
      return begin_write();
    case Stage::write:
      return node_ == nullptr ? begin_check() : begin_index();
    case Stage::index:
      return begin_check();
    case Stage::check:
      return begin_commit();
    case Stage::none:
    case Stage::commit:
      break;
  }
}

Outcome Writer::advance() {
  if (!under_way()) return {};
  const Work::State state = work_->state;
  std::array<std::uint64_t, 2> any{state == Work::State::working, state == Work::State::failed};
  world_.all_reduce(any, comm::Communicator::Reduce::max);
  const bool working = any[0] != 0, failed = any[1] != 0;
  if (failed) work_->cancelled = true;
  if (working) return {};
  if (failed) return end_failed();
  if (stage_ == Stage::commit) return end_written();
  begin_stage_after();
  return {};
}

Outcome Writer::finish() {
  while (under_way()) {
    Outcome outcome = advance();
    if (!under_way()) return outcome;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return {};
}

Outcome Writer::end_failed() {
  Outcome outcome;
  const auto errors = world_.all_gather(work_->error);
  for (std::size_t r = 0; r < errors.size() && outcome.failed.empty(); ++r)
    if (!errors[r].empty()) outcome.failed = fmt::format("rank {}: {}", r, errors[r]);
  snapshot_.release();
  work_.reset();  // closes and removes unfinished files
  const comm::HostWaits::Unlimited files(world_.waits());
  world_.barrier();
  // Without the lock, a folder of this name may be another run's.
  if (world_.rank() == 0 && (!lost_ || lost_().empty())) directory_.abandon(moment_.step);
  world_.barrier();  // the next wait for rank 0 has a limit
  stage_ = Stage::none;
  return outcome;
}

Outcome Writer::end_written() {
  std::array<double, 1> seconds{world_.rank() == 0 ? seconds_between(began_, work_->durable) : 0};
  world_.all_reduce(seconds, comm::Communicator::Reduce::max);
  std::uint64_t own_bytes = 0;
  for (const Snapshot::Piece& piece : snapshot_.pieces()) own_bytes += piece.bytes;
  Outcome outcome;
  outcome.written = Written{moment_.step, seconds[0], bytes_, own_seconds_, own_bytes};
  outcome.warnings = std::move(work_->warnings);
  work_.reset();
  stage_ = Stage::none;
  return outcome;
}

}  // namespace shard8::checkpoint
