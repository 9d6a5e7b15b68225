//! Keys and values of words of the kernel command line.

/// Whether two words have one key: the kernel reads `-` as `_` in it (`parameq()`, `kernel/params.c`).
pub(super) fn have_same_key(one: &str, other: &str) -> bool {
    let keys = [one, other].map(|word| key_of(word).replace('-', "_"));
    keys[0] == keys[1]
}

/// A word after its `=`; `None` for a bare one.
pub(super) fn value_of(word: &str) -> Option<&str> {
    word.split_once('=').map(|(_, value)| value)
}

/// A word up to its `=`.
pub(super) fn key_of(word: &str) -> &str {
    word.split_once('=').map_or(word, |(key, _)| key)
}
