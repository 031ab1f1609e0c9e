// The models that are served: which files there are, which of them are loaded, and what becomes of one that is replaced.
//
// A model is FOLDER/NAME.pt2 or FOLDER/NAME.package, with FOLDER/NAME.json beside it where it needs settings:
//
//   {"batching": "rows", "max_batch": 16, "max_rows": 2048, "queue": 128, "version": "3", "output_names": ["logits"],
//    "pack_weights": true, "strict": false}
//
// Names that clients send are looked for among the folder's entries; no path is made of them. A model that is loaded anew is warm before
// it takes the place of the one before, which answers what it was asked and goes with its last request.
#pragma once

#include <escapement/batcher.h>
#include <escapement/serving.h>

#include <boost/asio/thread_pool.hpp>

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "settings.h"

namespace server {

struct Served {
  escapement::Module module;
  escapement::Batcher batcher;
  std::string version;
};

class Repository {
 public:
  // Models that were replaced or unloaded end on the loader's thread: that waits for what they run.
  Repository(const Settings& settings, boost::asio::thread_pool& loader);

  void load_all();                       // what the settings name; std::exception of the first that cannot be loaded
  void load(const std::string& name);    // also one that is loaded already, from its file as it is now. Refusal
  void swap_weights(const std::string& name, const std::string& file);  // of a safetensors file of the folder. Refusal
  void unload(const std::string& name);  // Refusal
  void close();                          // ends all batchers; what waits is refused

  enum class State { loading, ready, unavailable };
  struct Row {
    std::string name, version, reason;
    State state;
  };
  std::vector<Row> rows() const;  // sorted by name
  std::shared_ptr<Served> find(const std::string& name) const;  // null: not there, or not ready
  std::vector<std::shared_ptr<Served>> served() const;
  bool complete() const { return complete_; }  // load_all has ended well
  bool busy() const { return loading_ > 0; }

 private:
  struct Source {
    std::filesystem::path program, settings;  // the second may be empty
    std::string trouble;                      // why it cannot be loaded
  };
  struct Entry {
    std::shared_ptr<Served> served;
    State state = State::loading;
    std::string reason;
  };
  std::map<std::string, Source> sources() const;
  Source source(const std::string& name) const;  // Refusal
  std::shared_ptr<Served> read(const std::string& name, const Source& source) const;
  void set(const std::string& name, State state, std::string reason, std::shared_ptr<Served> served = {});

  const Settings settings_;
  boost::asio::thread_pool& loader_;
  std::mutex turn_;  // one model is loaded at a time
  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
  std::atomic<int> loading_ = 0;
  std::atomic<bool> complete_ = false;
};

}  // namespace server
