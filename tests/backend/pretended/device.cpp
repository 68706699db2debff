// What torch's C++ asks of a GPU: that there is one, which is current, and its stream. torch has such a guard for its own tests; for
// CUDA it takes the driver's place, in a build with CUDA and in one without. To be loaded before torch, for all (RTLD_GLOBAL).
#include <ATen/DeviceAccelerator.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/FakeGuardImpl.h>

using Guard = c10::impl::FakeGuardImpl<c10::DeviceType::CUDA>;

namespace at {
struct CUDAHooks final : CUDAHooksInterface {
  CUDAHooks(CUDAHooksArgs) {}
  void init() const override {}
  bool hasPrimaryContext(DeviceIndex) const override {
    return true;
  }
};

namespace accelerator {
std::optional<DeviceType> getAccelerator(bool /*checked*/) {
  return DeviceType::CUDA;
}
} // namespace accelerator

namespace detail {
const CUDAHooksInterface& getCUDAHooks() {
  static CUDAHooks hooks{CUDAHooksArgs{}};
  return hooks;
}
} // namespace detail
} // namespace at

// When torch has registered its own.
extern "C" void pretend_current_device(int index) {
  static c10::impl::DeviceGuardImplRegistrar registered(c10::DeviceType::CUDA, new Guard());
  Guard::setDeviceIndex(index);
}
