//! Words put into the text of a boot loader's file. What is not understood is left alone, with a reason.

use super::parts::key_of;
use super::word::KernelWord;

/// The variable with the command line of normal entries; entries for recovery do not get it.
pub(super) const GRUB_VARIABLE: &str = "GRUB_CMDLINE_LINUX_DEFAULT";
/// The variable with the command line in Debian's u-boot-menu.
pub(super) const U_BOOT_VARIABLE: &str = "U_BOOT_PARAMETERS";

/// A text with the words, and each changed line before and after.
pub(super) type Edited = (String, Vec<(Option<String>, String)>);

/// A command line with the words. Each takes the place of words that it contradicts, even if it is on the line already. A word
/// that wakepath does not know comes last and removes nothing. `None` if nothing changes.
fn add_words(line: &str, words: &[KernelWord]) -> Option<String> {
    let before: Vec<&str> = line.split_ascii_whitespace().collect();
    let mut all = before.clone();
    for word in words {
        all.retain(|old| !word.contradicts(old));
        if !word.counts_among(&all) {
            all.push(word.as_str());
        }
    }
    (all != before).then(|| all.join(" "))
}

/// Words of changed lines that have the key of a new word with another value, and of which nothing is known. Each once.
pub(super) fn find_words_kept_beside(
    changes: &[(Option<String>, String)],
    words: &[KernelWord],
) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for (_, line) in changes {
        // A line of a shell file has the words in quotes.
        for other in line.split(|c: char| c.is_whitespace() || c == '"') {
            let is_doubtful = words.iter().any(|word| word.may_contradict(other));
            if is_doubtful && !kept.iter().any(|known| known == other) {
                kept.push(other.to_owned());
            }
        }
    }
    kept
}

/// Whether a shell file sets a variable.
pub(super) fn has_assignment(text: &str, variable: &str) -> bool {
    text.lines().any(|line| is_assignment(line, variable))
}

fn is_assignment(line: &str, variable: &str) -> bool {
    let trimmed = line.trim_start();
    let plain = trimmed.strip_prefix("export ").unwrap_or(trimmed);
    let rest = plain.trim_start().strip_prefix(variable);
    rest.is_some_and(|rest| rest.starts_with('=') || rest.starts_with("+="))
}

/// Adds words to the last assignment of a variable in a shell file, or adds an assignment.
///
/// # Errors
/// The assignment is more than a text in quotes.
pub(super) fn add_to_assignment(
    text: &str,
    variable: &str,
    words: &[KernelWord],
) -> Result<Edited, String> {
    let lines: Vec<&str> = text.lines().collect();
    let Some(place) = lines.iter().rposition(|line| is_assignment(line, variable)) else {
        let added = add_words("", words).unwrap_or_default();
        let line = format!("{variable}=\"{added}\"");
        let gap = if text.is_empty() || text.ends_with('\n') {
            ""
        } else {
            "\n"
        };
        return Ok((format!("{text}{gap}{line}\n"), vec![(None, line)]));
    };
    let old = lines[place];
    let value = plain_value_of_assignment(old, variable).ok_or_else(|| {
        format!(
            "line {}: {variable} is not a plain text in quotes",
            place + 1
        )
    })?;
    let Some(new_value) = add_words(value, words) else {
        return Ok((text.to_owned(), Vec::new()));
    };
    let new = format!("{variable}=\"{new_value}\"");
    Ok(replace_line(text, place, old, &new))
}

/// The value of an assignment such as `X="quiet splash"`; `None` for one with expansions, escapes, or more behind it.
fn plain_value_of_assignment<'a>(line: &'a str, variable: &str) -> Option<&'a str> {
    let value = line.trim().strip_prefix(variable)?.strip_prefix('=')?;
    let inside = match value.as_bytes() {
        [b'"', .., b'"'] | [b'\'', .., b'\''] => value.get(1..value.len() - 1)?,
        _ => value,
    };
    let is_plain = |c: char| !matches!(c, '"' | '\'' | '\\' | '$' | '`' | '#');
    let has_blank = inside.contains(char::is_whitespace);
    let is_whole = inside.len() < value.len() || !has_blank;
    (is_whole && inside.chars().all(is_plain)).then_some(inside)
}

/// Adds words to every `append` line of an extlinux configuration.
///
/// # Errors
/// There is no such line.
pub(super) fn add_to_append_lines(text: &str, words: &[KernelWord]) -> Result<Edited, String> {
    let mut edited = text.to_owned();
    let mut changes = Vec::new();
    let mut has_append = false;
    for (place, old) in text.lines().enumerate() {
        let indent = &old[..old.len() - old.trim_start().len()];
        let Some((keyword, value)) = old.trim_start().split_once(char::is_whitespace) else {
            continue;
        };
        if !keyword.eq_ignore_ascii_case("append") {
            continue;
        }
        has_append = true;
        if let Some(value) = add_words(value, words) {
            let new = format!("{indent}{keyword} {value}");
            let (text, mut change) = replace_line(&edited, place, old, &new);
            edited = text;
            changes.append(&mut change);
        }
    }
    if has_append {
        Ok((edited, changes))
    } else {
        Err("has no `append` line".to_owned())
    }
}

/// Adds words to a file that is the command line. Without the file, the running kernel's command line is the start, less what
/// a boot loader adds itself.
///
/// # Errors
/// The file has several lines, or neither it nor the running kernel's command line is there.
pub(super) fn add_to_whole_file(
    before: Option<&str>,
    running: Option<&str>,
    words: &[KernelWord],
) -> Result<Edited, String> {
    let Some(text) = before else {
        let running = running.ok_or("is not there, and neither is /proc/cmdline")?;
        let own = running
            .split_ascii_whitespace()
            .filter(|word| !matches!(key_of(word), "initrd" | "BOOT_IMAGE"));
        let start = own.collect::<Vec<_>>().join(" ");
        let line = add_words(&start, words).unwrap_or(start);
        return Ok((format!("{line}\n"), vec![(None, line)]));
    };
    if text.trim_end().contains('\n') {
        return Err("has several lines".to_owned());
    }
    let old = text.trim_end();
    Ok(match add_words(old, words) {
        Some(new) => (format!("{new}\n"), vec![(Some(old.to_owned()), new)]),
        None => (text.to_owned(), Vec::new()),
    })
}

/// Replaces a line of a text; all other bytes stay.
fn replace_line(text: &str, place: usize, old: &str, new: &str) -> Edited {
    let lines = text.split_inclusive('\n').enumerate();
    let replaced: String = lines
        .map(|(index, line)| {
            if index == place {
                line.replacen(old, new, 1)
            } else {
                line.to_owned()
            }
        })
        .collect();
    (replaced, vec![(Some(old.to_owned()), new.to_owned())])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(texts: &[&str]) -> Vec<KernelWord> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn only_the_line_of_the_variable_changes() {
        let text = "# GRUB_CMDLINE_LINUX_DEFAULT=x\r\nGRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet amd_pstate=passive\"\n\
                    GRUB_CMDLINE_LINUX=\"\"";
        let (edited, changes) =
            add_to_assignment(text, GRUB_VARIABLE, &words(&["amd_pstate=active", "nosmt"]))
                .unwrap();
        let line = "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet amd_pstate=active nosmt\"";
        assert_eq!(changes[0].1, line);
        let expected = text.replace(changes[0].0.as_deref().unwrap(), line);
        assert_eq!(edited, expected);
        // A second time there is nothing to do.
        let again = add_to_assignment(&edited, GRUB_VARIABLE, &words(&["nosmt"])).unwrap();
        assert_eq!(again, (edited, Vec::new()));
    }

    #[test]
    fn a_word_takes_the_place_of_those_that_it_contradicts() {
        let cases = [
            // Nothing is known of the word. Nothing is removed, and the new word is the last one, which most readers take.
            ("a=1 quiet a=2", "a=1", "a=1 quiet a=2 a=1"),
            // The kernel takes the last one, so that one before another is not enough.
            (
                "nvme.poll_queues=1 quiet nvme.poll_queues=2",
                "nvme.poll_queues=1",
                "nvme.poll_queues=1 quiet",
            ),
            (
                "nvme.poll_queues=2",
                "nvme.poll_queues=4",
                "nvme.poll_queues=4",
            ),
            // It takes each of these, and `off` and `disable` win over whatever follows.
            (
                "pcie_aspm=off pcie_aspm=force ro",
                "pcie_aspm=force",
                "pcie_aspm=force ro",
            ),
            (
                "intel_pstate=disable",
                "intel_pstate=active",
                "intel_pstate=active",
            ),
            // Of the words of intel_pstate only some contradict each other.
            (
                "intel_pstate=passive intel_pstate=no_hwp",
                "intel_pstate=active",
                "intel_pstate=no_hwp intel_pstate=active",
            ),
            (
                "intel_pstate=hwp_only intel_pstate=active",
                "intel_pstate=no_hwp",
                "intel_pstate=active intel_pstate=no_hwp",
            ),
            // A switch without a value is on, and `-` is read as `_`.
            (
                "cpuidle_haltpoll.force ro",
                "cpuidle_haltpoll.force=N",
                "ro cpuidle_haltpoll.force=N",
            ),
            (
                "cpuidle-haltpoll.force=0",
                "cpuidle_haltpoll.force",
                "cpuidle_haltpoll.force",
            ),
            // Each console is one more.
            (
                "console=tty0",
                "console=ttyS0",
                "console=tty0 console=ttyS0",
            ),
            ("pci=noaer", "pci=nomsi", "pci=noaer pci=nomsi"),
        ];
        for (line, word, expected) in cases {
            let added = add_words(line, &words(&[word]));
            assert_eq!(added.as_deref(), Some(expected), "{line} + {word}");
            assert_eq!(add_words(expected, &words(&[word])), None, "{expected}");
        }
        for (line, word) in [
            ("cpuidle_haltpoll.force", "cpuidle_haltpoll.force=Y"),
            ("cpuidle_haltpoll.force=on", "cpuidle_haltpoll.force"),
            ("intel-pstate=no_hwp", "intel_pstate=no_hwp"),
        ] {
            assert_eq!(add_words(line, &words(&[word])), None, "{line} + {word}");
        }
    }

    #[test]
    fn words_that_may_stand_several_times_remove_nothing() {
        for (old, new) in [
            ("rd.lvm.lv=vg/root", "rd.lvm.lv=vg/swap"),
            ("rd.luks.uuid=luks-1", "rd.luks.uuid=luks-2"),
            ("systemd.mask=a.service", "systemd.mask=b.service"),
            ("modprobe.blacklist=nouveau", "modprobe.blacklist=floppy"),
            ("initcall_blacklist=a_init", "initcall_blacklist=b_init"),
            ("earlycon=uart8250", "earlycon=efifb"),
            ("nvme.dyndbg=+p", "nvme.dyndbg=+t"),
            ("dyndbg=+p", "dyndbg=+t"),
        ] {
            let line = format!("root=/dev/sda1 {old} ro");
            let added = add_words(&line, &words(&[new])).unwrap();
            assert_eq!(added, format!("{line} {new}"));
            let changes = [(None, added.clone())];
            let kept = find_words_kept_beside(&changes, &words(&[new]));
            assert!(kept.is_empty(), "{kept:?}");
            // Each of them counts wherever it stands.
            assert_eq!(add_words(&added, &words(&[old])), None);
        }
    }

    #[test]
    fn words_of_which_nothing_is_known_stay_beside_the_new_one_and_are_named() {
        for (old, new) in [
            ("crashkernel=1G,high", "crashkernel=72M,low"),
            ("module_blacklist=nouveau", "module_blacklist=floppy"),
            ("root=/dev/sda1", "root=/dev/sda2"),
        ] {
            let text = format!("{GRUB_VARIABLE}=\"{old} ro\"\n");
            let (edited, changes) =
                add_to_assignment(&text, GRUB_VARIABLE, &words(&[new])).unwrap();
            assert_eq!(edited, format!("{GRUB_VARIABLE}=\"{old} ro {new}\"\n"));
            assert_eq!(find_words_kept_beside(&changes, &words(&[new])), [old]);
        }
    }

    #[test]
    fn a_missing_assignment_is_added() {
        let (edited, changes) =
            add_to_assignment("GRUB_TIMEOUT=5", GRUB_VARIABLE, &words(&["a=1"])).unwrap();
        assert_eq!(
            edited,
            "GRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX_DEFAULT=\"a=1\"\n"
        );
        assert_eq!(changes[0].0, None);
    }

    #[test]
    fn assignments_that_a_shell_would_expand_are_left_alone() {
        for value in [
            "\"$OTHER quiet\"",
            "\"quiet\" # comment",
            "\"a\\\"b\"",
            "`x`",
            "a b",
        ] {
            let text = format!("{GRUB_VARIABLE}={value}\n");
            let refused = add_to_assignment(&text, GRUB_VARIABLE, &words(&["a=1"]));
            assert!(refused.unwrap_err().starts_with("line 1: "), "{value}");
        }
        let appended = format!("{GRUB_VARIABLE}+=\" x\"\n");
        assert!(add_to_assignment(&appended, GRUB_VARIABLE, &words(&["a=1"])).is_err());
        let bare = format!("{GRUB_VARIABLE}=quiet\n");
        let (edited, _) = add_to_assignment(&bare, GRUB_VARIABLE, &words(&["a=1"])).unwrap();
        assert_eq!(edited, format!("{GRUB_VARIABLE}=\"quiet a=1\"\n"));
    }

    #[test]
    fn every_label_of_extlinux_gets_the_words() {
        let text = "default l0\nlabel l0\n\tlinux /vmlinuz\n\tappend root=/dev/sda1 ro\nlabel l1\n  APPEND single\n";
        let (edited, changes) = add_to_append_lines(text, &words(&["a=1"])).unwrap();
        assert_eq!(changes.len(), 2);
        assert!(
            edited.contains("\tappend root=/dev/sda1 ro a=1\n"),
            "{edited}"
        );
        assert!(edited.ends_with("  APPEND single a=1\n"), "{edited}");
        assert!(add_to_append_lines("label l0\n", &words(&["a=1"])).is_err());
    }

    #[test]
    fn a_missing_file_of_kernel_install_starts_with_the_running_command_line() {
        let running = "initrd=\\x\\initrd root=UUID=1 ro\n";
        let (edited, _) = add_to_whole_file(None, Some(running), &words(&["a=1"])).unwrap();
        assert_eq!(edited, "root=UUID=1 ro a=1\n");
        let (edited, _) = add_to_whole_file(Some("ro\n"), None, &words(&["a=1"])).unwrap();
        assert_eq!(edited, "ro a=1\n");
        assert!(add_to_whole_file(None, None, &words(&["a=1"])).is_err());
        assert!(add_to_whole_file(Some("a\nb\n"), None, &words(&["a=1"])).is_err());
    }
}
