//! Counts per crate how far the code is from the field's usual words: `tests/data/words.toml` holds the highest counts
//! that are allowed. A count above its goal may fall, and never rise.
//!
//! `WAKEPATH_WORDS=lower cargo test -p wakepath-cli --test all words` lowers the recorded counts to today's.
//! `WAKEPATH_WORDS=reset` records today's counts even where they rose: for merges of code that was counted elsewhere.

#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Words that point at another sentence or line. Many in a comment mean: nobody can read the comment alone.
const POINTING: &str =
    "it its that those these this they them their one ones which what who whose there of";

/// Names that say nothing about a type: participles, pronouns, adverbs.
const VAGUE: &str = "Told Asked Held Seen Shown Found Ran Kept Near Per Beside Among Elsewhere How Why Then Without \
    Of To Given Taken Left Own Here Pulled Said Wanted Meant Done Made Gone Put Cut Both Other Others Rest Whole Thing \
    Things Look Looks What Who Where When Whose Which Same Least Most Known Unknown Named Called Come Came Past Next \
    Late Early Apart Away Back Instead";

/// Counts that every crate should reach.
const GOALS: Rates = Rates {
    of: 1.0,
    closures: 3.0,
    ladders: 0.7,
    pronouns: 10.0,
    vague: 0.0,
};

/// How far a rate may exceed its record: shorter comments leave fewer lines to divide by.
const SLACK: f64 = 1.02;

/// What is compared between crates of different size.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
struct Rates {
    /// Identifiers named `of`, per 1,000 lines.
    of: f64,
    /// Closures bound to a name, per 100 functions.
    closures: f64,
    /// Values bound to a name that was bound differently up to three lines earlier, per 100 bindings.
    ladders: f64,
    /// Pointing words, in % of the words in comments.
    pronouns: f64,
    /// Types with a vague name.
    vague: f64,
}

impl Rates {
    /// The rates by name, in the order of the table.
    fn named(&self) -> [(&'static str, f64); 5] {
        [
            ("of", self.of),
            ("closures", self.closures),
            ("ladders", self.ladders),
            ("pronouns", self.pronouns),
            ("vague", self.vague),
        ]
    }

    /// Combines two sets of rates, rate by rate.
    fn combine(self, other: Self, choose: fn(f64, f64) -> f64) -> Self {
        Self {
            of: choose(self.of, other.of),
            closures: choose(self.closures, other.closures),
            ladders: choose(self.ladders, other.ladders),
            pronouns: choose(self.pronouns, other.pronouns),
            vague: choose(self.vague, other.vague),
        }
    }
}

/// Counts of some source text.
#[derive(Debug, Default)]
struct Counts {
    lines: usize,
    of: usize,
    functions: usize,
    closures: usize,
    bindings: usize,
    ladders: usize,
    comment_words: usize,
    pronouns: usize,
    vague: usize,
}

impl Counts {
    fn rates(&self) -> Rates {
        Rates {
            of: share(self.of, self.lines, 1000.0),
            closures: share(self.closures, self.functions, 100.0),
            ladders: share(self.ladders, self.bindings, 100.0),
            pronouns: share(self.pronouns, self.comment_words, 100.0),
            vague: share(self.vague, 1, 1.0),
        }
    }

    /// Adds the source text of a file.
    fn add_source(&mut self, source: &str) {
        let mut recent: [Option<String>; 3] = Default::default();
        for line in without_strings(source).lines() {
            self.lines += 1;
            if let Some(comment) = line.trim_start().strip_prefix("//") {
                self.add_comment(comment);
                continue;
            }
            let code = line.split("//").next().unwrap_or_default();
            let words = words(code);
            self.of += words.iter().filter(|word| **word == "of").count();
            self.add_items(&words);
            let binding = self.add_binding(code, &recent);
            recent.rotate_left(1);
            recent[2] = binding;
        }
    }

    fn add_comment(&mut self, comment: &str) {
        // Code in backticks counts as one word.
        let prose = comment.split('`').step_by(2).collect::<Vec<_>>().join("X");
        for word in prose.split(|c: char| !c.is_ascii_alphabetic() && c != '\'') {
            let pointing = POINTING
                .split(' ')
                .any(|name| word.eq_ignore_ascii_case(name));
            self.comment_words += usize::from(!word.is_empty());
            self.pronouns += usize::from(pointing);
        }
    }

    /// Counts functions, and types by their names.
    fn add_items(&mut self, words: &[&str]) {
        for pair in words.windows(2) {
            match pair {
                ["fn", _] => self.functions += 1,
                ["struct" | "enum" | "trait" | "type", name] => {
                    self.vague += usize::from(VAGUE.split_whitespace().any(|vague| vague == *name));
                }
                _ => {}
            }
        }
    }

    /// Counts the `let` of a line; the name that it binds.
    fn add_binding(&mut self, code: &str, recent: &[Option<String>]) -> Option<String> {
        let after_let = code.trim_start().strip_prefix("let ")?;
        let (pattern, value) = after_let.split_once('=')?;
        let value = value.trim_start();
        let (name, rest) = first_word(pattern.strip_prefix("mut ").unwrap_or(pattern));
        let typed = rest.is_empty() || rest.trim_start().starts_with(':');
        if value.starts_with('=') || name.is_empty() || !(typed || rest.trim().is_empty()) {
            return None;
        }
        self.bindings += 1;
        let closure = value.strip_prefix("move ").unwrap_or(value);
        self.closures += usize::from(closure.starts_with('|'));
        let shadows = recent.iter().flatten().any(|bound| bound == name);
        self.ladders += usize::from(shadows && words(value).contains(&name));
        Some(name.to_owned())
    }
}

/// `part` for every `scale` of `whole`, rounded up to hundredths.
fn share(part: usize, whole: usize, scale: f64) -> f64 {
    let exact = part as f64 * scale / whole.max(1) as f64;
    (exact * 100.0).ceil() / 100.0
}

/// The identifiers, keywords and numbers of some code.
fn words(code: &str) -> Vec<&str> {
    let parts = code.split(|c: char| !c.is_alphanumeric() && c != '_');
    parts.filter(|word| !word.is_empty()).collect()
}

/// The identifier that a text begins with, and the text behind it.
fn first_word(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    text.split_at(end.unwrap_or(text.len()))
}

/// The source with every string literal empty, and everything quoted in a comment left out.
fn without_strings(source: &str) -> String {
    let mut plain = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            let end = rest.find('\n').unwrap_or(rest.len());
            let quoted = rest[..end].split('"').step_by(2);
            plain.push_str(&quoted.collect::<String>());
            end
        } else if first == '"' || rest.starts_with("r\"") || rest.starts_with("r#") {
            plain.push_str("\"\"");
            string_length(rest)
        } else if let Some(length) = quote_length(rest) {
            plain.push_str("' '");
            length
        } else {
            // A whole identifier at once: an `r` at its end starts no raw string.
            let length = first_word(rest).0.len().max(first.len_utf8());
            plain.push_str(&rest[..length]);
            length
        };
        rest = &rest[skipped..];
    }
    plain
}

/// The length in bytes of the string literal, raw or not, that a text begins with.
fn string_length(text: &str) -> usize {
    let body = text.trim_start_matches(['r', '#']);
    let opening = text.len() - body.len();
    if let Some(raw) = text.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if !raw[hashes..].starts_with('"') {
            // A raw identifier.
            return 1 + hashes;
        }
        let closing = format!("\"{}", "#".repeat(hashes));
        let end = body[1..].find(&closing);
        return end.map_or(text.len(), |end| opening + 1 + end + closing.len());
    }
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            '"' if !escaped => return at + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

/// The length in bytes of the character literal that a text begins with; `None` also for a lifetime.
fn quote_length(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('\'')?;
    let letter = inner.chars().next()?;
    let searched = if letter == '\\' { 2 } else { letter.len_utf8() };
    let end = inner.get(searched..)?.find('\'')?;
    (letter == '\\' || end == 0).then_some(1 + searched + end + 1)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Adds every source file below a folder, but for files of tests.
fn add_folder(counts: &mut Counts, folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !["tests", "benches", "target"].contains(&name.as_str()) {
                add_folder(counts, &path);
            }
        } else if path.extension().is_some_and(|end| end == "rs") && name != "tests.rs" {
            counts.add_source(&fs::read_to_string(&path).unwrap());
        }
    }
}

/// Today's rates by crate.
fn count_crates() -> BTreeMap<String, Rates> {
    let crates = fs::read_dir(root().join("crates")).unwrap();
    let mut folders: Vec<PathBuf> = crates.map(|entry| entry.unwrap().path()).collect();
    folders.extend(["python", "bench", "fuzz"].map(|name| root().join(name)));
    folders.retain(|folder| folder.join("Cargo.toml").exists());
    let mut rates = BTreeMap::new();
    for folder in folders {
        let mut counts = Counts::default();
        add_folder(&mut counts, &folder);
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        rates.insert(name, counts.rates());
    }
    rates
}

fn recorded_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/words.toml")
}

/// The recorded rates by crate.
fn read_recorded() -> BTreeMap<String, Rates> {
    toml::from_str(&fs::read_to_string(recorded_path()).unwrap()).unwrap()
}

fn write_recorded(rates: &BTreeMap<String, Rates>) {
    let mut text =
        "# Highest counts per crate. See tests/all/words.rs: WAKEPATH_WORDS=lower writes this file.\n"
            .to_owned();
    for (name, rates) in rates {
        let fields = rates
            .named()
            .map(|(field, rate)| format!("{field} = {rate:.2}"));
        writeln!(text, "{name} = {{ {} }}", fields.join(", ")).unwrap();
    }
    fs::write(recorded_path(), text).unwrap();
}

#[test]
fn no_crate_moves_away_from_the_words_of_the_field() {
    let today = count_crates();
    let mode = std::env::var("WAKEPATH_WORDS").unwrap_or_default();
    if mode == "reset" {
        return write_recorded(&today);
    }
    let recorded = read_recorded();
    let mut faults = Vec::new();
    let mut lowered = BTreeMap::new();
    for (name, rates) in &today {
        // A crate without a record is new, and starts at the goals.
        let record = recorded.get(name).copied().unwrap_or(GOALS);
        lowered.insert(name.clone(), record.combine(*rates, f64::min));
        let limits = record.combine(GOALS, f64::max).named();
        for ((kind, rate), (_, limit)) in rates.named().into_iter().zip(limits) {
            if rate > limit * SLACK {
                faults.push(format!("{name}: {kind} {rate:.2}, at most {limit:.2}"));
            }
        }
    }
    if mode == "lower" {
        write_recorded(&lowered);
    }
    assert!(
        faults.is_empty(),
        "CONTRIBUTING.md, \"Words\", says what to write instead:\n{}",
        faults.join("\n")
    );
}

#[test]
fn words_are_counted_in_code_and_comments_only() {
    let mut counts = Counts::default();
    counts.add_source(
        r##"
/// What it is of: `it`, "which one".
struct Told(char);
fn of(r: &'static str) -> u32 {
    let near = |x: u32| x;
    let text = "of of \" of";
    let text = text.len() + r#"of " of"#.len();
    let quote = '"'; // of
    call(of_kind, quote)
}
"##,
    );
    assert_eq!((counts.of, counts.functions, counts.closures), (1, 1, 1));
    assert_eq!((counts.bindings, counts.ladders, counts.vague), (4, 1, 1));
    assert_eq!((counts.comment_words, counts.pronouns), (5, 3));
}
