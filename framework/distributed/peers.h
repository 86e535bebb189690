// The processes of a communicator's ranks: whether they are alive and which call they have reached.
// Only processes on this host can be observed. Nothing is known about processes on other hosts.
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
  // Returns a text that other ranks need to observe this process. It has the same length on every
  // rank.
  std::string card() const;
  // Receives the cards of all ranks, including this one. A query on another thread sees no ranks
  // until this is done.
  void meet(const std::vector<std::string>& cards, int rank);

  // Indexed by rank.
  const std::vector<std::string>& hosts() const { return hosts_; }
  // Returns for example "rank 1 (node-7)".
  std::string name_of(int rank) const;

  // Counts a call of this rank and returns its number, which is the same on all ranks.
  uint64_t count_call() { return own_->calls.fetch_add(1) + 1; }
  // Sets whether this rank waits for the others in its last call.
  void set_waiting(bool on) const { own_->waits = on; }
  // Marks that this rank no longer needs the others.
  void leave() { own_->has_left = true; }
  // Marks that this rank abandons the communicator because of rank `lost`, or of several ranks
  // (-1).
  void fail(int lost);

  struct Late {
    std::string text = {};  // "rank 2 (node-7) is stopped; rank 3 (node-7) has not called it"
    int rank = -1;          // -1 unless there is exactly one
  };
  // Returns a rank that prevents a call of that number from ever completing, or an empty text if
  // there is none. That is a rank that has ended, or that was named by a rank that abandoned the
  // communicator. With unless_left, a rank that left before it ended does not count.
  Late lost(uint64_t call, bool unless_left = false) const;
  // Returns an empty text while no other rank of this host has abandoned the communicator, and
  // lost() for this rank's last call afterwards. While it is empty, this reads only a flag of each
  // rank in shared memory.
  Late abandoned() const;
  // Returns the ranks that delay the call, if no rank is lost. The ranks in `missing` are known not
  // to have made the call.
  Late late_for(uint64_t call, const std::vector<int>& missing = {}) const;

 private:
  // A rank's progress, in memory that the processes of a host share. It outlives the processes.
  struct Progress {
    std::atomic<uint64_t> calls{0};
    std::atomic<bool> waits{false}, has_left{false}, has_failed{false};
    std::atomic<int> lost{-1};
  };
  struct Peer {
    bool is_here = false;  // on this host, in the same namespace of processes
    int64_t pid = 0;
    uint64_t start = 0;  // start time of the process, because process numbers are reused
    std::shared_ptr<const Progress> progress = {};  // null if it cannot be read
  };

  // Maps a file that holds a Progress into memory. Returns null on failure.
  static std::shared_ptr<Progress> mapped(int file, int access);
  static bool has_ended(const Peer& peer);
  static bool has_failed(const Peer& peer) { return peer.progress && peer.progress->has_failed; }
  // Returns what prevents the rank from making that call, such as " is stopped"; empty if nothing
  // is known.
  static std::string state_of(const Peer& peer, uint64_t call);

  int file_ = -1;  // the file behind own_
  std::shared_ptr<Progress> own_;
  int rank_ = 0;
  // set when the fields below are complete; they are only read afterwards
  std::atomic<bool> met_{false};
  std::vector<std::string> hosts_;
  std::vector<Peer> peers_;
};

}  // namespace taper::v0::distributed
