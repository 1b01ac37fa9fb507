//! Hints to processor and kernel: prefetch of cache lines, huge pages. Nothing here changes a result.

/// Asks for the cache line of `target`; look-ups of a whole batch overlap their memory latency this way.
#[inline(always)]
pub(super) fn prefetch<T>(target: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE is part of x86_64; a prefetch never faults, and the address is that of a live reference.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(target).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = target;
}

/// Asks for huge pages below the whole capacity of a large vector (random access over many small pages misses the TLB).
pub(super) fn huge_pages<T>(buffer: &mut Vec<T>) {
    const PAGE: usize = 4096;
    let start = (buffer.as_mut_ptr() as usize).next_multiple_of(PAGE);
    let end = (buffer.as_ptr() as usize + buffer.capacity() * size_of::<T>()) / PAGE * PAGE;
    if end <= start {
        return;
    }
    // SAFETY: the range lies inside the vector's own allocation, and MADV_HUGEPAGE leaves its content as it is.
    let advised = unsafe { rustix::mm::madvise(start as *mut _, end - start, rustix::mm::Advice::LinuxHugepage) };
    // A kernel without huge pages is slower, not wrong.
    let _ = advised;
}
