//! What a job file takes from its surroundings: variables (`${NAME}`), and figures of the machine (`$ncpus`), with which fio
//! computes.

use std::collections::BTreeMap;

use super::error::{LineProblem, escape_and_shorten};

/// Longest line in bytes in which fio 3.33 computes (`bc_calc()` in `options.c`); a longer line stays as it is.
const LONGEST_COMPUTED_LINE: usize = 127;

/// How deeply parentheses may stand inside each other.
const MAX_PARENTHESES: usize = 32;

/// Values that a job file can ask for, beside its own lines.
#[derive(Clone, Debug, Default)]
pub struct FioSurroundings {
    /// Values for `${NAME}`, before variables of the environment.
    pub variables: BTreeMap<String, String>,
    /// The machine whose figures `$ncpus`, `$mb_memory` and `$pagesize` stand for. `None`: these words have no value.
    pub machine: Option<MachineFigures>,
}

/// Figures of the machine that runs a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineFigures {
    /// Number of CPUs online, at least 1.
    pub cpus: u64,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
}

impl FioSurroundings {
    /// The variable's value: a given one, or else the environment's.
    pub(super) fn value_of_variable(&self, name: &str) -> Option<String> {
        let given = self.variables.get(name).cloned();
        given.or_else(|| std::env::var(name).ok())
    }

    /// The option line as fio reads it, where it has one of fio's words for a figure of the machine. `None`: it has none,
    /// or the machine is not known.
    ///
    /// As fio 3.33: only a line with such a word is computed, as a whole behind its first `=`.
    ///
    /// # Errors
    /// The value is no sum or product of whole numbers.
    pub(super) fn insert_machine_figures(&self, line: &str) -> Result<Option<String>, LineProblem> {
        let Some(machine) = self.machine else {
            return Ok(None);
        };
        let mut inserted = line.to_owned();
        for (word, figure) in [
            ("$pagesize", machine.page_bytes),
            ("$mb_memory", machine.memory_mib),
            ("$ncpus", machine.cpus),
        ] {
            if inserted.contains(word) {
                inserted = inserted.replace(word, &figure.to_string());
            }
        }
        if inserted == line {
            return Ok(None);
        }
        let Some((key, value)) = inserted.split_once('=') else {
            return Ok(Some(inserted));
        };
        let is_computed = inserted.contains(['+', '-', '*', '/']) && !inserted.contains('\'');
        if !is_computed || inserted.len() > LONGEST_COMPUTED_LINE {
            return Ok(Some(inserted));
        }
        match compute_expression(value) {
            Some(result) => Ok(Some(format!("{key}={result}"))),
            None => Err(LineProblem::new(format!(
                "{}: `{}` cannot be computed; beside $pagesize, $mb_memory and $ncpus there may be whole numbers, + - * / and parentheses, without units",
                escape_and_shorten(key.trim_end()),
                escape_and_shorten(value)
            ))),
        }
    }
}

/// The result of an expression with whole numbers, `+ - * /` and parentheses; quotients lose their fraction, as in bc.
/// `None`: it is none, or too large.
fn compute_expression(text: &str) -> Option<i128> {
    let mut reader = ExpressionReader {
        rest: text.as_bytes(),
        depth: 0,
    };
    let value = reader.read_sum()?;
    reader.skip_blanks();
    reader.rest.is_empty().then_some(value)
}

/// An expression, as far as it is not read.
struct ExpressionReader<'a> {
    rest: &'a [u8],
    depth: usize,
}

impl ExpressionReader<'_> {
    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    /// Takes the next sign, if it is one of these.
    fn take_sign(&mut self, signs: &[u8]) -> Option<u8> {
        self.skip_blanks();
        let (sign, rest) = self.rest.split_first()?;
        if !signs.contains(sign) {
            return None;
        }
        self.rest = rest;
        Some(*sign)
    }

    fn read_sum(&mut self) -> Option<i128> {
        let mut sum = self.read_product()?;
        while let Some(sign) = self.take_sign(b"+-") {
            let next = self.read_product()?;
            sum = match sign {
                b'+' => sum.checked_add(next)?,
                _ => sum.checked_sub(next)?,
            };
        }
        Some(sum)
    }

    fn read_product(&mut self) -> Option<i128> {
        let mut product = self.read_factor()?;
        while let Some(sign) = self.take_sign(b"*/") {
            let next = self.read_factor()?;
            product = match sign {
                b'*' => product.checked_mul(next)?,
                _ => product.checked_div(next)?,
            };
        }
        Some(product)
    }

    fn read_factor(&mut self) -> Option<i128> {
        if self.take_sign(b"(").is_some() {
            self.depth += 1;
            if self.depth > MAX_PARENTHESES {
                return None;
            }
            let inner = self.read_sum()?;
            self.depth -= 1;
            return self.take_sign(b")").map(|_| inner);
        }
        self.skip_blanks();
        let digits = self.rest.iter().take_while(|c| c.is_ascii_digit()).count();
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        std::str::from_utf8(number).ok()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_bcs() {
        for (text, result) in [
            ("4096*4", 16_384),
            ("4096 *4", 16_384),
            ("24105/8*7", 21_091),
            ("7*24105/8", 21_091),
            ("2*(4096+1)", 8194),
            ("100-4096", -3996),
            ("0-7/2", -3),
        ] {
            assert_eq!(compute_expression(text), Some(result), "{text}");
        }
        let deep = format!("{}1{}", "(".repeat(1000), ")".repeat(1000));
        for text in ["", "4096+4k", "2/0", "4096*", "(1", "1)", "4096*3.5", &deep] {
            assert_eq!(compute_expression(text), None, "{text}");
        }
    }

    #[test]
    fn a_line_without_a_word_stays() {
        let with = FioSurroundings {
            machine: Some(MachineFigures {
                cpus: 2,
                memory_mib: 1024,
                page_bytes: 4096,
            }),
            ..FioSurroundings::default()
        };
        assert_eq!(with.insert_machine_figures("size=(4*1024)"), Ok(None));
        let inserted = |line| with.insert_machine_figures(line).unwrap().unwrap();
        assert_eq!(inserted("size=$ncpusk"), "size=2k");
        assert_eq!(inserted("bs=8k,$pagesize"), "bs=8k,4096");
        assert_eq!(inserted("size=$mb_memory*1024*1024"), "size=1073741824");
        assert!(with.insert_machine_figures("size=$pagesize+4k").is_err());
        let unknown = FioSurroundings::default();
        assert_eq!(unknown.insert_machine_figures("size=$pagesize"), Ok(None));
    }
}
