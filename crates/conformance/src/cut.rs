//! Cuts single definitions out of a C file: a function, a struct, a macro or a static variable.
//!
//! It knows just enough of C not to be fooled: comments, string and character literals, and
//! preprocessor lines are told apart from code, and braces are counted only in code.

use anyhow::{Result, anyhow, bail};

/// A C file in which every byte is known to be code, or something else.
#[derive(Debug)]
pub struct CFile<'a> {
    text: &'a str,
    /// Text of the file with comments, literals and preprocessor lines blanked out, byte for byte
    /// as long.
    code: Vec<u8>,
}

impl<'a> CFile<'a> {
    /// Takes the text of a C file and finds out what is code.
    pub fn new(text: &'a str) -> Self {
        Self {
            text,
            code: blank_non_code(text.as_bytes()),
        }
    }

    /// Cuts out the definition of function `name`, from return type to closing brace.
    pub fn cut_function(&self, name: &str) -> Result<&'a str> {
        for at in self.positions_of_word(name) {
            let Some(open) = self.next_code_byte(at + name.len()) else {
                continue;
            };
            if self.code[open] != b'(' || self.brace_depth_at(at) != 0 {
                continue;
            }
            let Some(close) = self.closing_bracket(open) else {
                continue;
            };
            match self.next_code_byte(close + 1) {
                // A function's declaration ends in a semicolon; a definition goes on with its body.
                Some(brace) if self.code[brace] == b'{' => {
                    let end = self
                        .closing_bracket(brace)
                        .ok_or_else(|| anyhow!("function {name}: no closing brace"))?;
                    return Ok(&self.text[self.start_of_definition(at)..=end]);
                }
                _ => {}
            }
        }
        bail!("no definition of function {name}")
    }

    /// Cuts out the definition of `struct name`, up to the semicolon.
    pub fn cut_struct(&self, name: &str) -> Result<&'a str> {
        for at in self.positions_of_word(name) {
            let before = String::from_utf8_lossy(&self.code[..at]);
            let brace = self.next_code_byte(at + name.len());
            if let (Some(brace), true) = (brace, before.trim_end().ends_with("struct"))
                && self.code[brace] == b'{'
            {
                let end = self
                    .closing_bracket(brace)
                    .and_then(|close| self.next_code_byte(close + 1))
                    .filter(|end| self.code[*end] == b';')
                    .ok_or_else(|| anyhow!("struct {name}: no end"))?;
                return Ok(&self.text[before.trim_end().len() - "struct".len()..=end]);
            }
        }
        bail!("no definition of struct {name}")
    }

    /// Cuts out the file-level variable `name`, from its first keyword to its semicolon.
    pub fn cut_variable(&self, name: &str) -> Result<&'a str> {
        for at in self.positions_of_word(name) {
            let next = self.next_code_byte(at + name.len());
            let defines = next.is_some_and(|next| matches!(self.code[next], b'=' | b';'));
            if !defines || self.brace_depth_at(at) != 0 {
                continue;
            }
            if let Some(length) = self.code[at..].iter().position(|&b| b == b';') {
                return Ok(&self.text[self.start_of_definition(at)..=at + length]);
            }
        }
        bail!("no definition of variable {name}")
    }

    /// Cuts out the `#define` of macro `name`, continuation lines included.
    pub fn cut_macro(&self, name: &str) -> Result<&'a str> {
        let mut start = 0;
        for line in self.text.split_inclusive('\n') {
            let rest = line
                .trim_start()
                .strip_prefix('#')
                .map(str::trim_start)
                .and_then(|l| l.strip_prefix("define"))
                .map(str::trim_start)
                .and_then(|l| l.strip_prefix(name));
            if rest.is_some_and(|r| !r.starts_with(is_word_char)) {
                let mut end = start;
                for line in self.text[start..].split_inclusive('\n') {
                    end += line.len();
                    if !line.trim_end().ends_with('\\') {
                        break;
                    }
                }
                return Ok(self.text[start..end].trim_end());
            }
            start += line.len();
        }
        bail!("no definition of macro {name}")
    }

    /// Positions in code where the whole word `name` stands.
    fn positions_of_word<'s>(&'s self, name: &'s str) -> impl Iterator<Item = usize> + 's {
        (0..self.code.len().saturating_sub(name.len())).filter(move |&at| {
            self.code[at..].starts_with(name.as_bytes()) && self.is_whole_word(at, name.len())
        })
    }

    /// Whether the `length` bytes from `at` on are a whole word: no letter or digit stands beside
    /// them.
    fn is_whole_word(&self, at: usize, length: usize) -> bool {
        let before = at.checked_sub(1).map(|i| self.code[i]);
        let after = self.code.get(at + length).copied();
        ![before, after]
            .into_iter()
            .flatten()
            .any(|b| is_word_char(char::from(b)))
    }

    /// Number of braces that are open at position `at` of the code.
    fn brace_depth_at(&self, at: usize) -> i32 {
        self.code[..at].iter().fold(0, |depth, b| match b {
            b'{' => depth + 1,
            b'}' => depth - 1,
            _ => depth,
        })
    }

    /// Position of the first code byte from `at` on that is not white space.
    fn next_code_byte(&self, at: usize) -> Option<usize> {
        self.code
            .get(at..)?
            .iter()
            .position(|b| !b.is_ascii_whitespace())
            .map(|i| at + i)
    }

    /// Position of the bracket that closes the one at `open`.
    fn closing_bracket(&self, open: usize) -> Option<usize> {
        let (opening, closing) = match self.code[open] {
            b'(' => (b'(', b')'),
            _ => (b'{', b'}'),
        };
        let mut depth = 0;
        for (i, &b) in self.code[open..].iter().enumerate() {
            if b == opening {
                depth += 1;
            } else if b == closing {
                depth -= 1;
                if depth == 0 {
                    return Some(open + i);
                }
            }
        }
        None
    }

    /// Position where the definition that holds `at` starts: after the end of the definition
    /// before.
    fn start_of_definition(&self, at: usize) -> usize {
        let after = self.code[..at]
            .iter()
            .rposition(|b| matches!(b, b';' | b'}' | b'#'))
            .map_or(0, |end| end + 1);
        self.next_code_byte(after).unwrap_or(at)
    }
}

fn is_word_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Replaces everything but code by blanks. A preprocessor line leaves a `#` at its end, so that it
/// still separates definitions.
fn blank_non_code(text: &[u8]) -> Vec<u8> {
    let mut code = text.to_vec();
    let mut i = 0;
    let mut at_line_start = true;
    while i < text.len() {
        let end = match (text[i], text.get(i + 1)) {
            (b'/', Some(b'*')) => index_after(text, i + 2, b"*/"),
            (b'/', Some(b'/')) => end_of_line(text, i),
            (quote @ (b'"' | b'\''), _) => end_of_literal(text, i, quote),
            (b'#', _) if at_line_start => {
                let end = end_of_directive(text, i);
                overwrite_with_blanks(&mut code[i..end]);
                code[end - 1] = b'#';
                i = end;
                continue;
            }
            (b, _) => {
                at_line_start = b == b'\n' || at_line_start && b.is_ascii_whitespace();
                i += 1;
                continue;
            }
        };
        overwrite_with_blanks(&mut code[i..end]);
        i = end;
    }
    code
}

fn overwrite_with_blanks(bytes: &mut [u8]) {
    for b in bytes {
        if *b != b'\n' {
            *b = b' ';
        }
    }
}

/// Index after the next `needle` in the text, or the end of the text.
fn index_after(text: &[u8], from: usize, needle: &[u8]) -> usize {
    text.get(from..)
        .and_then(|rest| rest.windows(needle.len()).position(|w| w == needle))
        .map_or(text.len(), |i| from + i + needle.len())
}

fn end_of_line(text: &[u8], from: usize) -> usize {
    text[from..]
        .iter()
        .position(|&b| b == b'\n')
        .map_or(text.len(), |i| from + i)
}

fn end_of_literal(text: &[u8], from: usize, quote: u8) -> usize {
    let mut i = from + 1;
    while i < text.len() {
        match text[i] {
            b'\\' => i += 2,
            b if b == quote => return i + 1,
            b'\n' => return i,
            _ => i += 1,
        }
    }
    text.len()
}

/// End of a preprocessor directive, over continuation lines and comments that span lines.
fn end_of_directive(text: &[u8], from: usize) -> usize {
    let mut i = from;
    while i < text.len() {
        match (text[i], text.get(i + 1)) {
            (b'\\', Some(b'\n')) => i += 2,
            (b'/', Some(b'*')) => i = index_after(text, i + 2, b"*/"),
            (b'\n', _) => return i,
            _ => i += 1,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = r#"
#include <x.h>
#define LIMIT (3 * \
	       4)
#define LIMITED 5 /* not
LIMIT */

static unsigned long timeout_ms = 100;
module_param(timeout_ms, ulong, 0644);

/* int wanted(void) { a comment } */
static int wanted(struct dev *dev);

struct thing {
	int a;
	struct { int b; } inner;
};

static struct thing things[4];

/**
 * wanted() - does it
 */
static int __init wanted(struct dev *dev)
{
	const char *s = "} \" {", c = '}';
	// a brace }
	if (c) {
		other(dev, LIMIT);
	}
	return 0;
}

static u64 last(void) { return wanted(NULL); }
"#;

    #[test]
    fn a_function_is_cut_from_its_type_to_its_brace() -> Result<()> {
        let cut = CFile::new(SAMPLE).cut_function("wanted")?;
        assert!(cut.starts_with("static int __init wanted("), "{cut}");
        assert!(cut.ends_with("return 0;\n}"), "{cut}");
        assert_eq!(
            CFile::new(SAMPLE).cut_function("last")?,
            "static u64 last(void) { return wanted(NULL); }"
        );
        Ok(())
    }

    #[test]
    fn macros_structs_and_variables_are_cut_whole() -> Result<()> {
        let file = CFile::new(SAMPLE);
        assert_eq!(
            file.cut_macro("LIMIT")?,
            "#define LIMIT (3 * \\\n\t       4)"
        );
        assert_eq!(
            file.cut_struct("thing")?,
            "struct thing {\n\tint a;\n\tstruct { int b; } inner;\n};"
        );
        assert_eq!(
            file.cut_variable("timeout_ms")?,
            "static unsigned long timeout_ms = 100;"
        );
        Ok(())
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        let file = CFile::new(SAMPLE);
        assert!(file.cut_function("other").is_err());
        assert!(file.cut_function("wante").is_err());
        assert!(file.cut_struct("dev").is_err());
        assert!(file.cut_variable("LIMIT").is_err());
        assert!(file.cut_macro("LIM").is_err());
    }

    #[test]
    fn broken_text_does_not_panic() {
        for text in [
            "",
            "/*",
            "\"",
            "'\\",
            "#define",
            "int f(void) {",
            "struct s {",
        ] {
            let file = CFile::new(text);
            assert!(file.cut_function("f").is_err());
            assert!(file.cut_struct("s").is_err());
        }
    }
}
