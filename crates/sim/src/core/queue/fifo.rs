//! Queues that nearly always have at most one entry each.

use std::collections::VecDeque;

/// A first-in, first-out queue. The first entry is kept apart: a lone entry costs no more than an `Option`.
#[derive(Clone, Debug)]
pub(crate) struct Fifo<T> {
    first: Option<T>,
    /// The entries behind the first; empty if there is no first entry.
    others: VecDeque<T>,
}

impl<T: Copy> Fifo<T> {
    pub(crate) const fn new() -> Self {
        Self {
            first: None,
            others: VecDeque::new(),
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.len()
    }

    #[inline]
    pub(crate) fn push_back(&mut self, entry: T) {
        if self.first.is_none() {
            self.first = Some(entry);
        } else {
            self.others.push_back(entry);
        }
    }

    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<T> {
        let first = self.first.take();
        if first.is_some() && !self.others.is_empty() {
            self.first = self.others.pop_front();
        }
        first
    }

    /// Removes and returns the entry at `index`, counted from the front.
    pub(crate) fn remove_at(&mut self, index: usize) -> Option<T> {
        match index.checked_sub(1) {
            None => self.pop_front(),
            Some(index) => self.others.remove(index),
        }
    }

    /// Calls `visit` with each of the first `count` entries.
    #[inline(always)]
    pub(crate) fn for_each_of_first(&self, count: usize, mut visit: impl FnMut(T)) {
        if count > 0
            && let Some(first) = self.first
        {
            visit(first);
            if count > 1 {
                (self.others.iter().take(count - 1)).for_each(|entry| visit(*entry));
            }
        }
    }

    /// Iterates over the entries from the front.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> + Clone {
        self.first.iter().chain(&self.others)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_as_a_deque(ops in prop::collection::vec((0_u8..5, 0_usize..6), 1..200)) {
            let (mut fifo, mut model) = (Fifo::new(), VecDeque::new());
            for (entry, (op, index)) in ops.into_iter().enumerate() {
                match op {
                    0 | 1 => {
                        fifo.push_back(entry);
                        model.push_back(entry);
                    }
                    2 | 3 => prop_assert_eq!(fifo.pop_front(), model.pop_front()),
                    _ => prop_assert_eq!(fifo.remove_at(index), model.remove(index)),
                }
                prop_assert_eq!(fifo.len(), model.len());
                prop_assert_eq!(fifo.is_empty(), model.is_empty());
                prop_assert!(fifo.iter().eq(&model));
            }
        }
    }
}
