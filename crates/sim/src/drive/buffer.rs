//! A write buffer, which the media empty at their own speed.

/// Size and speed of a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferSetup {
    /// Time in which the media take 4 KiB, in ns.
    pub(crate) media: u64,
    /// Time in which they take a full buffer, in ns.
    pub(crate) full: u64,
}

/// The content is kept as the time that the media need for it, so nothing has to happen meanwhile.
#[derive(Debug)]
pub(crate) struct Buffer {
    setup: BufferSetup,
    empty_at: u64,
}

impl Buffer {
    pub(crate) fn new(setup: BufferSetup) -> Self {
        Self { setup, empty_at: 0 }
    }

    /// Takes a write of `blocks` times 4 KiB that is ready for the buffer at `at`. Returns when there
    /// is room for it.
    pub(crate) fn accept(&mut self, at: u64, blocks: u64) -> u64 {
        let media = self.setup.media.saturating_mul(blocks);
        self.empty_at = self.empty_at.max(at).saturating_add(media);
        at.max(self.empty_at.saturating_sub(self.setup.full))
    }

    /// When the media will have taken everything.
    pub(crate) fn empty_at(&self) -> u64 {
        self.empty_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_go_at_their_own_speed_until_the_buffer_is_full_then_at_that_of_the_media() {
        let mut buffer = Buffer::new(BufferSetup {
            media: 100,
            full: 300,
        });
        let done: Vec<u64> = (0..6).map(|i| buffer.accept(i * 10, 1)).collect();
        assert_eq!(done, [0, 10, 20, 100, 200, 300]);
        assert_eq!(buffer.empty_at(), 600);
        assert_eq!(buffer.accept(1000, 1), 1000);
        assert_eq!(buffer.empty_at(), 1100);
        assert_eq!(buffer.accept(2000, 5), 2200);
        assert_eq!(buffer.empty_at(), 2500);
    }
}
