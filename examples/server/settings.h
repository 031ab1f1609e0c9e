// What the command line says, and what a client may take: every limit of the server stands here.
#pragma once

#include <escapement/batcher.h>

#include <chrono>
#include <cstddef>
#include <string>

namespace server {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

// Of one listening port. A time that is over is answered with 408, a size with 413 or 431, where the client still listens.
struct HttpLimits {
  size_t connections = 1024;         // open at once; then the longest idle one gives way, else the new one gets 503
  size_t header_bytes = 16 << 10;    // of the request line and the header
  size_t body_bytes = 64 << 20;      // of a body, however it is sent; compressed ones are refused
  Milliseconds header_time{10'000};  // from a request's first byte (a connection's begin) to the end of its header
  Milliseconds body_time{30'000};    // from there to the end of the body
  Milliseconds write_time{30'000};   // until the client has taken the answer
  Milliseconds idle_time{60'000};    // between two requests of a connection
};

struct Settings {
  std::string model, name, models, host = "127.0.0.1";
  int port = 8000, control_port = -1;  // 0: any free port; -1: the next one
  int threads = 0;                     // torch's
  int codec_threads = 2;               // that read and write large bodies
  size_t memory_bytes = size_t{1} << 30;  // of bodies, inputs and answers that are held at once
  Milliseconds timeout{0};                // of a request, from the end of its header; 0: none
  Milliseconds drain_time{10'000};        // from SIGTERM to the end, at the latest
  HttpLimits http;
  escapement::BatchSettings batch;  // of each model whose own settings say nothing else
  bool trust_packages = false;      // their machine code runs, where nobody else may write the file
  bool repository_control = false;  // models may be loaded and unloaded at the control port
};

// False, with the usage on stderr, where the arguments are none of ours.
bool read_settings(int count, char** arguments, Settings& settings);

}  // namespace server
