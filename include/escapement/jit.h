// The C++ front end: any callable over tensors, recorded at its first call and compiled for all sizes. docs/cpp.md is the
// contract.
//
//   auto f = escapement::jit([](at::Tensor x, at::Tensor w) { return at::softmax(at::matmul(x, w), -1); });
//   at::Tensor y = f(a, b);             // runs the function and records it
//   y = f(c, d);                        // other sizes: the same code, the function itself does not run
//
// A callable is a function, a lambda, a functor, or a torch::nn module (its holder or shared_ptr, called by `forward`).
// Its parameters and its result are made of: at::Tensor, c10::SymInt, c10::SymFloat (parameters only), integers,
// floating-point numbers, bool, enums, std::string, std::string_view; std::vector, c10::ArrayRef (parameters only), std::tuple, std::pair,
// std::array, std::optional and structs that Boost.Hana knows of those, nested. Of a callable with several or generic signatures, name one:
// jit<at::Tensor(at::Tensor)>(f).
//
// A parameter through which the function can bind its caller's variable anew (`at::Tensor&`, `std::vector<at::Tensor>&`, `at::Tensor*`,
// std::reference_wrapper) takes the caller's variable, and that is bound to what the function left there.
#pragma once

#include <concepts>
#include <functional>
#include <stdexcept>
#include <tuple>
#include <type_traits>
#include <utility>

#include "escapement/jit_core.h"
#include "escapement/jit_places.h"
#include "escapement/jit_signature.h"
#include "escapement/jit_types.h"
#include "escapement/jit_values.h"

namespace escapement::inline ESCAPEMENT_ABI {

// Sizes that stay symbolic while a function is recorded: pass them on to operators (x.view_symint, at::zeros_symint),
// compute with them, and compare them, which guards the outcome and not the value. x.size(0) reads the number: code that
// did is compiled for that number.
inline c10::SymInt sym_size(const at::Tensor& tensor, int64_t dim) { return tensor.sym_size(dim); }
inline c10::SymIntArrayRef sym_sizes(const at::Tensor& tensor) { return tensor.sym_sizes(); }
inline c10::SymInt sym_numel(const at::Tensor& tensor) { return tensor.sym_numel(); }

// Says that objects of a module class of your own may be compared byte by byte, so that a replaced parameter is noticed
// (docs/cpp.md). Needed for classes below the module that is passed to jit(), not for that one itself, nor for those of
// torch.
template <class M>
void watch_module() {
  detail::watch_module(typeid(M), sizeof(M));
}

namespace detail {

template <class T>
inline constexpr bool may_be_left_out = std::same_as<T, at::Tensor> || is_a<std::optional, T>;

// A lambda that is `mutable`, a functor whose call operator is not const.
template <class F, class... As>
inline constexpr bool may_change_itself = std::is_class_v<F> && !std::is_invocable_v<const F&, passed<As>...>;

}  // namespace detail

// The compiled function: a handle, whose copies are the same function. Any number of threads may call it; a callable that may change itself
// is to be called by one at a time, as without us.
template <class Signature>
class Jitted;

template <class R, class... As>
class Jitted<R(As...)> {
  static constexpr bool kCarried = detail::CheckSignature<R(As...)>::value;   // else an error of the compiler's has said so

 public:
  using Result = detail::result_of<R>;

  template <class F>
  Jitted(F fn, detail::Watched watched, detail::JitSettings settings) {
    constexpr bool fits = std::is_invocable_v<F&, detail::passed<As>...>;
    static_assert(fits || !kCarried, "escapement::jit: the callable cannot be called with this signature");
    if constexpr (fits && kCarried) start(std::make_shared<F>(std::move(fn)), std::move(watched), std::move(settings));
  }

  Result operator()(detail::accepted<As>... arguments) const {
    if constexpr (kCarried) return call(arguments...);
    else __builtin_unreachable();
  }

  // Tensors and optionals at the end may be left out.
  template <class... Given>
    requires(sizeof...(Given) < sizeof...(As))
  Result operator()(Given&&... given) const {
    return complete(std::make_index_sequence<sizeof...(As) - sizeof...(Given)>(), std::forward<Given>(given)...);
  }

  // JSON: escapes with file:line, eager calls by reason, and for each shape of calls versions, kernels, guards, timings.
  std::string explain() const { return core_->explain(); }
  std::vector<Escape> escapes() const { return core_->escapes(); }

  // What is counted of this function's calls, its copies' included. Latency is not measured.
  Metrics metrics() const { return core_->metrics(); }

  // Who is told of recordings, compiles, and of what is not compiled, from now on; nobody at first.
  void set_log(Log log) const { core_->set_log(std::move(log)); }

 private:
  using Run = std::function<Result(detail::passed<As>...)>;
  static constexpr const char* kBoundOnly = "variables";   // stands before the variables of a function that threw
  static constexpr bool kInOut = (detail::is_in_out<As> || ...);
  static constexpr bool kMayMeet = kInOut && (int{detail::refers<As>} + ... + 0) > 1;

  template <class F>
  void start(std::shared_ptr<F> fn, detail::Watched watched, detail::JitSettings settings) {
    if constexpr (detail::may_be_empty<F>) {
      if (!static_cast<bool>(*fn)) throw std::invalid_argument("escapement::jit: the function is null; give one that is set");
    }
    if constexpr (detail::may_change_itself<F, As...>) watched.callable = std::as_bytes(std::span<const F>(fn.get(), 1));
    run_ = std::make_shared<const Run>([fn = std::move(fn)](detail::passed<As>... arguments) -> Result {
      return static_cast<Result>(std::invoke(*fn, static_cast<detail::passed<As>>(arguments)...));
    });
    core_ = std::make_shared<detail::JitCore>(
        [run = run_](detail::LeafReader& reader, detail::Values& results) { return run_values(*run, reader, results); },
        std::move(watched), std::move(settings));
  }

  Result call(std::remove_reference_t<detail::accepted<As>>&... arguments) const {
    if (kMayMeet && meet(arguments...)) {
      if (!detail::recording_here()) core_->note_eager_for_aliases();
      return run_plainly(arguments...);
    }
    detail::Leaves leaves;
    (detail::take_argument_apart<As>(leaves, arguments), ...);
    leaves.seal();
    detail::Results results;
    bool answered = false;
    try {
      answered = core_->call(leaves, results.values);
    } catch (...) {   // what the function bound anew before it failed
      if (kInOut && !results.values.empty() && results.values[0].isString()) {
        auto next = results.values.begin() + 1;
        (detail::bind_anew<As>(next, arguments), ...);
      }
      throw;
    }
    return answered ? receive<Result>(results.values, arguments...) : run_plainly(arguments...);
  }

  static bool meet(const std::decay_t<As>&... arguments) {
    detail::Places places;
    (places.add<As>(arguments), ...);
    return places.meet();
  }

  static bool run_values(const Run& run, detail::LeafReader& reader, detail::Values& results) {
    return run_kept(run, results, std::tuple<detail::kept<As>...>{detail::put_argument_together<As>(reader)...}, std::index_sequence_for<As...>());
  }
  template <size_t... I>
  static bool run_kept(const Run& run, detail::Values& results, std::tuple<detail::kept<As>...> arguments, std::index_sequence<I...>) {
    detail::Values before;
    if constexpr (kInOut) {
      auto copy = arguments;
      (detail::give_back<As>(before, std::get<I>(copy)), ...);
    }
    const auto give_back = [&] { (detail::give_back<As>(results, std::get<I>(arguments)), ...); };
    try {
      const detail::ProgramFrames frames;
      if constexpr (std::is_void_v<Result>) run(detail::pass<As>(std::get<I>(arguments))...);
      else detail::give<Result>(results, run(detail::pass<As>(std::get<I>(arguments))...));
    } catch (...) {
      results.assign(1, kBoundOnly);
      give_back();
      throw;
    }
    const size_t first = results.size();
    give_back();
    return detail::bound_anew(before, std::span<const c10::IValue>(results).subspan(first));
  }
  // The call's result, after its variables have been bound.
  template <class T, class... Arguments>
  static T receive(detail::Values& results, Arguments&... arguments) {
    auto next = results.begin();
    if constexpr (std::is_void_v<T>) {
      (detail::bind_anew<As>(next, arguments), ...);
    } else {
      T result = detail::receive<T>(next);
      (detail::bind_anew<As>(next, arguments), ...);
      return result;
    }
  }
  template <class... Arguments>
  Result run_plainly(Arguments&... arguments) const {
    std::tuple<decltype(detail::pass_on<As>(arguments))...> owners{detail::pass_on<As>(arguments)...};
    return std::apply([&](auto&... each) -> Result { return (*run_)(static_cast<detail::passed<As>>(each)...); }, owners);
  }

  template <size_t... kMissing, class... Given>
  Result complete(std::index_sequence<kMissing...>, Given&&... given) const {
    using All = std::tuple<std::decay_t<As>...>;
    static_assert((detail::may_be_left_out<std::tuple_element_t<sizeof...(Given) + kMissing, All>> && ...),
                  "only tensors and optionals at the end of the parameters may be left out");
    return (*this)(std::forward<Given>(given)..., std::tuple_element_t<sizeof...(Given) + kMissing, All>()...);
  }

  std::shared_ptr<const Run> run_;
  std::shared_ptr<detail::JitCore> core_;
};

namespace detail {

template <class F>
struct Deduced : SignatureOf<F> {};
template <ModuleLike F>
struct Deduced<F> : ForwardSignature<typename ModuleType<F>::type> {};
template <class F>
concept HasSignature = requires { typename Deduced<F>::type; };

template <class Signature, class F>
Jitted<Signature> make_jitted(F fn, JitSettings settings) {
  if constexpr (ModuleLike<F>) {
    escapement::watch_module<typename ModuleType<F>::type>();
    const auto module = ModuleType<F>::pointer(fn);
    if (module == nullptr) throw std::invalid_argument("escapement::jit: the module is null; make one before it is compiled");
    auto forward = [module = module.get()]<class... Ts>(Ts&&... arguments) -> decltype(auto) {
      return module->forward(std::forward<Ts>(arguments)...);
    };
    return {std::move(forward), Watched{module, {}}, std::move(settings)};
  } else {
    return {std::move(fn), Watched{}, std::move(settings)};
  }
}

template <class F>
auto make_deduced(F fn, JitSettings settings) {
  static_assert(HasSignature<F>, "escapement::jit: the callable is generic or overloaded: name its signature, jit<at::Tensor(at::Tensor)>(f)");
  if constexpr (HasSignature<F>) return make_jitted<typename Deduced<F>::type>(std::move(fn), std::move(settings));
  else return Nothing();
}

template <class F>
inline constexpr const char* usual_name = ModuleLike<F> ? "module" : "function";

}  // namespace detail

// The compiled form of `fn`, with options as a struct or as pairs of texts (options.h).
template <class F>
  requires(!std::is_function_v<F>)
auto jit(F fn, JitOptions options) {
  return detail::make_deduced(std::move(fn), detail::settings_of(std::move(options), detail::usual_name<F>));
}
template <class F>
  requires(!std::is_function_v<F>)
auto jit(F fn, OptionPairs options = {}, std::string name = detail::usual_name<F>) {
  return detail::make_deduced(std::move(fn), {options, std::move(name), {}});
}
template <class F, std::same_as<OptionList> List>
  requires(!std::is_function_v<F>)
auto jit(F fn, const List& options, std::string name = detail::usual_name<F>) {
  return detail::make_deduced(std::move(fn), {options, std::move(name), {}});
}

// The same, of a callable with several or generic signatures.
template <class Signature, class F>
  requires std::is_function_v<Signature>
Jitted<Signature> jit(F fn, JitOptions options) {
  return detail::make_jitted<Signature>(std::move(fn), detail::settings_of(std::move(options), detail::usual_name<F>));
}
template <class Signature, class F>
  requires std::is_function_v<Signature>
Jitted<Signature> jit(F fn, OptionPairs options = {}, std::string name = detail::usual_name<F>) {
  return detail::make_jitted<Signature>(std::move(fn), {options, std::move(name), {}});
}
template <class Signature, class F, std::same_as<OptionList> List>
  requires std::is_function_v<Signature>
Jitted<Signature> jit(F fn, const List& options, std::string name = detail::usual_name<F>) {
  return detail::make_jitted<Signature>(std::move(fn), {options, std::move(name), {}});
}

}  // namespace escapement
