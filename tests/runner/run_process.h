// Runs the program as a separate process, which a test may kill.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "framework/base/error.h"

namespace taper::v0::runner {

inline std::string read_bytes(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void write_bytes(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

// A working directory for runs. The destructor removes it.
class RunDirectory {
 public:
  RunDirectory() {
    static int count = 0;
    path_ = std::filesystem::temp_directory_path() /
            concat_to_string("taper_run_", getpid(), "_", count++);
    std::filesystem::create_directories(path_);
  }
  ~RunDirectory() { std::filesystem::remove_all(path_); }
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

#ifdef TAPER_PROGRAM
  // Writes a program that runs `body` and then taper. The config is its second argument, $2.
  // Returns its path.
  std::string write_program(const std::string& name, const std::string& body) const {
    const std::filesystem::path file = path_ / name;
    write_bytes(file, "#!/bin/sh\nverb=$1; config=$2; shift 2\n" + body +
                          "\nexec " TAPER_PROGRAM " $verb $config \"$@\"\n");
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return file.string();
  }
#endif

  struct Outcome {
    int code = 0;  // 128 + n if signal n killed it
    std::string out, err;
  };

  // The program that start() runs. If empty, it is TAPER_PROGRAM or, by default, the program of
  // this build.
  std::string program = {};

  // Starts `taper WORDS`. /bin/sh first runs `before`, for example "ulimit -f 8;".
  pid_t start(const std::vector<std::string>& words, const std::string& before = "") const {
    const pid_t child = ::fork();
    if (child == 0) become(words, before);
    return child;
  }
  // Replaces the calling process by the program.
  [[noreturn]] void become(const std::vector<std::string>& words,
                           const std::string& before = "") const {
    const char* set = program.empty() ? std::getenv("TAPER_PROGRAM") : program.c_str();
#ifdef TAPER_PROGRAM
    if (set == nullptr) set = TAPER_PROGRAM;
#endif
    std::string script = before + " exec \"$0\" \"$@\"";
    std::vector<std::string> all{"/bin/sh", "-c", script,
                                 std::filesystem::absolute(set ? set : "taper").string()};
    all.insert(all.end(), words.begin(), words.end());
    std::vector<char*> argv;
    for (std::string& word : all) argv.push_back(word.data());
    argv.push_back(nullptr);
    const std::string out = path_ / "stdout", err = path_ / "stderr", dir = path_;
    const int flags = O_WRONLY | O_CREAT | O_TRUNC;
    const bool ready = ::chdir(dir.c_str()) == 0 && ::dup2(::open("/dev/null", O_RDONLY), 0) == 0 &&
                       ::dup2(::open(out.c_str(), flags, 0666), 1) == 1 &&
                       ::dup2(::open(err.c_str(), flags, 0666), 2) == 2;
    if (ready) ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  Outcome wait(pid_t child) const {
    int status = 0;
    ::waitpid(child, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
            read_bytes(path_ / "stdout"), read_bytes(path_ / "stderr")};
  }
  Outcome taper(const std::vector<std::string>& words, const std::string& before = "") const {
    return wait(start(words, before));
  }

 private:
  std::filesystem::path path_;
};

// A mounted file system of 600 KB for runs in DIR. The destructor unmounts it.
class SmallDisk {
 public:
  explicit SmallDisk(const std::filesystem::path& dir) : dir_(dir) {
    std::filesystem::create_directories(dir);
    mounted = ::mount("tmpfs", dir.c_str(), "tmpfs", 0, "size=600k") == 0;
  }
  ~SmallDisk() {
    if (mounted) ::umount(dir_.c_str());
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  bool mounted;

 private:
  std::filesystem::path dir_;
};

}  // namespace taper::v0::runner
