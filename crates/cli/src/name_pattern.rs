//! Patterns of machines' names, as a shell has them: `web-0*`, `db[1-3]`.

use std::fmt;
use std::str::FromStr;

use globset::{Glob, GlobMatcher};

/// A pattern of names.
#[derive(Clone, Debug)]
pub(crate) struct NamePattern {
    text: String,
    matcher: GlobMatcher,
}

impl NamePattern {
    /// Whether the whole name matches.
    pub(crate) fn matches(&self, name: &str) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

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
