//! Spare buffers, so that keeping a message does not allocate each time.

use units::limits;

/// Empty buffers to be used again.
#[derive(Debug, Default)]
pub struct Buffers(Vec<Vec<u8>>);

impl Buffers {
    /// A buffer that was used before, if there is one.
    pub fn take(&mut self) -> Vec<u8> {
        let buffer = self.0.pop().unwrap_or_else(|| Vec::with_capacity(1024));
        assert!(buffer.is_empty(), "I2: a buffer that is used again holds nobody's bytes");
        buffer
    }

    /// Keeps a buffer for use again, unless there are enough or it is too large to keep (I10).
    pub fn put_back(&mut self, mut buffer: Vec<u8>) {
        let useful = (1..=limits::SPARE_BUFFER_LEN_MAX).contains(&buffer.capacity());
        if useful && self.0.len() < limits::SPARE_BUFFERS_MAX {
            buffer.clear();
            self.0.push(buffer);
        }
    }
}
