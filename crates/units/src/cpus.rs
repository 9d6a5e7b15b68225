//! Lists of CPUs in the notation of sysfs: `0-3,8`.

use std::collections::BTreeSet;

/// No kernel has more CPUs: the largest `NR_CPUS` of Linux (`arch/x86/Kconfig`).
pub const MAX_CPUS: u32 = 8192;

/// Numbers in a list of CPUs must be below this limit.
const MOST: usize = 1 << 16;

/// Parses `0-3,8`; ascending, without duplicates. `None` if it is not a list of CPUs; the empty text
/// is the empty list.
pub fn parse_cpu_list(text: &str) -> Option<Vec<usize>> {
    let mut cpus = BTreeSet::new();
    for part in text.trim().split(',').filter(|p| !p.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= MOST {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus.into_iter().collect())
}

/// Formats ascending CPU numbers for people, with ranges: `0-3, 8`.
pub fn format_cpu_list(cpus: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *cpu => *last = *cpu,
            _ => ranges.push((*cpu, *cpu)),
        }
    }
    let texts = ranges.iter().map(|(first, last)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    });
    texts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_joins_neighbours() {
        assert_eq!(format_cpu_list(&[0, 1, 2, 3, 8]), "0-3, 8");
        assert_eq!(format_cpu_list(&[5]), "5");
        assert_eq!(format_cpu_list(&[]), "");
    }

    #[test]
    fn cpu_lists_are_read_as_sysfs_writes_them() {
        assert_eq!(parse_cpu_list("0-2,5\n"), Some(vec![0, 1, 2, 5]));
        assert_eq!(parse_cpu_list(""), Some(vec![]));
        for wrong in ["3-1", "x", "0-99999999999", "-1", "1-"] {
            assert_eq!(parse_cpu_list(wrong), None, "{wrong}");
        }
    }
}
