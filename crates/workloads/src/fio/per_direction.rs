//! Values for each direction of I/O.

use serde::Serialize;

/// Values for reads, writes and trims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PerDirection<T> {
    /// For reads.
    pub read: T,
    /// For writes.
    pub write: T,
    /// For trims.
    pub trim: T,
}

impl<T> PerDirection<T> {
    /// The three in fio's order.
    pub(crate) fn each(&self) -> [&T; 3] {
        [&self.read, &self.write, &self.trim]
    }

    /// The three in fio's order.
    pub(crate) fn each_mut(&mut self) -> [&mut T; 3] {
        [&mut self.read, &mut self.write, &mut self.trim]
    }

    /// Applies a function to each value.
    pub(crate) fn map<U>(self, mut convert: impl FnMut(T) -> U) -> PerDirection<U> {
        PerDirection {
            read: convert(self.read),
            write: convert(self.write),
            trim: convert(self.trim),
        }
    }
}
