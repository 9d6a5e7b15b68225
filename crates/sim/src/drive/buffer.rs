//! A write buffer, emptied by the flash at the flash's own speed, and the delays for reads.

/// A drive's write buffer: its size and speed, as times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferSetup {
    /// Time for the media to take 4 KiB, in ns.
    pub(super) media: u64,
    /// Time for the media to take a full buffer, in ns.
    pub(super) full: u64,
    /// Delays of reads while the flash programs; absent: reads are not delayed.
    pub(super) flash: Option<FlashSetup>,
}

/// How reads and programming get in each other's way, times in ns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlashSetup {
    /// How long the flash programs without a break, in ns.
    pub(super) program: u64,
    /// Longest time in ns that a read waits for programming.
    pub(super) longest_wait: u64,
    /// Time in ns for a read to get 4 KiB from the flash.
    pub(super) read: u64,
}

/// A drive's write buffer. Its content is kept as the time that the media need for it, so that emptying takes no events.
#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    setup: BufferSetup,
    /// When the empty buffer last got data, and when it will be empty again, in ns.
    filled_at: u64,
    empty_at: u64,
}

impl Buffer {
    pub(crate) fn new(setup: BufferSetup) -> Self {
        Self {
            setup,
            filled_at: 0,
            empty_at: 0,
        }
    }

    /// Accepts a write with `blocks` times 4 KiB, ready for the buffer at `at`. Returns the time when the buffer has room for it.
    pub(crate) fn accept_write(&mut self, at: u64, blocks: u64) -> u64 {
        if self.empty_at <= at {
            (self.filled_at, self.empty_at) = (at, at);
        }
        let media = self.setup.media.saturating_mul(blocks);
        self.empty_at = self.empty_at.saturating_add(media);
        at.max(self.empty_at.saturating_sub(self.setup.full))
    }

    /// A read with `blocks` times 4 KiB reaches the flash at `at`. Returns the wait for present programming; further
    /// programming is put off until the read has the data.
    pub(crate) fn delay_read(&mut self, at: u64, blocks: u64) -> u64 {
        let Some(flash) = self.setup.flash else {
            return 0;
        };
        if !(self.filled_at..self.empty_at).contains(&at) {
            return 0;
        }
        let begun = (at - self.filled_at) % flash.program;
        let wait = (flash.program - begun)
            .min(self.empty_at - at)
            .min(flash.longest_wait);
        let read = flash.read.saturating_mul(blocks);
        self.empty_at = self.empty_at.saturating_add(read);
        wait
    }

    /// Time in ns when the media will have taken the whole buffer.
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
            flash: None,
        });
        let done: Vec<u64> = (0..6).map(|i| buffer.accept_write(i * 10, 1)).collect();
        assert_eq!(done, [0, 10, 20, 100, 200, 300]);
        assert_eq!(buffer.empty_at(), 600);
        assert_eq!(buffer.delay_read(300, 1), 0);
        assert_eq!(buffer.accept_write(1000, 1), 1000);
        assert_eq!(buffer.empty_at(), 1100);
        assert_eq!(buffer.accept_write(2000, 5), 2200);
        assert_eq!(buffer.empty_at(), 2500);
    }

    #[test]
    fn a_read_waits_for_what_is_being_programmed_and_puts_off_the_rest() {
        let flash = FlashSetup {
            program: 400,
            longest_wait: u64::MAX,
            read: 50,
        };
        let setup = BufferSetup {
            media: 100,
            full: 10_000,
            flash: Some(flash),
        };
        let mut buffer = Buffer::new(setup);
        assert_eq!(buffer.delay_read(50, 1), 0, "nothing to program");
        buffer.accept_write(1000, 10);
        assert_eq!(buffer.empty_at(), 2000);
        assert_eq!(
            buffer.delay_read(900, 1),
            0,
            "the write is still on its way"
        );
        assert_eq!(buffer.delay_read(1000, 2), 400);
        assert_eq!(buffer.empty_at(), 2100);
        assert_eq!(buffer.delay_read(1399, 0), 1);
        assert_eq!(buffer.delay_read(1500, 0), 300);
        assert_eq!(buffer.delay_read(2050, 0), 50, "the last one is shorter");
        assert_eq!(buffer.delay_read(2100, 1), 0);
        assert_eq!(buffer.empty_at(), 2100);

        let suspended = FlashSetup {
            longest_wait: 30,
            ..flash
        };
        let mut buffer = Buffer::new(BufferSetup {
            flash: Some(suspended),
            ..setup
        });
        buffer.accept_write(1000, 10);
        assert_eq!(buffer.delay_read(1000, 0), 30);
        assert_eq!(buffer.delay_read(1390, 0), 10);
    }
}
