/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Order of memory accesses between CPUs, for kernel programs and user space alike: smp_rmb()
 * between two loads, smp_wmb() between two stores, as in the kernel's memory-barriers.txt.
 *
 * x86 keeps loads and stores in order, so that only the compiler must be stopped. BPF has no
 * barrier instruction (load-acquire and store-release came with Linux 6.15): elsewhere an atomic
 * exchange of a word on the stack is one, since the kernel makes atomics that return a value
 * fully ordered (Documentation/bpf/standardization/instruction-set.rst,
 * arch/arm64/net/bpf_jit_comp.c: SWPAL). The same rule orders the compare and exchange that claims
 * a record.
 */
#ifndef ESC_MAPS_BARRIER_H
#define ESC_MAPS_BARRIER_H

#if !defined(__bpf__)
#define smp_rmb() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#define smp_wmb() __atomic_thread_fence(__ATOMIC_RELEASE)
#elif defined(__TARGET_ARCH_x86)
#define smp_rmb() asm volatile("" ::: "memory")
#define smp_wmb() asm volatile("" ::: "memory")
#else
#define smp_rmb() barrier_by_exchange()
#define smp_wmb() barrier_by_exchange()

static inline __attribute__((always_inline)) void barrier_by_exchange(void)
{
	volatile unsigned long long word = 0;

	asm volatile("" ::: "memory");
	(void)__sync_lock_test_and_set(&word, 1);
	asm volatile("" ::: "memory");
}
#endif

#endif
