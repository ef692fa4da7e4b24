// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "project/transformation.hpp"

namespace shard8::project {

using operation::Kernel;
using operation::Linear;
using operation::Product;
using profile::Phase;
using tensor::DType;
using Op = profile::Collective;

namespace {

/// A kernel that reads and writes `bytes` in all, half each.
operation::Operation copy_kernel(const operation::Operation& like, std::uint64_t bytes) {
  operation::Operation o;
  o.location = like.location;
  o.phase = like.phase;
  o.read = bytes / 2;
  o.written = bytes - o.read;
  const auto elements = static_cast<std::int64_t>(o.written / 2);
  o.what = Kernel{"copy", elements, 1, DType::bf16, DType::bf16, o.read, o.written};
  return o;
}

}  // namespace

void Transformation::expose_first_gathers() {
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

void Transformation::join(Collective& to, const Collective& from) {
  for (const auto& part : from.payloads) {
    const auto same =
        std::find_if(to.payloads.begin(), to.payloads.end(), [&](const auto& p) { return p.dtype == part.dtype; });
    if (same == to.payloads.end())
      to.payloads.push_back(part);
    else
      same->bytes += part.bytes;
  }
  to.items += from.items;
}

void Transformation::join_root() {
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

void Transformation::fill_buckets() {
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

void Transformation::reduce_after_backward() {
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

void Transformation::gather_after_reductions() {
  std::vector<Entry> held;
  const auto release = [&](const Pass& pass) {
    for (Entry& gather : held) pass(std::move(gather));
    held.clear();
  };
  const std::set<int> ahead(list_.ahead.begin(), list_.ahead.end());
  list_.rewrite([&](Entry& e, const Pass& pass) {
    const Operation& o = e.operation;
    if (gathers_weights(o) && o.phase == Phase::backward && !ahead.contains(e.id)) {
      held.push_back(e);
      return;
    }
    for (const int w : o.waits)
      if (std::any_of(held.begin(), held.end(), [w](const Entry& gather) { return gather.id == w; })) {
        release(pass);
        break;
      }
    const bool reduction = reduces_gradients(o);
    pass(std::move(e));
    if (!reduction) return;
    for (Entry& gather : held) gather.operation.stream = Stream::reduce;
    release(pass);
  });
}

void Transformation::split_calls() {
  std::map<int, std::vector<int>> parts;  // by the id of the whole call
  std::vector<int> ahead;
  const std::set<int> ahead_before(list_.ahead.begin(), list_.ahead.end());
  list_.rewrite([&](Entry& e, const Pass& pass) {
    std::vector<int> waits;
    for (const int w : e.operation.waits) {
      if (w < 0) {
        for (int c = 0; c < s_.gather_calls; ++c) waits.push_back(w * s_.gather_calls + s_.gather_calls - 1 - c);
        continue;
      }
      waits.push_back(w);
      if (const auto at = parts.find(w); at != parts.end())
        waits.insert(waits.end(), at->second.begin(), at->second.end());
    }
    e.operation.waits = std::move(waits);
    const bool gather = gathers_weights(e.operation);
    const int reduce_calls = s_.reduce_call_bytes > 0 ? 1 : s_.reduce_calls;
    const int calls = !of_weights(e.operation) ? 1 : gather ? s_.gather_calls : reduce_calls;
    if (calls > 1) {
      auto& c = std::get<Collective>(e.operation.what);
      for (auto& part : c.payloads) part.bytes /= static_cast<std::uint64_t>(calls);
    }
    Entry call = e;
    call.operation.waits.clear();
    pass(std::move(e));
    if (ahead_before.contains(call.id)) ahead.push_back(call.id);
    for (int c = 1; c < calls; ++c) {
      Entry another{list_.new_id(), call.operation};
      parts[call.id].push_back(another.id);
      if (ahead_before.contains(call.id)) ahead.push_back(another.id);
      pass(std::move(another));
    }
  });
  list_.ahead = std::move(ahead);
}

void Transformation::start_reductions_early() {
  const auto h = static_cast<double>(model_.hidden), f = static_cast<double>(model_.ffn);
  const auto q = static_cast<double>(model_.query_width()), k = static_cast<double>(model_.key_width());
  const bool gated = model_.arch == deck::Arch::llama && !s_.plain_mlp;
  const auto weights_of = [&](Linear linear) -> std::vector<double> {  // elements
    switch (linear) {
      case Linear::qkv:
        return {h * k, h * k, h * q};
      case Linear::proj:
        return {h * q};
      case Linear::fc1:
        return std::vector<double>(gated ? 2 : 1, h * f);
      case Linear::fc2:
        return {h * f};
    }
    return {};
  };
  std::map<int, std::vector<std::pair<int, Linear>>> written;  // by unit: the last wgrad product of each linear
  std::multimap<int, Operation> early;                         // by the entry that writes a call's last gradient
  for (Entry& e : list_.entries) {
    Operation& o = e.operation;
    if (!of_layer(o)) continue;
    const Product* p = o.product();
    if (p != nullptr && p->kind == Product::Kind::wgrad && o.location.linear) {
      auto& products = written[o.location.unit];
      std::erase_if(products, [&](const auto& product) { return product.second == *o.location.linear; });
      products.emplace_back(e.id, *o.location.linear);
    }
    if (!reduces_gradients(o)) continue;
    const auto products = std::exchange(written[o.location.unit], {});
    auto& c = std::get<Collective>(o.what);
    double all = 0;  // elements of the unit on this tensor rank
    for (const auto& payload : c.payloads)
      all += static_cast<double>(payload.bytes) / static_cast<double>(tensor::size_of(payload.dtype));
    const auto share_of = [&](double elements) { return elements / setup_.mesh[base::Axis::tensor] / all; };
    double of_linears = 0;
    for (const auto& [id, linear] : products)
      for (const double elements : weights_of(linear)) of_linears += share_of(elements);
    if (of_linears > 1) continue;  // a reduction of other weights, of experts
    Operation whole = o;
    whole.waits.clear();
    const double kept = static_cast<double>(c.bytes()) / c.ranks;  // bytes of this rank's shard
    double share = 0;                                              // of the call that is being filled
    int last = 0;                                                  // the entry that writes its last gradient
    for (const auto& [id, linear] : products)
      for (const double elements : weights_of(linear)) {
        const double own = share_of(elements);
        if (share > 0 && (share + own) * kept > s_.reduce_call_bytes) {
          auto& call = std::get<Collective>(early.emplace(last, whole)->second.what);
          for (std::size_t i = 0; i < call.payloads.size(); ++i) {
            call.payloads[i].bytes = scaled(call.payloads[i].bytes, share);
            c.payloads[i].bytes -= call.payloads[i].bytes;
          }
          share = 0;
        }
        share += own;
        last = id;
      }
    // What is left, with norms and biases, is reduced where the whole was.
  }
  list_.rewrite([&](Entry& e, const Pass& pass) {
    const int id = e.id;
    pass(std::move(e));
    for (auto [at, end] = early.equal_range(id); at != end; ++at) pass({list_.new_id(), at->second});
  });
}

void Transformation::end_reductions_within_layers() {
  constexpr int kNone = -1;
  std::vector<int> pending;  // reductions of one group of layers
  int group = kNone;
  for (Entry& e : list_.entries) {
    Operation& o = e.operation;
    const bool in_backward = of_layer(o) && o.phase == Phase::backward;
    if (reduces_gradients(o)) {
      if (of_layer(o)) pending.push_back(e.id);
    } else if (computes_layer(o) || o.product() != nullptr || o.phase == Phase::optimizer) {
      const int own = in_backward ? (model_.layers - o.location.unit) / s_.reduce_within : kNone;
      if (own != group) {
        o.waits.insert(o.waits.end(), pending.begin(), pending.end());
        pending.clear();
      }
      group = own;
    }
  }
}

void Transformation::copy_weights_and_gradients() {
  std::map<int, std::uint64_t> gathered;
  for (const Entry& e : list_.entries)
    if (gathers_weights(e.operation)) gathered[e.id] = e.operation.collective()->bytes();
  // The bytes of the gathers of the step before that bring weights for this step. This step's gathers for the next step
  // have the same bytes.
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
    const bool reduces =
        reduces_gradients(o) && (o.collective()->op == Op::reduce_scatter || setup_.mesh[base::Axis::shard] == 1);
    if (reduces && s_.reduce_copies > 0)
      pass({list_.new_id(), copy_kernel(o, scaled(o.collective()->bytes(), s_.reduce_copies))});
    pass(std::move(e));
  });
}

void Transformation::copy_around_tensor_group() {
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

}  // namespace shard8::project
