//! Patterns of machines' names, as a shell has them: `web-0*`, `db[1-3]`; labels for matching machines.

use std::fmt;
use std::str::FromStr;

use globset::{Glob, GlobMatcher};

/// A pattern of names.
#[derive(Clone, Debug)]
pub struct NamePattern {
    text: String,
    matcher: GlobMatcher,
}

impl NamePattern {
    /// Whether the whole name matches.
    pub fn matches(&self, name: &str) -> bool {
        self.matcher.is_match(name)
    }
}

impl FromStr for NamePattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let glob = Glob::new(text).map_err(|error| error.kind().to_string())?;
        Ok(Self {
            text: text.to_owned(),
            matcher: glob.compile_matcher(),
        })
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// A label for machines whose names match.
#[derive(Clone, Debug)]
pub struct LabelPattern {
    pattern: NamePattern,
    label: String,
}

impl LabelPattern {
    /// Whether the label is for a machine.
    pub fn matches(&self, machine: &str) -> bool {
        self.pattern.matches(machine)
    }

    /// All labels for a machine, in the order of the patterns.
    pub fn labels_for(patterns: &[Self], machine: &str) -> Vec<String> {
        let matching = patterns.iter().filter(|label| label.matches(machine));
        matching.map(|label| label.label.clone()).collect()
    }
}

impl fmt::Display for LabelPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}={}", self.pattern, self.label)
    }
}

impl FromStr for LabelPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.rsplit_once('=');
        let (pattern, label) = parts
            .filter(|(pattern, label)| !pattern.is_empty() && !label.is_empty())
            .ok_or("expected a pattern and a label, such as 'rack1/*=web'")?;
        Ok(Self {
            pattern: pattern.parse()?,
            label: label.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_stand_behind_their_pattern() {
        let labels: [LabelPattern; 2] =
            ["rack1/*=web", "*/a=first"].map(|text| text.parse().unwrap());
        assert_eq!(
            LabelPattern::labels_for(&labels, "rack1/a"),
            ["web", "first"]
        );
        assert_eq!(LabelPattern::labels_for(&labels, "rack1/b"), ["web"]);
        for text in ["web", "=web", "rack=", "[=x"] {
            assert!(text.parse::<LabelPattern>().is_err(), "{text}");
        }
    }

    #[test]
    fn patterns_match_whole_names() {
        let pattern: NamePattern = "web-0[1-3]".parse().unwrap();
        assert!(pattern.matches("web-02"));
        assert!(!pattern.matches("web-021") && !pattern.matches("web-04"));
        let all: NamePattern = "rack1/*".parse().unwrap();
        assert!(all.matches("rack1/a:9100") && !all.matches("rack2/a"));
        assert!("web-[".parse::<NamePattern>().is_err());
    }
}
