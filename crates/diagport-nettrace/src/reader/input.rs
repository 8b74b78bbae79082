//! The bytes that have been fed and not yet consumed.

#[derive(Debug, Default)]
pub(super) struct Input {
    bytes: Vec<u8>,
    /// Consumed bytes at the front of `bytes`.
    start: usize,
    /// Stream offset of `bytes[start]`.
    position: u64,
    /// Bytes that were fed and never stored.
    skipped_bytes: u64,
}

impl Input {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        // Moving the rest costs at most what was consumed since the last move, so feeding stays linear.
        if self.start >= self.bytes.len() - self.start {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    pub(super) fn position(&self) -> u64 {
        self.position
    }

    pub(super) fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.bytes.len() - self.start, "consumed more than there is");
        self.start += count;
        self.position += count as u64;
    }

    /// Forgets what is left, but keeps counting it as fed.
    pub(super) fn drop_rest(&mut self) {
        self.skipped_bytes = self.fed_bytes() - self.position;
        self.bytes = Vec::new();
        self.start = 0;
    }

    pub(super) fn skip_fed(&mut self, count: u64) {
        self.skipped_bytes += count;
    }

    pub(super) fn fed_bytes(&self) -> u64 {
        self.position + self.rest().len() as u64 + self.skipped_bytes
    }
}
