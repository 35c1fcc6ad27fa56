//! How much memory an allocation takes, as far as it can be said without asking the allocator.
//!
//! Weighing counts what is taken, not what is used: a client of 3,000 one-byte strings must not be worth 3,000 bytes.

/// What the allocator hands out for `len` bytes. mimalloc has four sizes for each power of two, and none below 8.
pub fn taken(len: usize) -> usize {
    match len {
        0 => 0,
        1..=64 => len.next_multiple_of(8),
        _ => {
            let step = len.next_power_of_two() >> 3;
            len.next_multiple_of(step)
        }
    }
}

/// Moves bytes to a smaller allocation if there is one that fits. An allocator that is asked to shrink one in place does not
/// do so for less than half of it.
pub fn fit(bytes: &mut Vec<u8>) {
    fit_to(bytes, bytes.len());
}

/// The same, with room for `len` bytes.
pub fn fit_to(bytes: &mut Vec<u8>, len: usize) {
    let len = len.max(bytes.len());
    if taken(bytes.capacity()) > taken(len) {
        let mut fitting = Vec::with_capacity(len);
        fitting.extend_from_slice(bytes);
        *bytes = fitting;
    }
}

/// An `Arc<str>`: two counts before its text.
pub fn of_name(name: &str) -> usize {
    taken(2 * size_of::<usize>() + name.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_allocators_classes() {
        let table =
            [(0, 0), (1, 8), (8, 8), (9, 16), (64, 64), (65, 80), (81, 96), (128, 128), (129, 160), (1024, 1024)];
        for (len, wanted) in table {
            assert_eq!(taken(len), wanted, "{len}");
        }
        assert_eq!((taken(1025), taken(10_004), taken(65_535)), (1280, 10_240, 65_536));
    }

    #[test]
    fn nothing_takes_less_than_its_length_or_a_quarter_more() {
        for len in 65..70_000 {
            assert!((len..=len + len / 4).contains(&taken(len)), "{len}: {}", taken(len));
        }
    }
}
