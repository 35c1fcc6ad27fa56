//! The allocator, and how it is made to give memory back.

/// The C library's allocator takes a lock where threads meet; this one does not.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Larger than what the allocator keeps for use again.
const BLOCK_LEN: usize = 16 << 20;

/// Has the allocator return to the system what was freed more than a second ago. It does so whenever a large block is freed,
/// by any thread, and at no time else: after many clients have left, a process that rests would keep their memory for ever.
/// The block itself is not touched, so it is address space and no memory.
pub(crate) fn give_back() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(BLOCK_LEN)));
}
