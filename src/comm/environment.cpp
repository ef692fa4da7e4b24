// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/environment.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>

#include "base/error.hpp"
#include "comm/agree.hpp"
#include "comm/check.hpp"
#include "comm/launch.hpp"

namespace shard8::comm {
namespace {

// One write, so that lines of several ranks do not mix.
void print_error(const std::string& line) {
  std::fflush(stdout);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

[[noreturn]] void end_job(MPI_Comm world, int rank, int ranks, int code, std::string_view message) {
  const std::string who = ranks > 1 ? fmt::format("rank {}: ", rank) : std::string();
  print_error(fmt::format("shard8: {}{}\n", who, message));
  if (ranks > 1) {
    // A launcher may drop what it has not yet read from the ranks when it ends the job.
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    MPI_Abort(world, code);
  }
  ::_exit(code);
}

}  // namespace

struct Environment::Life {
  MPI_Comm world;
  int rank, size;
  bool over = false;

  // After exit(), which runs no destructors of main's variables.
  static void at_exit(int status, void* self) {
    auto* const life = static_cast<Life*>(self);
    int finalized = 0;
    if (!life->over && MPI_Finalized(&finalized) == MPI_SUCCESS && finalized == 0) {
      end_job(life->world, life->rank, life->size, status == 0 ? base::to_int(base::ExitCode::failed) : status,
              fmt::format("left by exit({}) before the end of the run", status));
    }
    delete life;
  }
};

Environment::Environment(int& argc, char**& argv, MPI_Comm world) : life_(nullptr), world_(world) {
  int provided = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread", "start", nullptr);
  check_mpi(MPI_Comm_rank(world, &rank_), "MPI_Comm_rank", "start", nullptr);
  check_mpi(MPI_Comm_size(world, &size_), "MPI_Comm_size", "start", nullptr);
  if (provided < MPI_THREAD_FUNNELED) {
    MPI_Finalize();
    base::fail(base::ExitCode::environment,
               "the mpi library provides thread level {}, needed is MPI_THREAD_FUNNELED ({}); use a build of it with "
               "threads",
               provided, MPI_THREAD_FUNNELED);
  }
  life_ = new Life{world, rank_, size_};
  if (::on_exit(&Life::at_exit, life_) != 0) abort(base::ExitCode::environment, "on_exit() has no room for a function");
}

Environment::~Environment() {
  if (std::uncaught_exceptions() > 0) abort(base::ExitCode::failed, "left by an exception before the end of the run");
  life_->over = true;
  MPI_Finalize();
}

void Environment::check_launch() const {
  if (const auto problem = launch_problem(process_variables(), size_)) {
    throw base::Error(base::ExitCode::environment, *problem);
  }
}

void Environment::abort(base::ExitCode code, std::string_view message) const {
  const int status = code == base::ExitCode::ok ? base::to_int(base::ExitCode::failed) : base::to_int(code);
  end_job(world_, rank_, size_, status, message);
}

int run_guarded(const Environment& environment, const std::function<int()>& body) {
  try {
    environment.check_launch();
    return body();
  } catch (const AgreedError& e) {
    if (e.ranks() != environment.size()) environment.abort(e.code(), e.what());
    // A deck's message begins with file:line:column, which editors read.
    const char* const prefix = e.code() == base::ExitCode::deck ? "" : "shard8: ";
    if (environment.rank() == 0) print_error(fmt::format("{}{}\n", prefix, e.what()));
    return base::to_int(e.code());
  } catch (const base::Error& e) {
    environment.abort(e.code(), e.what());
  } catch (const std::exception& e) {
    environment.abort(base::ExitCode::failed, e.what());
  } catch (...) {
    environment.abort(base::ExitCode::failed, "an exception of unknown type was thrown");
  }
}

}  // namespace shard8::comm
