//! Choosing a trace's disk.

use wakepath_units::printable::escape_for_one_line;
use wakepath_units::spelling::suggestion_with_known_names;

use super::totals::TracedDisk;

/// Finds a disk's number by name, or by the name's end behind a comma. Without a name the busiest disk is chosen, the first among
/// equals.
///
/// # Errors
/// No disk has the name, or several names end so; the message lists disks.
pub fn choose_disk(disks: &[TracedDisk], wanted: Option<&str>) -> Result<usize, String> {
    let Some(wanted) = wanted else {
        let busiest = (disks.iter().enumerate())
            .max_by_key(|(number, disk)| (disk.requests, std::cmp::Reverse(*number)));
        return busiest
            .map(|(number, _)| number)
            .ok_or_else(|| "no disk has a request".to_owned());
    };
    if let Some(number) = disks.iter().position(|disk| disk.name == wanted) {
        return Ok(number);
    }
    let mut by_end = (disks.iter().enumerate()).filter(|(_, disk)| {
        disk.name
            .rsplit_once(',')
            .is_some_and(|(_, end)| end == wanted)
    });
    match (by_end.next(), by_end.next()) {
        (Some((number, _)), None) => Ok(number),
        (Some((_, first)), Some((_, second))) => Err(format!(
            "several disks are called {}: {}, {}; give the whole name",
            escape_for_one_line(wanted),
            escape_for_one_line(&first.name),
            escape_for_one_line(&second.name)
        )),
        (None, _) => {
            let names: Vec<&str> = disks.iter().map(|disk| disk.name.as_str()).collect();
            let suggestion = suggestion_with_known_names(wanted, &names);
            Err(format!(
                "no disk `{}`{}",
                escape_for_one_line(wanted),
                escape_for_one_line(&suggestion)
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disks(names: &[(&str, u64)]) -> Vec<TracedDisk> {
        let disks = names.iter().map(|(name, requests)| TracedDisk {
            name: (*name).to_owned(),
            requests: *requests,
        });
        disks.collect()
    }

    #[test]
    fn the_busiest_disk_is_taken_unless_another_is_named() {
        let all = disks(&[("usr,0", 3), ("usr,1", 9), ("src,1", 9)]);
        assert_eq!(choose_disk(&all, None), Ok(1));
        assert_eq!(choose_disk(&all, Some("0")), Ok(0));
        assert_eq!(choose_disk(&all, Some("src,1")), Ok(2));
        let several = choose_disk(&all, Some("1")).unwrap_err();
        assert!(several.contains("usr,1, src,1"), "{several}");
        let none = choose_disk(&all, Some("usr,7")).unwrap_err();
        assert!(none.contains("no disk `usr,7`"), "{none}");
    }
}
