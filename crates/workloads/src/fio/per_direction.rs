//! Values for each direction of I/O.

use serde::Serialize;

/// A value for reads, a value for writes, and a value for trims.
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
    /// References to the values in fio's order: read, write, trim.
    pub(crate) fn as_array(&self) -> [&T; 3] {
        [&self.read, &self.write, &self.trim]
    }

    /// Mutable references to the values in fio's order: read, write, trim.
    pub(crate) fn as_mut_array(&mut self) -> [&mut T; 3] {
        [&mut self.read, &mut self.write, &mut self.trim]
    }

    /// Applies a function to each direction's value.
    pub(crate) fn map<U>(self, mut convert: impl FnMut(T) -> U) -> PerDirection<U> {
        PerDirection {
            read: convert(self.read),
            write: convert(self.write),
            trim: convert(self.trim),
        }
    }
}
