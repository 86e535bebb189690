#include "framework/distributed/communicator.h"

#include <algorithm>
#include <locale>
#include <memory>
#include <set>
#include <sstream>

#include "framework/cuda/cuda.h"
#include "framework/distributed/backend.h"
#include "framework/kernels/elementwise/copy.h"

namespace taper::v0::distributed {
namespace {

constexpr const char* kKindNames[] = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all",
                                      "broadcast"};

bool is_reduction(CollectiveKind kind) { return kind <= CollectiveKind::kReduceScatter; }

// Returns for example "all_reduce(sum) of float32 [3, 4]", which must be equal on all ranks.
std::string describe(const CollectiveCall& call) {
  if (!call.what.empty()) return call.what;
  std::string text = kKindNames[size_t(call.kind)];
  if (is_reduction(call.kind)) text += concat_to_string("(", call.op, ")");
  if (call.kind == CollectiveKind::kBroadcast) text += concat_to_string(" from rank ", call.root);
  return text + concat_to_string(" of ", call.dtype, " ", call.shape);
}

std::string describe(const SourceLocation& site) {
  return concat_to_string(site.file, ":", site.line);
}

std::string why_no_nccl() {
  if constexpr (kHasNccl) return nccl_unavailable_reason();
  return concat_to_string(
      "NCCL, for CUDA tensors: this build was made without ",
      kHasCuda ? "nccl.h: install NVIDIA's package libnccl-dev and build again" : "CUDA");
}

// Returns why the environment does not name a rank.
std::string wrong_variables() {
  try {
    launched_rank();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

// The lengths to which the description and the site of a call are padded or cut. A long path is cut
// at its beginning.
constexpr size_t kWhat = 160, kWhere = 96;
std::string header(std::string what, std::string where) {
  what.resize(kWhat - 1);
  if (where.size() >= kWhere) where.erase(0, where.size() - kWhere + 1);
  where.resize(kWhere);
  return what + '\0' + where;
}

// Exchanges with all ranks which collective each of them calls, and where. Throws Error if the
// calls differ.
void compare(Backend& ranks, const CollectiveCall& called) {
  const std::string text = to_string(called);
  const auto all = ranks.exchange(header(describe(called), describe(called.site)), text);
  std::string others;
  for (int r = 0; r < ranks.size; ++r) {
    const std::string& call = all[size_t(r)];
    if (call.substr(0, kWhat) == all[size_t(ranks.rank)].substr(0, kWhat)) continue;
    others += concat_to_string(others.empty() ? "" : "; ", ranks.name_of(r), " calls ",
                               call.c_str(), " at ", call.c_str() + kWhat);
  }
  if (!others.empty()) throw Error(text, ": ", others);
}

void check_tensor(const Backend& ranks, const Tensor& x, const CollectiveCall& call) {
  if (x.device() != ranks.device) {
    const char* hint = x.is_cpu() ? "; NCCL is for CUDA tensors, MPI for those of the CPU"
                                  : "; MPI is for CPU tensors, NCCL for CUDA's";
    throw Error(call, ": the tensor is on ", x.device(), ", the communicator on ", ranks.device,
                ranks.device.type() == x.device().type() ? "" : hint);
  }
  require(x.is_contiguous(), call, ": the tensor is not contiguous");
}

// Throws Error or ValueError for mistakes that this rank can detect alone.
void check_arguments(const Backend& ranks, const Collective& call) {
  const bool grows =
      call.kind == CollectiveKind::kReduceScatter || call.kind == CollectiveKind::kAllGather;
  std::set<const void*> seen;
  for (const auto& [out, in, root] : call.parts) {
    check_tensor(ranks, in, call);
    check_tensor(ranks, out, call);
    require(out.dtype() == in.dtype(), call, ": the result has dtype ", out.dtype());
    require(!is_reduction(call.kind) || in.dtype() == call.dtype, call,
            ": the tensors differ in dtype: ", call.dtype, " and ", in.dtype());
    const auto [small, large] = std::minmax({in.numel(), out.numel()});
    const bool fits = call.kind != CollectiveKind::kAllToAll || small % ranks.size == 0;
    require(large == small * (grows ? ranks.size : 1) && fits, call, ": with a result of shape ",
            out.shape(), ", which does not fit ", ranks.size, " ranks");
    require<ValueError>(root >= 0 && root < ranks.size, call, ": there is no rank ", root);
    require(call.op != ReduceOp::kAvg || in.is_floating_point(), call,
            ": averages are for floating tensors");
    require(!is_reduction(call.kind) || in.numel() == 0 || seen.insert(in.data_ptr()).second, call,
            ": one of the tensors is there twice");
  }
}

Work begin(Backend& ranks, CollectiveKind kind, ReduceOp op, std::vector<Part> parts, bool async_op,
           const SourceLocation& site) {
  if (parts.empty()) return {};
  const auto& [out, in, root] = parts[0];
  Collective call{
      {kind, op, in.dtype(), in.shape(), root, site, &ranks}, std::move(parts), async_op};
  if (call.parts.size() > 1) {
    uint64_t all = 0;
    for (const Part& p : call.parts)
      all = all * 1000003 +
            std::hash<std::string>()(concat_to_string(p.root, p.in.dtype(), p.in.shape()));
    call.what =
        concat_to_string(describe(call), " and ", call.parts.size() - 1, " more (", all, ")");
  }
  try {
    check_arguments(ranks, call);
  } catch (const Error&) {
    // The other ranks wait until this rank describes its call, so it must tell them that it rejects
    // the call.
    if (ranks.compares()) {
      ranks.exchange(header("a call that it refuses", describe(site)), to_string(call));
    }
    throw;
  }
  if (ranks.compares()) compare(ranks, call);
  for (const Part& part : call.parts) part.out.storage()->version.fetch_add(1);
  return Work(ranks.start(std::move(call)));
}

class AloneBackend : public Backend {
 public:
  explicit AloneBackend(Device own_device) {
    device = own_device;
    meet();
  }
  std::unique_ptr<Work::Pending> start(Collective call) override {
    for (const Part& part : call.parts)
      if (!part.out.is_same(part.in)) kernels::copy_into(part.out, part.in);
    return nullptr;
  }
  std::vector<std::string> exchange(const std::string& mine, const std::string&) override {
    return {mine};
  }
  std::shared_ptr<Backend> split(int, int) override {
    return std::make_shared<AloneBackend>(device);
  }
};

}  // namespace

std::string to_string(const CollectiveCall& call) {
  if (!call.ranks) return call.what;
  return concat_to_string(describe(call), " at ", describe(call.site), " on ",
                          call.ranks->name_of(call.ranks->rank));
}

Work::Work(std::unique_ptr<Pending> pending) : pending_(std::move(pending)) {}

Work::~Work() {
  try {
    wait();
  } catch (const Error&) {
    // The next call of the communicator reports the error again.
  }
}

void Work::wait() {
  const std::unique_ptr<Pending> pending = std::move(pending_);
  if (pending) pending->wait();
}

void Backend::meet() {
  peers->meet(exchange(peers->card(), concat_to_string("the start of rank ", rank)), rank);
}

int Backend::local_rank() const {
  const std::vector<std::string>& hosts = peers->hosts();
  return int(std::count(hosts.begin(), hosts.begin() + rank, hosts[size_t(rank)]));
}

std::string Communicator::unavailable_reason(Device device) {
  std::string all;
  const auto add = [&](const std::string& reason) {
    if (!reason.empty()) all += concat_to_string(all.empty() ? "" : "; ", reason);
  };
  if (device.is_cuda()) add(why_no_nccl());
  if (device.is_cuda()) add(cuda::unavailable_reason());
  const bool is_named = by_environment();
  if (device.is_cuda() && is_named) add(wrong_variables());
  if (device.is_cpu() && is_named && is_launched()) {
    add("WORLD_SIZE is set, but no MPI started this process: CPU tensors need mpirun");
  } else if (device.is_cpu() || !is_named) {
    add(mpi_unavailable_reason());
  }
  return all.empty()
             ? ""
             : concat_to_string("several ranks on ", device, " need what is not here: ", all);
}

Communicator Communicator::world(Device device, const CommunicatorOptions& options) {
  if (const std::string reason = unavailable_reason(device); !reason.empty()) throw Error(reason);
  if constexpr (kHasNccl) {
    if (device.is_cuda()) {
      return Communicator(
          nccl_world(device, options, by_environment() ? nullptr : mpi_world(options)));
    }
  }
  return Communicator(mpi_world(options));
}

Communicator Communicator::alone(Device device) {
  return Communicator(std::make_shared<AloneBackend>(cuda::resolve(device)));
}

void Communicator::abort(int exit_code) {
  abort_mpi(exit_code);
  std::_Exit(exit_code);
}

int Communicator::rank() const { return backend_->rank; }
int Communicator::size() const { return backend_->size; }
int Communicator::local_rank() const { return backend_->local_rank(); }
Device Communicator::device() const { return backend_->device; }
std::string Communicator::name_of(int rank) const { return backend_->name_of(rank); }

Communicator Communicator::split(int color, int key, SourceLocation site) const {
  if (color < 0) throw ValueError("split: the colour must not be negative, got ", color);
  compare(*backend_, {.site = site, .ranks = backend_.get(), .what = "split"});
  return Communicator(backend_->split(color, key));
}

Work Communicator::all_reduce(const Tensor& x, ReduceOp op, BoolArg async_op,
                              SourceLocation site) const {
  return begin(*backend_, CollectiveKind::kAllReduce, op, {{x, x}}, async_op, site);
}
Work Communicator::all_reduce(const std::vector<Tensor>& xs, ReduceOp op, BoolArg async_op,
                              SourceLocation site) const {
  std::vector<Part> parts;
  for (const Tensor& x : xs) parts.push_back({x, x});
  return begin(*backend_, CollectiveKind::kAllReduce, op, std::move(parts), async_op, site);
}
Work Communicator::reduce_scatter(const Tensor& out, const Tensor& in, ReduceOp op,
                                  BoolArg async_op, SourceLocation site) const {
  return begin(*backend_, CollectiveKind::kReduceScatter, op, {{out, in}}, async_op, site);
}
Work Communicator::all_gather(const Tensor& out, const Tensor& in, BoolArg async_op,
                              SourceLocation site) const {
  return begin(*backend_, CollectiveKind::kAllGather, ReduceOp::kSum, {{out, in}}, async_op, site);
}
Work Communicator::all_to_all(const Tensor& out, const Tensor& in, BoolArg async_op,
                              SourceLocation site) const {
  return begin(*backend_, CollectiveKind::kAllToAll, ReduceOp::kSum, {{out, in}}, async_op, site);
}
Work Communicator::broadcast(const Tensor& x, IntArg root, BoolArg async_op,
                             SourceLocation site) const {
  return begin(*backend_, CollectiveKind::kBroadcast, ReduceOp::kSum, {{x, x, int(root)}}, async_op,
               site);
}
Work Communicator::broadcast(const std::vector<Tensor>& xs, const std::vector<int>& roots,
                             BoolArg async_op, SourceLocation site) const {
  require<ValueError>(xs.size() == roots.size(), "broadcast: ", xs.size(), " tensors and ",
                      roots.size(), " roots");
  std::vector<Part> parts;
  for (size_t i = 0; i < xs.size(); ++i) parts.push_back({xs[i], xs[i], roots[i]});
  return begin(*backend_, CollectiveKind::kBroadcast, ReduceOp::kSum, std::move(parts), async_op,
               site);
}

void Communicator::broadcast_strided(const std::vector<Tensor>& xs, const std::vector<int>& roots,
                                     SourceLocation site) const {
  std::vector<Tensor> dense;
  for (const Tensor& x : xs) dense.push_back(kernels::dense(x));
  broadcast(dense, roots, false, site).wait();
  for (size_t i = 0; i < xs.size(); ++i) {
    if (dense[i].data_ptr() == xs[i].data_ptr() || roots[i] == rank()) continue;
    kernels::copy_into(xs[i], dense[i]);
    xs[i].storage()->version.fetch_add(1);
  }
}

void Communicator::check() const { backend_->check(); }

void Communicator::barrier(SourceLocation site) const {
  compare(*backend_, {.site = site, .ranks = backend_.get(), .what = "barrier"});
}

std::vector<NamedTensor> Communicator::broadcast_named(const std::vector<NamedTensor>& given,
                                                       IntArg root, SourceLocation site) const {
  std::string own;
  for (const auto& [name, x] : given) {
    own += concat_to_string(x.dtype(), " ", x.dim());
    for (const int64_t n : x.shape()) own += concat_to_string(" ", n);
    own += concat_to_string(" ", name, "\n");
  }
  const bool is_root = rank() == root;
  std::istringstream lines(all_gather_text(is_root ? own : "", site).at(size_t(root)));
  std::vector<NamedTensor> all;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    words.imbue(
        std::locale::classic());  // other locales may treat a blank as a thousands separator
    std::string dtype, name;
    size_t dim = 0;
    words >> dtype >> dim;
    Shape shape;
    for (int64_t n = 0; size_t(shape.size()) < dim && words >> n;) shape.push_back(n);
    std::getline(words.ignore(), name);
    const Tensor x = Tensor::make(shape, parse_dtype(dtype), device());
    if (is_root) kernels::copy_into(x, given[all.size()].tensor);
    broadcast(x, root, false, site).wait();
    const Tensor on_host = Tensor::make(shape, x.dtype(), Device());
    kernels::copy_into(on_host, x);
    all.push_back({name, on_host});
  }
  return all;
}

std::vector<std::string> Communicator::all_gather_text(const std::string& text,
                                                       SourceLocation site) const {
  const CollectiveCall call{.site = site, .ranks = backend_.get(), .what = "all_gather_text"};
  const std::string place = to_string(call);
  compare(*backend_, call);
  std::string length = concat_to_string(text.size());
  length.resize(20);
  std::vector<size_t> lengths;
  for (const std::string& l : backend_->exchange(length, place)) lengths.push_back(std::stoull(l));
  std::string padded = text;
  padded.resize(*std::max_element(lengths.begin(), lengths.end()));
  std::vector<std::string> all = backend_->exchange(padded, place);
  for (size_t r = 0; r < all.size(); ++r) all[r].resize(lengths[r]);
  return all;
}

}  // namespace taper::v0::distributed
