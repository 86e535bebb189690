// The processes of a communicator's ranks: whether they live and how far they are, as far as that
// can be seen. Those of this host can; of other hosts' nothing is known.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/base/namespace.h"

namespace taper::v0::distributed {

class Peers {
 public:
  Peers();
  ~Peers();
  Peers& operator=(Peers&&) = delete;  // neither copied nor moved
  // What the others need to see this process: as long on every rank.
  std::string card() const;
  // The cards of all ranks, this one's too. Other threads may ask meanwhile, and see nobody.
  void meet(const std::vector<std::string>& cards, int rank);

  // By rank.
  const std::vector<std::string>& hosts() const { return hosts_; }
  // "rank 1 (node-7)".
  std::string name_of(int rank) const;

  // This rank begins a call; its number, which is the same on all ranks.
  uint64_t count_call() { return own_->calls.fetch_add(1) + 1; }
  // Whether this rank waits for the others in its last call.
  void set_waiting(bool on) const { own_->waits = on; }
  // This rank needs the others no more.
  void leave() { own_->has_left = true; }
  // This rank gives the communicator up, for `lost` or (-1) for several.
  void fail(int lost);

  struct Late {
    std::string text = {};  // "rank 2 (node-7) is stopped; rank 3 (node-7) has not called it"
    int rank = -1;          // -1 unless it is one
  };
  // For whom a call of that number waits in vain: a rank whose process is gone (with `unless_left`
  // before it left), or that gave up, for whom it named. Else no text.
  Late lost(uint64_t call, bool unless_left = false) const;
  // Who keeps the call from its end otherwise; `missing` are known not to have made it.
  Late late_for(uint64_t call, const std::vector<int>& missing = {}) const;

 private:
  // In memory that the processes of a host share, and that outlives them.
  struct Progress {
    std::atomic<uint64_t> calls{0};
    std::atomic<bool> waits{false}, has_left{false}, has_failed{false};
    std::atomic<int> lost{-1};
  };
  struct Peer {
    bool is_here = false;  // on this host, in the same namespace of processes
    int64_t pid = 0;
    uint64_t start = 0;                             // of the process: pids come again
    std::shared_ptr<const Progress> progress = {};  // null where it cannot be read
  };

  // That in a file; null where it cannot be had.
  static std::shared_ptr<Progress> mapped(int file, int access);
  static bool has_ended(const Peer& peer);
  static bool has_failed(const Peer& peer) { return peer.progress && peer.progress->has_failed; }
  // " is stopped"; empty where nothing is known to keep the rank from that call.
  static std::string state_of(const Peer& peer, uint64_t call);

  int file_ = -1;  // of own_
  std::shared_ptr<Progress> own_;
  int rank_ = 0;
  std::atomic<bool> met_{false};  // what follows is there, and only read
  std::vector<std::string> hosts_;
  std::vector<Peer> peers_;
};

}  // namespace taper::v0::distributed
