//! Compares the words of drive names with the words that a user gave.

/// A name in lower case with single spaces, for comparisons.
pub(super) fn normalize_for_comparison(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    words.join(" ").to_lowercase()
}

/// The words of a name behind the requested words; `None` if the name does not have them.
fn words_after_requested<'a>(name: &'a str, asked: &str) -> Option<Vec<&'a str>> {
    let (name, asked) = (split_into_words(name), split_into_words(asked));
    let from = name
        .windows(asked.len().max(1))
        .position(|run| run == asked)?;
    name.get(from + asked.len()..).map(<[&str]>::to_vec)
}

fn split_into_words(text: &str) -> Vec<&str> {
    let parts = text.split(|c: char| !c.is_alphanumeric() && c != '.');
    parts.filter(|word| !word.is_empty()).collect()
}

/// Whether the words asked for follow each other in a name.
pub(super) fn has_requested_words_in_sequence(name: &str, asked: &str) -> bool {
    words_after_requested(name, asked).is_some()
}

/// Whether a name goes on with a word that may make it another product: `990 evo` is not `990 evo plus 4tb`. A
/// capacity does not, nor does what follows a part number.
pub(super) fn may_continue_as_other_product(name: &str, asked: &str) -> bool {
    const PART_NUMBER: usize = 8;
    let further = words_after_requested(name, asked).and_then(|after| after.first().copied());
    let last = split_into_words(asked).last().copied().unwrap_or_default();
    let ends_with_part_number = last.len() >= PART_NUMBER && contains_digit(last);
    further.is_some_and(|word| !contains_digit(word)) && !ends_with_part_number
}

fn contains_digit(word: &str) -> bool {
    word.contains(|c: char| c.is_ascii_digit())
}

/// How well every word asked for is found among the words of a name, 0 to 1.
pub(super) fn mean_likeness_of_requested_words(asked: &str, name: &str) -> f64 {
    let separators = [' ', '-', '_', '/'];
    let words: Vec<_> = asked.split(separators).filter(|w| !w.is_empty()).collect();
    if words.is_empty() {
        return 0.0;
    }
    let best_matches = words.iter().map(|word| {
        name.split(separators)
            .chain(std::iter::once(name))
            .map(|candidate| strsim::normalized_damerau_levenshtein(word, candidate))
            .fold(0.0, f64::max)
    });
    best_matches.sum::<f64>() / words.len() as f64
}
