#include "framework/distributed/peers.h"

#include <algorithm>
#include <fstream>
#include <locale>
#include <memory>
#include <new>
#include <sstream>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "framework/base/error.h"

namespace taper::v0::distributed {
namespace {

std::string line_of(const std::string& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

// Returns for example "pid:[4026531836]". Process numbers are valid within one namespace.
std::string pid_namespace() {
  std::string name(64, '\0');
  const ssize_t n = readlink("/proc/self/ns/pid", name.data(), name.size());
  name.resize(n > 0 ? size_t(n) : 0);
  return name;
}

// (https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html)
struct Stat {
  char state = '\0';   // 0: no such process
  uint64_t start = 0;  // in clock ticks after boot
};
Stat stat_of(int64_t pid) {
  const std::string line = line_of(concat_to_string("/proc/", pid, "/stat"));
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream fields(line.substr(name_end + 1));
  fields.imbue(std::locale::classic());  // other locales may treat a blank as a thousands separator
  Stat stat;
  fields >> stat.state;
  std::string passed_over;
  for (int field = 4; field < 22; ++field) fields >> passed_over;
  fields >> stat.start;
  return stat;
}

constexpr size_t kCard = 320;
constexpr const char* kNotCalled = " has not called it";

}  // namespace

Peers::Peers() {
  file_ = memfd_create("taper_ranks", MFD_CLOEXEC);
  if (ftruncate(file_, sizeof(Progress)) == 0) own_ = mapped(file_, PROT_READ | PROT_WRITE);
  if (!own_) own_ = std::make_shared<Progress>();
  ::new (own_.get()) Progress;
}

Peers::~Peers() {
  if (file_ >= 0) close(file_);
}

std::shared_ptr<Peers::Progress> Peers::mapped(int file, int access) {
  void* memory = mmap(nullptr, sizeof(Progress), access, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return nullptr;
  return {static_cast<Progress*>(memory), [](Progress* p) { munmap(p, sizeof(Progress)); }};
}

std::string Peers::card() const {
  char host[65] = "";
  gethostname(host, sizeof host - 1);
  // If the boot id, the namespace or the start time is unknown, no process is treated as running on
  // this host.
  std::string text =
      concat_to_string(host, "\n", line_of("/proc/sys/kernel/random/boot_id"), " ", pid_namespace(),
                       "\n", getpid(), " ", stat_of(getpid()).start, " ", file_);
  text.resize(kCard);
  return text;
}

void Peers::meet(const std::vector<std::string>& cards, int rank) {
  rank_ = rank;
  std::string own_place;
  std::istringstream own(cards[size_t(rank)]);
  std::getline(std::getline(own, own_place), own_place);
  for (const std::string& card : cards) {
    std::istringstream lines(card.c_str());
    lines.imbue(std::locale::classic());
    std::string host, place;
    Peer peer;
    int file = -1;
    std::getline(std::getline(lines, host), place);
    lines >> peer.pid >> peer.start >> file;
    peer.is_here = place == own_place && place.find("pid:") != std::string::npos && peer.start > 0;
    hosts_.push_back(host);
    // If the kernel does not permit this, only the progress of that rank remains unknown.
    const int opened =
        peer.is_here && file >= 0
            ? open(concat_to_string("/proc/", peer.pid, "/fd/", file).c_str(), O_RDONLY | O_CLOEXEC)
            : -1;
    peer.progress = mapped(opened, PROT_READ);
    if (opened >= 0) close(opened);
    peers_.push_back(std::move(peer));
  }
  met_ = true;
}

std::string Peers::name_of(int rank) const {
  if (!met_ || size_t(rank) >= hosts_.size()) return concat_to_string("rank ", rank);
  return concat_to_string("rank ", rank, " (", hosts_[size_t(rank)], ")");
}

void Peers::fail(int lost) {
  own_->lost = lost;
  own_->has_failed = true;
}

bool Peers::has_ended(const Peer& peer) {
  if (!peer.is_here) return false;
  const Stat now = stat_of(peer.pid);
  return !now.state || now.start != peer.start || now.state == 'Z' || now.state == 'X';
}

std::string Peers::state_of(const Peer& peer, uint64_t call) {
  if (has_ended(peer)) return " has ended";
  const char state = peer.is_here ? stat_of(peer.pid).state : '\0';
  if (state == 'T' || state == 't') return " is stopped";
  return peer.progress && peer.progress->calls < call ? kNotCalled : "";
}

Peers::Late Peers::lost(uint64_t call, bool unless_left) const {
  if (!met_) return {};
  int witness = -1;
  for (int r = 0; r < int(peers_.size()); ++r) {
    const Peer& peer = peers_[size_t(r)];
    if (r == rank_) continue;
    // Checked before has_failed(), because a rank that fails or leaves ends afterwards.
    const bool ended = has_ended(peer);
    if (has_failed(peer)) {
      witness = r;
      continue;
    }
    // A rank whose progress cannot be read may have left without a failure.
    if (unless_left && (!peer.progress || peer.progress->has_left)) continue;
    if (ended) return {concat_to_string(name_of(r), " has ended"), r};
  }
  if (witness < 0) return {};
  const int gone = peers_[size_t(witness)].progress->lost;
  if (gone < 0) return {concat_to_string(name_of(witness), " has given up"), -1};
  if (gone == rank_)
    return {concat_to_string(name_of(witness), " has given up waiting for this rank"), gone};
  const std::string state = state_of(peers_[size_t(gone)], call);
  const std::string found = concat_to_string(" is lost, as ", name_of(witness), " found");
  return {concat_to_string(name_of(gone), state.empty() ? found : state), gone};
}

Peers::Late Peers::abandoned() const {
  if (!met_) return {};
  for (int r = 0; r < int(peers_.size()); ++r) {
    if (r != rank_ && has_failed(peers_[size_t(r)])) return lost(own_->calls);
  }
  return {};
}

Peers::Late Peers::late_for(uint64_t call, const std::vector<int>& missing) const {
  if (!met_) return {"not all ranks have come"};
  // A rank that waits for a stopped one, or that waits in an earlier call, has not made this call
  // either.
  Late stopped, late, waiting;
  std::vector<int> unseen;
  for (int r = 0; r < int(peers_.size()); ++r) {
    const Peer& peer = peers_[size_t(r)];
    if (r == rank_) continue;
    std::string state = state_of(peer, call);
    if (has_failed(peer)) continue;
    const bool is_missing = std::find(missing.begin(), missing.end(), r) != missing.end();
    if (state.empty() && is_missing) state = kNotCalled;
    if (state.empty()) {
      if (!peer.progress) unseen.push_back(r);
      continue;
    }
    const bool waits = peer.progress && peer.progress->waits;
    Late& found = state != kNotCalled ? stopped : waits ? waiting : late;
    found.rank = found.text.empty() ? r : -1;
    found.text += concat_to_string(found.text.empty() ? "" : "; ", name_of(r), state);
  }
  for (const Late& found : {stopped, late}) {
    if (!found.text.empty()) return found;
  }
  if (unseen.empty()) return waiting.text.empty() ? Late{"all ranks have called it"} : waiting;
  std::string names;
  for (size_t i = 0; i < std::min<size_t>(unseen.size(), 4); ++i) {
    names += concat_to_string(i == 0 ? "" : ", ", name_of(unseen[i]));
  }
  if (unseen.size() > 4) names += concat_to_string(" and ", unseen.size() - 4, " more");
  return {concat_to_string("of those that cannot be seen from here (", names,
                           ") one has not called it, hangs or is gone"),
          unseen.size() == 1 ? unseen[0] : -1};
}

}  // namespace taper::v0::distributed
