//! A drive's size by its name.
//!
//! Makers sell drives in whole GB or TB, and agreed how many blocks with 512 bytes such a drive has (SFF-8447,
//! "LBA Count for Disk Drives").

/// Smallest and largest size in GB that a name is believed. The rule for blocks begins at 50 GB.
const SOLD_GB: std::ops::RangeInclusive<u64> = 60..=64_000;

/// Blocks for the first 50 GB, and for each further GB.
const BLOCKS_OF_50_GB: u64 = 97_696_368;
const BLOCKS_OF_1_GB: u64 = 1_953_504;

/// Bytes per block in SFF-8447.
const BLOCK_BYTES: u64 = 512;

/// A drive's bytes by the size in the name, a word such as `256G`, `512GB`, `1 TB`. `None`: no such word, or several different
/// sizes.
pub(crate) fn capacity_bytes_by_name(name: &str) -> Option<u64> {
    let mut sizes: Vec<u64> = Vec::new();
    let words: Vec<&str> = name
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '.')
        .collect();
    for (index, word) in words.iter().enumerate() {
        let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = match &word[digits.len()..] {
            "" => words.get(index + 1).copied().unwrap_or_default(),
            unit => unit,
        };
        let factor = match unit {
            "GB" | "G" => 1,
            "TB" | "T" => 1000,
            _ => continue,
        };
        if digits.is_empty() || digits.starts_with('0') || digits.contains('.') {
            continue;
        }
        let gb = digits.parse::<u64>().ok()?.checked_mul(factor)?;
        if SOLD_GB.contains(&gb) && !sizes.contains(&gb) {
            sizes.push(gb);
        }
    }
    match sizes[..] {
        [gb] => Some((BLOCKS_OF_50_GB + BLOCKS_OF_1_GB * (gb - 50)) * BLOCK_BYTES),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_in_a_name_is_that_of_the_blocks_agreed_on() {
        for (name, bytes) in [
            ("WDC PC SN530 SDBPNPZ-256G-1006", 256_060_514_304),
            ("SAMSUNG SSD 970 EVO 500GB", 500_107_862_016),
            ("Samsung SSD 990 PRO 1TB", 1_000_204_886_016),
            ("a drive of 2 TB", 2_000_398_934_016),
            // Twice the same size counts once.
            ("512GB MEGA S3 512GB", 512_110_190_592),
        ] {
            assert_eq!(capacity_bytes_by_name(name), Some(bytes), "{name}");
        }
    }

    #[test]
    fn what_may_mean_something_else_is_no_size() {
        for name in [
            "",
            "311CD0128GB",
            "KBG40ZNV256G2",
            "AGI256G16AI198",
            "WDC PC SN530 SDBPNPZ-1T00-1006",
            "TEAM TM8FP7 001T",
            "ARDOR GAMING m.2 NVME 256Gb AL1282",
            "Gen4 4 G 16G",
            "a 256GB or 512GB drive",
            "999999999999999999999999GB",
            "1.5TB",
        ] {
            assert_eq!(capacity_bytes_by_name(name), None, "{name}");
        }
    }
}
