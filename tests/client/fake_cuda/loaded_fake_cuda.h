#pragma once

#include <dlfcn.h>

#include <stdexcept>
#include <string>

namespace lowgear::client {

/// The stand-in for libcuda.so.1 at a path, to be controlled by a test: the same that code under test loads from there.
class LoadedFakeCuda {
 public:
  explicit LoadedFakeCuda(std::string path) : path_(std::move(path)), library_(dlopen(path_.c_str(), RTLD_NOW)) {
    if (library_ == nullptr) throw std::runtime_error(dlerror());
    call("fake_cuda_reset");
  }

  [[nodiscard]] const std::string& path() const { return path_; }
  void set(const char* what, int value) const { function<void(int)>("fake_cuda_set_" + std::string(what))(value); }
  void work(int items) const { function<void(int)>("fake_cuda_work")(items); }
  [[nodiscard]] int count(const char* what) const { return function<int()>("fake_cuda_" + std::string(what))(); }

 private:
  template <typename Signature>
  [[nodiscard]] Signature* function(const std::string& name) const {
    void* const symbol = dlsym(library_, name.c_str());
    if (symbol == nullptr) throw std::runtime_error(name + " is missing");
    return reinterpret_cast<Signature*>(symbol);
  }
  void call(const char* name) const { function<void()>(name)(); }

  std::string path_;
  void* library_;
};

}  // namespace lowgear::client
