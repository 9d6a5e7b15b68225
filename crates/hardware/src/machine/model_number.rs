//! Model numbers in the names of processors, which tell families with one CPUID model apart.

/// Whether a processor's name has a model number of four digits like this one.
pub(super) fn has_model_number_like_pattern(processor_name: &str, pattern: &str) -> bool {
    if pattern.bytes().all(|b| b == b'?') {
        return true;
    }
    processor_name
        .split(|c: char| !c.is_ascii_digit())
        .any(|digits| matches_digits_with_wildcards(digits, pattern))
}

/// Whether digits match a pattern with `?` for any digit.
fn matches_digits_with_wildcards(digits: &str, pattern: &str) -> bool {
    let mut pairs = digits.bytes().zip(pattern.bytes());
    digits.len() == pattern.len() && pairs.all(|(digit, want)| want == b'?' || digit == want)
}
