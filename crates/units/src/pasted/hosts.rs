//! Names that pdsh, clush, Ansible and Salt print with the output of each machine.

use std::borrow::Cow;
use std::collections::BTreeSet;

/// Lines of more than one machine, where a text of one machine is expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("lines {first} and {second} are of different machines (`{}` and `{}`); give the lines of one machine", .hosts[0], .hosts[1])]
pub struct SeveralHosts {
    first: usize,
    second: usize,
    hosts: [String; 2],
}

/// How a tool for many machines marks the lines of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// `host: line`: pdsh, clush and `salt --out=txt`.
    Prefix,
    /// `host | CHANGED | rc=0 >>` above the lines: Ansible.
    Ansible,
    /// `host:` above indented lines: Salt.
    Indented,
    /// `host` between two rules above the lines: dshbak and `clush -b`.
    Ruled,
}

/// Takes names of machines off the lines of a text.
#[derive(Debug)]
pub(super) struct HostLines {
    layout: Layout,
    /// Name of the machine, and the number of the line that named it first.
    host: Option<(String, usize)>,
    /// Lines seen.
    number: usize,
    /// For [`Layout::Ruled`]: only the first rule of a heading was seen.
    in_heading: bool,
}

impl HostLines {
    /// Recognises the layout by the beginning of a text; `None` for text without names of machines.
    pub(super) fn detect(start: &str) -> Option<Self> {
        let layout = detect_layout(
            &start
                .lines()
                .filter(|line| is_output_of_machine(line))
                .collect::<Vec<_>>(),
        )?;
        Some(Self {
            layout,
            host: None,
            number: 0,
            in_heading: false,
        })
    }

    /// Returns a line without its machine's name; an empty text for a heading.
    ///
    /// # Errors
    /// The line is of another machine than the lines before.
    pub(super) fn strip_host<'a>(&mut self, line: &'a str) -> Result<&'a str, SeveralHosts> {
        self.number += 1;
        let found = match self.layout {
            Layout::Prefix if !is_output_of_machine(line) => return Ok(""),
            Layout::Prefix => split_host_prefix(line),
            Layout::Ansible => host_in_ansible_heading(line).map(|host| (host, "")),
            Layout::Indented => host_in_salt_heading(line).map(|host| (host, "")),
            Layout::Ruled if is_dashed_rule(line) => {
                self.in_heading ^= true;
                return Ok("");
            }
            Layout::Ruled => Some((line.trim(), ""))
                .filter(|(host, _)| self.in_heading && may_be_host_name(host)),
        };
        let Some((host, rest)) = found else {
            return Ok(line);
        };
        let (known, first) = self
            .host
            .get_or_insert_with(|| (host.to_owned(), self.number));
        if known == host {
            return Ok(rest);
        }
        Err(SeveralHosts {
            first: *first,
            second: self.number,
            hosts: [known.clone(), host.to_owned()],
        })
    }
}

/// Text of one machine without the names that pdsh, clush, Ansible and Salt add. Each line keeps its number.
///
/// # Errors
/// The text has lines of several machines.
pub fn without_hosts(text: Cow<'_, str>) -> Result<Cow<'_, str>, SeveralHosts> {
    let Some(mut hosts) = HostLines::detect(&text) else {
        return Ok(text);
    };
    let mut stripped = String::with_capacity(text.len());
    for line in text.lines() {
        stripped.push_str(hosts.strip_host(line)?);
        stripped.push('\n');
    }
    Ok(stripped.into())
}

fn detect_layout(lines: &[&str]) -> Option<Layout> {
    let [first, rest @ ..] = lines else {
        return None;
    };
    if host_in_ansible_heading(first).is_some() {
        return Some(Layout::Ansible);
    }
    if let (true, [host, rule, ..]) = (is_dashed_rule(first), rest)
        && may_be_host_name(host.trim())
        && is_dashed_rule(rule)
    {
        return Some(Layout::Ruled);
    }
    if host_in_salt_heading(first).is_some()
        && !rest.is_empty()
        && rest.iter().all(may_be_salt_line)
    {
        return Some(Layout::Indented);
    }
    let prefixes = lines
        .iter()
        .map(|line| split_host_prefix(line))
        .collect::<Option<Vec<_>>>()?;
    let hosts: BTreeSet<&str> = prefixes.iter().map(|(host, _)| *host).collect();
    // A text of `key: value` lines has each key once, and so more different prefixes.
    (prefixes.len() >= 2 * hosts.len()).then_some(Layout::Prefix)
}

/// Whether a line is neither blank, nor a typed command, nor a message of pdsh itself.
fn is_output_of_machine(line: &str) -> bool {
    !line.trim().is_empty() && !line.starts_with(['$', '#']) && !line.starts_with("pdsh@")
}

/// Splits `host: rest`, or a path right behind the colon, into host and rest.
fn split_host_prefix(line: &str) -> Option<(&str, &str)> {
    let (host, rest) = line.split_once(':')?;
    let is_separate = rest.is_empty() || rest.starts_with([' ', '\t', '/']);
    (is_separate && may_be_host_name(host)).then(|| (host, rest.strip_prefix(' ').unwrap_or(rest)))
}

/// Name of the machine in Ansible's heading `host | CHANGED | rc=0 >>`.
fn host_in_ansible_heading(line: &str) -> Option<&str> {
    let mut parts = line.trim_end().strip_suffix(">>")?.split(" | ");
    let host = parts.next().filter(|host| may_be_host_name(host))?;
    let (state, code) = (parts.next()?, parts.next()?);
    (state.chars().all(|c| c.is_ascii_uppercase() || c == '!') && code.starts_with("rc="))
        .then_some(host)
}

/// Whether a line can be Salt's: a machine's name, or indented output.
fn may_be_salt_line(line: &&str) -> bool {
    line.starts_with("    ") || host_in_salt_heading(line).is_some()
}

/// Name of the machine in Salt's heading `host:`, a line with nothing else.
fn host_in_salt_heading(line: &str) -> Option<&str> {
    let host = line.trim_end().strip_suffix(':')?;
    may_be_host_name(host).then_some(host)
}

fn is_dashed_rule(line: &str) -> bool {
    let line = line.trim_end();
    line.len() >= 4 && line.bytes().all(|b| b == b'-')
}

/// Whether a text may be a machine's name or address. `cpu3` is none, since it begins lines of many dumps.
fn may_be_host_name(text: &str) -> bool {
    let numbered = text.strip_prefix("cpu").unwrap_or("other");
    (1..=253).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
        && !numbered.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripped(text: &str) -> String {
        without_hosts(text.into()).unwrap().into_owned()
    }

    #[test]
    fn names_that_tools_for_many_machines_print_are_taken_off() {
        for text in [
            "n1: ps 0\nn1: \nn1:  b: c\n",
            "$ pdsh -w n1 cat x\nn1: ps 0\npdsh@admin: n1: ssh exited with exit code 1\nn1:  b: c\n",
            "n1.example.org | CHANGED | rc=0 >>\nps 0\n\n b: c\n",
            "10.0.0.7:\n    ps 0\n    \n     b: c\n",
            "----------------\nn1\n----------------\nps 0\n\n b: c\n",
        ] {
            let found = stripped(text);
            let lines = found.lines().map(str::trim).filter(|line| !line.is_empty());
            assert!(lines.eq(["ps 0", "b: c"]), "{text}: {found}");
            assert_eq!(found.lines().count(), text.lines().count(), "{text}");
        }
        let path = "n1:/sys/x/usage:5\nn1:/sys/x/time:7\n";
        assert_eq!(stripped(path), "/sys/x/usage:5\n/sys/x/time:7\n");
    }

    #[test]
    fn other_text_stays_as_it_is() {
        for text in [
            "",
            "Vendor: X\nProduct: Y\nRevision: Z\n",
            "Latency: 0\nUsage: 5\nResidency: 0\nDuration: 6\n",
            "vid : 0x144d\nssvid : 0x144d\n",
            "POLL:\nFlags/Description: POLL\n",
            "cpu0: a\ncpu0: b\ncpu1: a\ncpu1: b\n",
            "1:/sys/a:5\n2:/sys/b:6\n",
            "------\n",
        ] {
            assert_eq!(stripped(text), text);
        }
    }

    #[test]
    fn lines_of_two_machines_are_refused() {
        for (text, lines) in [
            ("n1: a\nn1: b\nn2: a\nn2: b\n", [1, 3]),
            (
                "n1 | SUCCESS | rc=0 >>\na\nn2 | FAILED | rc=1 >>\nb\n",
                [1, 3],
            ),
            ("n1:\n    a\nn2:\n    a\n", [1, 3]),
            ("-----\nn1\n-----\na\n-----\nn2\n-----\nb\n", [2, 6]),
        ] {
            let error = without_hosts(text.into()).unwrap_err();
            assert_eq!([error.first, error.second], lines, "{text}");
            assert_eq!(error.hosts, ["n1", "n2"], "{text}");
        }
    }
}
