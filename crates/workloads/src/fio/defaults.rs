//! Which fields of a job are left out of JSON.

/// Whether a value is its type's default, which is not written out.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
