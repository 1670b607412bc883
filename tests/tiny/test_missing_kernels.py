"""What a call says that cannot be handled: no kernel for its tensors, or tensors on several devices."""

from __future__ import annotations

import pytest

from tenkey.dispatch import (
    DeviceMismatchError,
    DispatchKey,
    ExcludeDispatchKeyGuard,
    Kernel,
    MissingKernelError,
    Registry,
)
from tests.tiny._fakes import (
    CPU,
    CUDA,
    EXPLICIT,
    IMPLICIT,
    META,
    TRACER,
    Fake,
    fresh,
    impl,
    named,
    private_copy,
    snapshot,
    with_three_kernels,
)

F = "t::f(Tensor x) -> Tensor"


@pytest.fixture
def reg() -> Registry:
    """An operator with a kernel for the CPU, for the key Tracer, and for Batched."""
    return with_three_kernels()


class TestMissingKernel:
    def test_names_operator_device_remedy_and_devices_that_have_one(self) -> None:
        reg = fresh(F)
        reg.hooks.device_names["CUDA"] = "gpu"
        cpu_kernel = Kernel(named("cpu"), CPU)
        reg.impl("t::f", cpu_kernel)
        impl(reg, "t::f", "meta", META)
        impl(reg, "t::f", "tracer", TRACER)
        before = snapshot(reg)
        with pytest.raises(NotImplementedError) as caught:
            reg.find("t::f")(Fake(CUDA))
        assert isinstance(caught.value, MissingKernelError)
        first, second, *having = str(caught.value).splitlines()
        assert first == (
            "[t::f] has no kernel for gpu. Register one with tk.library.register_kernel('t::f', 'gpu'), or move the "
            "tensors to a device that has one."
        )
        assert second == "Kernels there are:"
        assert having[0] == f"  cpu: cpu, {cpu_kernel.site}"
        assert having[1].startswith("  meta: meta, ")
        assert len(having) == 2  # one line for each backend, and none for the tracer
        assert snapshot(reg) == before

    def test_one_line_for_each_backend_and_no_more_than_25(self) -> None:
        with private_copy() as own:
            keys = [own.keys.register_backend_key(f"Many{n}") for n in range(40)]
            reg = own.registry.Registry()
            op = reg.define(F)
            for key in keys[1:]:
                for _ in range(2):
                    reg.impl("t::f", own.kernel.Kernel(named("a_kernel"), key), allow_override=True)
            fake = type("Tensor", (), {"_word": keys[0].mask})()
            with pytest.raises(own.errors.MissingKernelError) as caught:
                op(fake)
        lines = str(caught.value).splitlines()
        assert "no kernel for many0" in lines[0]
        assert len(lines) <= 25
        assert [line.split(":")[0] for line in lines[2:-1]] == sorted(f"  many{n}" for n in range(1, 40))[
            : len(lines) - 3
        ]
        assert lines[-1] == f"  and {39 - len(lines[2:-1])} more: see op.table()"

    def test_nearest_remedy_for_conditional_kernels(self) -> None:
        reg = fresh(F)
        impl(reg, "t::f", "cuda", CUDA, when=lambda x: False, site="b.py:2")
        with pytest.raises(MissingKernelError, match=r"Every kernel for cuda has a condition \(when=, .* from b.py:2"):
            reg.find("t::f")(Fake(CUDA))

    def test_is_not_remembered(self) -> None:
        reg = fresh(F)
        op, fake = reg.find("t::f"), Fake(CPU)
        for _ in range(2):
            with pytest.raises(MissingKernelError, match="Kernels there are: none"):
                op(fake)
        impl(reg, "t::f", "cpu", CPU)
        assert op(fake)[0] == "cpu"

    def test_is_short(self) -> None:
        reg = fresh(F)
        for key in DispatchKey:
            if key not in (CPU, DispatchKey.Dense) and (key.is_alias or not key.per_backend or key.backend):
                impl(reg, "t::f", named("kernel_with_a_long_name" * 3), key, when=lambda x: False)
        reg.find("t::f").kernels.pop(EXPLICIT)
        reg.find("t::f").kernels.pop(IMPLICIT)
        for n in range(60):
            impl(reg, "t::f", f"meta {n}", META, allow_override=True)
        with pytest.raises(MissingKernelError) as caught:
            reg.find("t::f")(Fake(CPU))
        assert len(str(caught.value).splitlines()) <= 25

    def test_operator_without_tensors(self, reg: Registry) -> None:
        with pytest.raises(MissingKernelError, match=r"\[t::g\] has no kernel for a call without tensors"):
            reg.define("t::g(int n) -> int")(3)
        with pytest.raises(MissingKernelError, match=r"\[t::h\] has no kernel for a call without tensors"):
            reg.define("t::h(Tensor[] xs) -> Tensor")([])

    def test_works_once_the_key_is_excluded(self, reg: Registry) -> None:
        with ExcludeDispatchKeyGuard(CPU), pytest.raises(MissingKernelError, match=r"\[t::f\] has no kernel for cpu"):
            reg.find("t::f")(Fake(CPU))


class TestMixedDevices:
    def test_names_operator_and_both(self, reg: Registry) -> None:
        reg.hooks.device_names["CUDA"] = "gpu"
        op = reg.define("t::g(Tensor x, Tensor y) -> Tensor")
        impl(reg, "t::g", "cpu", CPU)
        impl(reg, "t::g", "cuda", CUDA)
        for pair in ((Fake(CPU), Fake(CUDA)), (Fake(CUDA), Fake(CPU))):
            with pytest.raises(DeviceMismatchError) as caught:
                op(*pair)
            assert isinstance(caught.value, RuntimeError)
            assert str(caught.value) == (
                "[t::g] got tensors on different devices (cpu and gpu): all tensors of a call live on one device. "
                "Move them with x.to(device)."
            )
        assert op(Fake(CUDA), Fake(CUDA))[0] == "cuda"

    def test_within_a_list(self, reg: Registry) -> None:
        op = reg.define("t::g(Tensor[] xs) -> Tensor")
        impl(reg, "t::g", "cuda", CUDA)
        with pytest.raises(DeviceMismatchError, match="cpu and cuda"):
            op([Fake(CPU), Fake(CUDA)])

    def test_operator_that_mixes(self, reg: Registry) -> None:
        op = reg.define("t::copy_to(Tensor x, Tensor y) -> Tensor", tags=["mixes_devices"])
        impl(reg, "t::copy_to", "cuda", CUDA)
        assert op(Fake(CPU), Fake(CUDA))[0] == "cuda"

    def test_composites_leave_it_to_what_they_call(self, reg: Registry) -> None:
        op = reg.define("t::g(Tensor x, Tensor y) -> Tensor")
        impl(reg, "t::g", "composite", EXPLICIT)
        assert op(Fake(CPU), Fake(CUDA))[0] == "composite"
