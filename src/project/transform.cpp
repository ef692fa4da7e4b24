// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "model/parameters.hpp"
#include "project/stack.hpp"
#include "project/step_list.hpp"
#include "project/weights.hpp"

namespace shard8::project {

namespace {

using operation::Attention;
using operation::Collective;
using operation::Kernel;
using operation::Linear;
using operation::Operation;
using operation::Product;
using operation::Stream;
using profile::Phase;
using tensor::DType;
using Entry = StepList::Entry;
using Pass = StepList::Pass;
using Op = profile::Collective;

/// The bytes of a product, as operation::Recorder counts them.
void count_bytes(Operation& o) {
  const Product& p = *o.product();
  o.read = bytes_of(p.left, p.rows * p.inner) + bytes_of(p.right, p.inner * p.cols);
  o.written = operation::bytes_of(operation::Format{p.out}, p.rows * p.cols);
  if (p.accumulate) o.read += o.written;
  if (p.residual) o.read += o.written;
  if (p.bias) o.read += operation::bytes_of(operation::Format{p.out}, p.cols);
}

std::uint64_t scaled(std::uint64_t bytes, double factor) {
  return static_cast<std::uint64_t>(std::llround(static_cast<double>(bytes) * factor));
}

void scale(Operation& kernel, double read, double written) {
  kernel.read = scaled(kernel.read, read);
  kernel.written = scaled(kernel.written, written);
  auto& k = std::get<Kernel>(kernel.what);
  k.read = kernel.read;
  k.written = kernel.written;
}

/// A kernel that reads and writes `bytes` in all, half each.
Operation copy_kernel(const Operation& like, std::uint64_t bytes) {
  Operation o;
  o.location = like.location;
  o.phase = like.phase;
  o.read = bytes / 2;
  o.written = bytes - o.read;
  const auto elements = static_cast<std::int64_t>(o.written / 2);
  o.what = Kernel{"copy", elements, 1, DType::bf16, DType::bf16, o.read, o.written};
  return o;
}

/// One pass over the list for each member of Structure.
class Transformation {
 public:
  Transformation(const Structure& structure, const train::Setup& setup, operation::Operations step)
      : s_(structure),
        model_(setup.config.model),
        setup_(setup),
        root_(model::root_unit(model_.layers)),
        list_(std::move(step)) {}

  operation::Operations run() && {
    if (s_.plain_mlp && model_.arch == deck::Arch::llama) remove_gate();
    if (s_.whole_head) join_chunks_of_head();
    if (model_.recompute == deck::Recompute::selective) recompute();
    if (s_.gradients == DType::bf16) gradients_in_bf16();
    if (s_.residual_kernel) add_residuals_by_kernels();
    if (!s_.gathers_ahead) expose_first_gathers();
    if (s_.whole_root) join_root();
    if (s_.bucket > 0 || s_.bucket_rank > 0) fill_buckets();
    if (s_.reduces_late) reduce_after_backward();
    if (s_.gather_copies > 0 || s_.reduce_copies > 0) copy_weights_and_gradients();
    if (s_.tensor_copies > 0) copy_around_tensor_group();
    if (s_.optimizer_bytes > 0 || !s_.kernels.empty()) scale_kernels();
    return std::move(list_).finish();
  }

 private:
  bool of_layer(const Operation& o) const { return o.location.unit > 0 && o.location.unit < root_; }
  /// A gather of weights, or a reduction of gradients.
  static bool of_weights(const Operation& o) {
    const Collective* c = o.collective();
    return c != nullptr && !c->host_values && o.stream != Stream::compute && c->group != base::AxisSet::tensor;
  }
  static bool gathers_weights(const Operation& o) { return of_weights(o) && o.stream == Stream::gather; }
  static bool reduces_gradients(const Operation& o) { return of_weights(o) && o.stream == Stream::reduce; }

  /// Half of fc1 goes: of its products, of what its kernels move, of its weights in collectives and in the optimizer.
  void remove_gate() {
    const double weights = share_without_gate(model_, setup_.mesh[base::Axis::tensor]);
    const std::int64_t both = 2 * model_.ffn / setup_.mesh[base::Axis::tensor];
    list_.rewrite([&](Entry& e, const Pass& pass) {
      Operation& o = e.operation;
      if (!of_layer(o)) return pass(std::move(e));
      if (of_weights(o)) {
        for (auto& part : std::get<Collective>(o.what).payloads) part.bytes = scaled(part.bytes, weights);
      } else if (o.product() != nullptr && o.location.linear == Linear::fc1) {
        auto& p = std::get<Product>(o.what);
        (p.kind == Product::Kind::fprop ? p.cols : p.kind == Product::Kind::dgrad ? p.inner : p.rows) /= 2;
        count_bytes(o);
      } else if (const Kernel* k = o.kernel(); k != nullptr) {
        if (k->name == "swiglu_forward") {
          scale(o, 0.5, 1);
        } else if (k->name == "swiglu_backward") {
          const std::uint64_t gradient = tensor::bytes_of(k->out, k->rows * k->cols);
          const double written = static_cast<double>(o.written - gradient / 2) / static_cast<double>(o.written);
          std::get<Kernel>(o.what).cols /= 2;
          scale(o, 2.0 / 3.0, written);
        } else if (o.location.linear == Linear::fc1 && k->cols == both) {
          std::get<Kernel>(o.what).cols /= 2;
          scale(o, 0.5, 0.5);
        } else if (is_of_weights(*k, o)) {
          auto& kernel = std::get<Kernel>(o.what);
          kernel.rows = static_cast<std::int64_t>(scaled(static_cast<std::uint64_t>(kernel.rows), weights));
          scale(o, weights, weights);
        }
      }
      pass(std::move(e));
    });
  }

  /// Adds the products and kernels of later chunks to those of the first one; wgrad stands where the last one stood.
  void join_chunks_of_head() {
    std::map<std::string, std::size_t> joined;  // by kind of operation: where it stands in `kept`
    std::vector<Entry> kept;
    std::string kernel;
    for (Entry& e : list_.entries) {
      Operation& o = e.operation;
      const bool compute = o.stream == Stream::compute;
      if (compute && o.location.unit != root_) joined.clear();
      std::string kind;
      if (compute && o.location.unit == root_ && o.phase != Phase::optimizer) {
        if (const Product* p = o.product()) kind = name_of(p->kind);
        if (const Kernel* k = o.kernel(); k != nullptr && k->name.starts_with("cross_entropy")) kind = kernel = k->name;
        if (const Collective* c = o.collective(); c != nullptr && c->op == Op::all_reduce) kind = "sum after " + kernel;
      }
      const auto at = joined.find(kind);
      if (kind.empty() || at == joined.end()) {
        if (!kind.empty()) joined[kind] = kept.size();
        kept.push_back(std::move(e));
        continue;
      }
      Operation& first = kept[at->second].operation;
      if (auto* p = std::get_if<Product>(&first.what)) {
        (p->kind == Product::Kind::wgrad ? p->inner : p->rows) +=
            p->kind == Product::Kind::wgrad ? o.product()->inner : o.product()->rows;
        count_bytes(first);
      } else if (auto* k = std::get_if<Kernel>(&first.what)) {
        k->rows += o.kernel()->rows;
        first.read = k->read += o.kernel()->read;
        first.written = k->written += o.kernel()->written;
      } else {
        auto& c = std::get<Collective>(first.what);
        for (std::size_t i = 0; i < c.payloads.size(); ++i) c.payloads[i].bytes += o.collective()->payloads[i].bytes;
      }
      // What the joined operation waited for was issued before the chunk, or the next operation waits for it.
      first.waits.insert(first.waits.end(), o.waits.begin(), o.waits.end());
    }
    list_.entries = std::move(kept);
  }

  /// Repeats forward's products at the begin of a layer's backward.
  void recompute() {
    std::map<int, std::vector<Operation>> forward;
    std::set<int> begun;  // layers whose backward has begun in this micro-batch
    list_.rewrite([&](Entry& e, const Pass& pass) {
      const Operation& o = e.operation;
      if (!of_layer(o) || o.stream != Stream::compute) return pass(std::move(e));
      const int unit = o.location.unit;
      if (o.phase == Phase::forward) {
        if (begun.erase(unit) > 0) forward[unit].clear();
        if (std::optional<Operation> again = computed_again(o)) forward[unit].push_back(std::move(*again));
      } else if (o.phase == Phase::backward && begun.insert(unit).second) {
        for (Operation& again : forward[unit]) {
          again.waits = std::exchange(e.operation.waits, {});
          pass({list_.new_id(), again});
        }
      }
      pass(std::move(e));
    });
  }

  std::optional<Operation> computed_again(const Operation& o) const {
    Operation again = o;
    again.waits.clear();
    again.phase = Phase::backward;
    again.recomputed = true;
    if (o.attention() != nullptr) return s_.attention_recomputed ? std::optional(again) : std::nullopt;
    if (o.product() == nullptr || !o.location.linear) return std::nullopt;
    const double share = s_.recomputed[static_cast<std::size_t>(*o.location.linear)];
    if (share == 0) return std::nullopt;
    auto& p = std::get<Product>(again.what);
    p.cols = std::max<std::int64_t>(1, std::llround(static_cast<double>(p.cols) * share));
    count_bytes(again);
    return again;
  }

  /// Where gradients are also reduced in BF16, the casts before a reduction go.
  void gradients_in_bf16() {
    for (Entry& e : list_.entries) {
      Operation& o = e.operation;
      auto* p = std::get_if<Product>(&o.what);
      if (p == nullptr || p->kind != Product::Kind::wgrad) continue;
      p->out = DType::bf16;
      count_bytes(o);
    }
    if (setup_.fsdp.reduce != DType::bf16) return;
    std::set<int> gone;
    std::vector<int> casts;  // since the last operation that was none
    for (const Entry& e : list_.entries) {
      const Kernel* k = e.operation.kernel();
      if (k != nullptr && k->name == "cast" && k->in == DType::fp32 && k->out == DType::bf16) {
        casts.push_back(e.id);
        continue;
      }
      if (reduces_gradients(e.operation)) gone.insert(casts.begin(), casts.end());
      casts.clear();
    }
    list_.rewrite([&](Entry& e, const Pass& pass) {
      if (!gone.contains(e.id)) pass(std::move(e));
    });
  }

  void add_residuals_by_kernels() {
    list_.rewrite([&](Entry& e, const Pass& pass) {
      auto* p = std::get_if<Product>(&e.operation.what);
      if (p == nullptr || !p->residual) return pass(std::move(e));
      p->residual = false;
      count_bytes(e.operation);
      Operation add = e.operation;
      add.waits.clear();
      const std::uint64_t bytes = tensor::bytes_of(p->out, p->rows * p->cols);
      add.what = Kernel{"residual_add", p->rows, p->cols, p->out, p->out, 2 * bytes, bytes};
      add.read = 2 * bytes;
      add.written = bytes;
      pass(std::move(e));
      pass({list_.new_id(), std::move(add)});
    });
  }

  /// The gathers at the end of the step, for the next one, stand at its begin.
  void expose_first_gathers() {
    if (list_.ahead.empty()) return;
    std::map<int, Entry> gathers;  // by entry of the step before
    std::map<int, int> number;
    for (std::size_t k = 0; k < list_.ahead.size(); ++k) number[list_.ahead[k]] = static_cast<int>(k);
    list_.rewrite([&](Entry& e, const Pass& pass) {
      const auto at = number.find(e.id);
      if (at == number.end()) return pass(std::move(e));
      e.operation.waits.clear();
      gathers.emplace(at->second, e);
    });
    list_.ahead.clear();
    std::vector<Entry> all;
    for (auto& [k, entry] : gathers) all.push_back(entry);
    for (Entry& e : list_.entries) {
      for (int& w : e.operation.waits)
        if (const auto at = gathers.find(-1 - w); w < 0 && at != gathers.end()) w = at->second.id;
      all.push_back(std::move(e));
    }
    list_.entries = std::move(all);
  }

  /// Moves what `from` communicates to `to`, another collective of the same group.
  static void join(Collective& to, const Collective& from) {
    for (const auto& part : from.payloads) {
      const auto same = std::find_if(to.payloads.begin(), to.payloads.end(),
                                     [&](const auto& p) { return p.dtype == part.dtype; });
      if (same == to.payloads.end())
        to.payloads.push_back(part);
      else
        same->bytes += part.bytes;
    }
    to.items += from.items;
  }

  /// Collectives of the root's weights become part of the embedding's: of the gather before, of the reduction after.
  void join_root() {
    const int embedding = model::embedding_unit();
    Entry* last_gather = nullptr;
    std::map<Op, std::vector<Entry*>> waiting;
    std::set<int> gone;
    for (Entry& e : list_.entries) {
      const Operation& o = e.operation;
      if (!of_weights(o) || (o.location.unit != root_ && o.location.unit != embedding)) continue;
      auto& c = std::get<Collective>(e.operation.what);
      if (gathers_weights(o)) {
        if (o.location.unit == embedding) last_gather = &e;
        if (o.location.unit != root_ || last_gather == nullptr) continue;
        join(std::get<Collective>(last_gather->operation.what), c);
        gone.insert(e.id);
        last_gather = nullptr;
      } else if (o.location.unit == root_) {
        waiting[c.op].push_back(&e);
      } else {
        for (const Entry* root : waiting[c.op]) {
          join(c, *root->operation.collective());
          gone.insert(root->id);
        }
        waiting[c.op].clear();
      }
    }
    list_.rewrite([&](Entry& e, const Pass& pass) {
      if (!gone.contains(e.id)) pass(std::move(e));
    });
  }

  /// Reductions of consecutive units become one, at the place of the last unit.
  void fill_buckets() {
    std::map<int, int> bucket_of;  // by unit
    std::map<int, int> last;       // by bucket: its last unit
    int bucket = 0;
    double elements = 0;
    for (const Entry& e : list_.entries) {
      const Operation& o = e.operation;
      if (!reduces_gradients(o) || bucket_of.contains(o.location.unit)) continue;
      const Collective& c = *o.collective();
      bucket_of[o.location.unit] = bucket;
      last[bucket] = o.location.unit;
      for (const auto& part : c.payloads)
        elements += static_cast<double>(part.bytes) / static_cast<double>(tensor::size_of(part.dtype));
      if (elements < std::max(static_cast<double>(s_.bucket), static_cast<double>(s_.bucket_rank) * c.ranks)) continue;
      ++bucket;
      elements = 0;
    }
    std::map<std::pair<int, Op>, Collective> held;
    list_.rewrite([&](Entry& e, const Pass& pass) {
      if (!reduces_gradients(e.operation)) return pass(std::move(e));
      auto& c = std::get<Collective>(e.operation.what);
      const int own = bucket_of.at(e.operation.location.unit);
      const std::pair<int, Op> key(own, c.op);
      const auto at = held.find(key);
      if (at != held.end()) {
        join(at->second, c);
        c = at->second;
      } else {
        held.emplace(key, c);
      }
      if (last.at(own) != e.operation.location.unit) return;
      held.erase(key);
      pass(std::move(e));
    });
  }

  void reduce_after_backward() {
    std::vector<Entry> late;
    bool done = false;
    list_.rewrite([&](Entry& e, const Pass& pass) {
      if (!done && reduces_gradients(e.operation)) {
        late.push_back(e);
        return;
      }
      if (e.operation.phase == Phase::optimizer && !done && !late.empty()) {
        for (Entry& reduction : late) pass(std::move(reduction));
        done = true;
      }
      pass(std::move(e));
    });
  }

  void copy_weights_and_gradients() {
    std::map<int, std::uint64_t> gathered;
    for (const Entry& e : list_.entries)
      if (gathers_weights(e.operation)) gathered[e.id] = e.operation.collective()->bytes();
    // Of the step before: what this step gathers ahead.
    std::vector<std::uint64_t> before;
    for (const int id : list_.ahead) before.push_back(gathered[id]);
    list_.rewrite([&](Entry& e, const Pass& pass) {
      Operation& o = e.operation;
      std::uint64_t bytes = 0;
      for (const int w : o.waits) {
        if (w < 0 && static_cast<std::size_t>(-1 - w) < before.size()) bytes += before[static_cast<std::size_t>(-1 - w)];
        if (const auto at = gathered.find(w); at != gathered.end()) bytes += at->second;
      }
      if (bytes > 0 && s_.gather_copies > 0) {
        Operation copy = copy_kernel(o, scaled(bytes, s_.gather_copies));
        copy.waits = std::exchange(o.waits, {});
        pass({list_.new_id(), std::move(copy)});
      }
      const bool reduces = reduces_gradients(o) && (o.collective()->op == Op::reduce_scatter ||
                                                    setup_.mesh[base::Axis::shard] == 1);
      if (reduces && s_.reduce_copies > 0)
        pass({list_.new_id(), copy_kernel(o, scaled(o.collective()->bytes(), s_.reduce_copies))});
      pass(std::move(e));
    });
  }

  void copy_around_tensor_group() {
    std::map<int, std::uint64_t> gathered;  // under way
    list_.rewrite([&](Entry& e, const Pass& pass) {
      Operation& o = e.operation;
      std::uint64_t bytes = 0;
      for (const int w : o.waits)
        if (const auto at = gathered.find(w); at != gathered.end()) bytes += at->second;
      if (bytes > 0) {
        Operation copy = copy_kernel(o, scaled(bytes, s_.tensor_copies));
        copy.waits = std::exchange(o.waits, {});
        pass({list_.new_id(), std::move(copy)});
      }
      const Collective* c = o.collective();
      const bool whole = c != nullptr && c->group == base::AxisSet::tensor && !c->by_parts && !c->host_values;
      if (!whole || (c->op != Op::all_gather && c->op != Op::reduce_scatter)) return pass(std::move(e));
      const std::uint64_t copied = scaled(c->bytes(), s_.tensor_copies);
      if (c->op == Op::reduce_scatter) {
        pass({list_.new_id(), copy_kernel(o, copied)});
        return pass(std::move(e));
      }
      const Operation copy = copy_kernel(o, copied);
      const bool at_once = o.stream == Stream::compute;
      if (!at_once) gathered[e.id] = c->bytes();
      pass(std::move(e));
      if (at_once) pass({list_.new_id(), copy});
    });
  }

  void scale_kernels() {
    list_.rewrite([&](Entry& e, const Pass& pass) {
      const Kernel* k = e.operation.kernel();
      if (k == nullptr || k->name == "copy") return pass(std::move(e));
      double factor = factor_of(k->name);
      const std::uint64_t bytes = e.operation.read + e.operation.written;
      if (k->name.starts_with("adamw") && s_.optimizer_bytes > 0 && bytes > 0)
        factor *= s_.optimizer_bytes * static_cast<double>(k->rows * k->cols) / static_cast<double>(bytes);
      const int kernels = std::max(1, static_cast<int>(std::lround(factor)));
      scale(e.operation, factor / kernels, factor / kernels);
      for (int i = 1; i < kernels; ++i) {
        Entry another{list_.new_id(), e.operation};
        another.operation.waits = std::exchange(e.operation.waits, {});
        pass(std::move(another));
      }
      pass(std::move(e));
    });
  }

  double factor_of(std::string_view kernel) const {
    const Structure::KernelFactor* found = nullptr;
    for (const auto& k : s_.kernels) {
      const bool fits = k.name == "any" || kernel.starts_with(k.name);
      if (fits && (found == nullptr || found->name == "any" || (k.name != "any" && k.name.size() > found->name.size())))
        found = &k;
    }
    return found == nullptr ? 1 : found->factor;
  }

  const Structure& s_;
  const deck::ModelConfig& model_;
  const train::Setup& setup_;
  int root_;
  StepList list_;
};

}  // namespace

operation::Operations transformed(const Structure& structure, const train::Setup& setup, operation::Operations step) {
  return Transformation(structure, setup, std::move(step)).run();
}

}  // namespace shard8::project
