// Memory of the pretended GPU is this machine's, and its operators are the CPU's. For a torch built without CUDA, which has none of its own.
#include <ATen/EmptyTensor.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/alloc_cpu.h>
#include <torch/library.h>

#include <optional>

namespace {

c10::DeviceIndex current = 0;

void release(void* memory) {
  c10::free_cpu(memory);
}

struct Memory final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* memory = bytes ? c10::alloc_cpu(bytes) : nullptr;
    return {memory, memory, &release, c10::Device(c10::DeviceType::CUDA, current)};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return &release;
  }
  void copy_data(void* into, const void* from, size_t bytes) const override {
    default_copy_data(into, from, bytes);
  }
};

Memory memory;

const c10::DispatchKeySet keys{c10::DispatchKey::CUDA};

at::Tensor empty(
    c10::IntArrayRef size,
    std::optional<at::ScalarType> dtype,
    std::optional<at::Layout>,
    std::optional<at::Device>,
    std::optional<bool>,
    std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &memory, keys, c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(
    c10::IntArrayRef size,
    c10::IntArrayRef stride,
    std::optional<at::ScalarType> dtype,
    std::optional<at::Layout>,
    std::optional<at::Device>,
    std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &memory, keys, c10::dtype_or_default(dtype));
}

// The same memory, as a tensor on the CPU.
at::Tensor on_cpu(const at::Tensor& tensor) {
  if (tensor.is_cpu()) {
    return tensor;
  }
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU).requires_grad(false));
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& from, bool) {
  on_cpu(self).copy_(on_cpu(from));
  return self;
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& into, bool) {
  on_cpu(into).copy_(on_cpu(from));
  return into;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& into) {
  into.resize_(from.sizes());
  return copy_from(from, into, false);
}

at::Tensor& set_storage(at::Tensor& self, at::Storage from, int64_t offset, c10::IntArrayRef size, c10::IntArrayRef stride) {
  return at::native::set_storage_cpu_(self, from, offset, size, stride);
}

void on_the_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  at::native::cpu_fallback(op, stack);
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("as_strided", &at::native::as_strided_tensorimpl);
  library.impl("view", &at::native::view);
  library.impl("_reshape_alias", &at::native::_reshape_alias);
  library.impl("resize_", &at::native::resize_);
  library.impl("set_.source_Storage_storage_offset", &set_storage);
  library.impl("copy_", &copy_);
  library.impl("_copy_from", &copy_from);
  library.impl("_copy_from_and_resize", &copy_from_and_resize);
}

TORCH_LIBRARY_IMPL(_, CUDA, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&on_the_cpu>());
}

} // namespace

extern "C" void pretend_memory(int index) {
  current = static_cast<c10::DeviceIndex>(index);
  c10::SetAllocator(c10::DeviceType::CUDA, &memory);
}
