//! Where I/Os lie.

use super::super::error::{Problem, Verdict, shown};
use super::super::values::per_direction;
use super::super::values::percent;
use super::super::{Places, Size, ZoneMode};
use super::draft::Draft;
use super::extent::share_or_bytes;
use super::row::Row;
use super::value::{one_of, printed_list};

const PLACES: &str =
    "is ignored: where an I/O lies decides nothing but which drive of a RAID0 has it";
const ZONES: &str =
    "zones of a zoned drive are not modelled; remove it to simulate a drive without zones";

pub(super) const ROWS: &[Row] = &[
    Row::sets(&["offset", "fileoffset"], |job, value| {
        zones_of_drive(value.text)?;
        job.places.offset = share_or_bytes(value)?;
        Ok(())
    })
    .judged(|draft, _| {
        let job = &draft.job;
        if job.places.offset.is_some() && job.is_on_device() && job.size.is_none() {
            // The offset leaves less of the device.
            Verdict::Fine
        } else {
            Verdict::Ignored(PLACES.to_owned())
        }
    })
    .printed(|job| job.places.offset.map(|offset| offset.to_string())),
    Row::sets(&["offset_increment"], |job, value| {
        zones_of_drive(value.text)?;
        job.places.increment = share_or_bytes(value)?;
        Ok(())
    })
    .judged(|draft, _| {
        let job = &draft.job;
        if job.numjobs > 1 && job.is_on_device() && !matches!(job.size, Some(Size::Bytes(_))) {
            Verdict::Ignored(
                "leaves less of the device for each further process; the model gives all as much as the first"
                    .to_owned(),
            )
        } else {
            Verdict::Ignored(PLACES.to_owned())
        }
    })
    .printed(|job| job.places.increment.map(|increment| increment.to_string())),
    Row::sets(&["offset_align"], |job, value| {
        job.places.align = Some(value.bytes(0)?).filter(|align| *align > 0);
        Ok(())
    })
    .printed(|job| job.places.align.map(|align| align.to_string())),
    Row::sets(&["ba", "blockalign"], |job, value| {
        let given = value.bytes_per_direction(0)?;
        let align = &mut job.places.block_align;
        for (align, given) in align.each_mut().into_iter().zip(given.each()) {
            if let Some(given) = given {
                *align = (*given > 0).then_some(*given);
            }
        }
        Ok(())
    })
    .judged(|_, _| Verdict::Ignored(PLACES.to_owned()))
    .printed(|job| printed_list(&job.places.block_align)),
    Row::sets(&["random_distribution"], |job, value| {
        distribution(value.text)?;
        let uneven = value.text.split(':').next() != Some("random");
        job.places.distribution = uneven.then(|| value.text.to_owned());
        Ok(())
    })
    .judged(|draft, _| match draft.job.places.distribution {
        Some(_) => Verdict::Ignored(PLACES.to_owned()),
        None => Verdict::Fine,
    })
    .printed(|job| job.places.distribution.clone()),
    Row::sets(&["percentage_random"], |job, value| {
        let given = per_direction(value.text, percent)?;
        let percentages = &mut job.places.percentage_random;
        for (kept, given) in percentages.each_mut().into_iter().zip(given.each()) {
            *kept = given.unwrap_or(*kept);
        }
        Ok(())
    })
    .judged(|_, _| Verdict::Ignored(PLACES.to_owned()))
    .printed(|job| {
        let percentages = job.places.percentage_random;
        (percentages != Places::default().percentage_random)
            .then(|| printed_list(&percentages.map(Some)).unwrap_or_default())
    }),
    Row::ignored(&["softrandommap"], PLACES),
    Row::ignored(&["rw_sequencer"], PLACES).checked(|value| match value.text {
        "sequential" | "identical" => Ok(()),
        other => Err(one_of(other, &["sequential", "identical"])),
    }),
    Row::ignored(&["file_append"], PLACES),
    Row::depends(&["serialize_overlap"], |draft, value| {
        let job = &draft.job;
        let why = if value == "0" {
            return Verdict::Fine;
        } else if job.effective_iodepth() == 1 || !job.rw.writes() {
            "has no effect: no two of its writes are in flight together"
        } else {
            "is ignored: two I/Os in flight hardly ever overlap"
        };
        Verdict::Ignored(why.to_owned())
    }),
    Row::sets(&["zonemode"], |job, value| {
        job.places.zones.mode = match value.text {
            "none" => ZoneMode::None,
            "strided" => ZoneMode::Strided,
            "zbd" => return Err(Problem::unmodelled(ZONES)),
            other => return Err(one_of(other, &["none", "strided", "zbd"])),
        };
        Ok(())
    })
    .judged(|draft, _| strided(draft))
    .printed(|job| match job.places.zones.mode {
        ZoneMode::None => None,
        ZoneMode::Strided => Some("strided".to_owned()),
    }),
    Row::sets(&["zonesize"], |job, value| {
        job.places.zones.size = value.bytes(0)?;
        Ok(())
    })
    .judged(|draft, _| strided(draft))
    .printed(|job| printed_bytes(job.places.zones.size)),
    Row::sets(&["zonerange"], |job, value| {
        job.places.zones.range = value.bytes(0)?;
        Ok(())
    })
    .judged(|draft, _| strided(draft))
    .printed(|job| printed_bytes(job.places.zones.range)),
    Row::sets(&["zoneskip"], |job, value| {
        zones_of_drive(value.text)?;
        job.places.zones.skip = value.bytes(0)?;
        Ok(())
    })
    .judged(|draft, _| strided(draft))
    .printed(|job| printed_bytes(job.places.zones.skip)),
    Row::depends(&["zonecapacity"], of_zoned_drive),
    Row::depends(&["read_beyond_wp"], of_zoned_drive),
    Row::depends(&["max_open_zones"], of_zoned_drive),
    Row::depends(&["job_max_open_zones"], of_zoned_drive),
    Row::depends(&["ignore_zone_limits"], of_zoned_drive),
    Row::depends(&["zone_reset_threshold"], of_zoned_drive),
    Row::depends(&["zone_reset_frequency"], of_zoned_drive),
];

fn printed_bytes(bytes: u64) -> Option<String> {
    (bytes > 0).then(|| bytes.to_string())
}

/// A number of zones on a zoned drive, such as `5z`.
fn zones_of_drive(text: &str) -> Result<(), Problem> {
    let zones = text.strip_suffix(['z', 'Z']);
    match zones.filter(|n| n.bytes().all(|b| b.is_ascii_digit()) && !n.is_empty()) {
        Some(_) => Err(Problem::unmodelled(format!("`{}`: {ZONES}", shown(text)))),
        None => Ok(()),
    }
}

fn is_zoned_drive(draft: &Draft) -> bool {
    draft.value_of("zonemode") == Some("zbd")
}

/// Judges the options for zones with gaps.
fn strided(draft: &Draft) -> Verdict {
    let zones = draft.job.places.zones;
    let why = if is_zoned_drive(draft) {
        // Refused already.
        return Verdict::Fine;
    } else if zones.mode == ZoneMode::None {
        "has no effect without zonemode=strided"
    } else if draft.job.files() > 1 {
        "has no effect: fio takes zones of one file only"
    } else {
        PLACES
    };
    Verdict::Ignored(why.to_owned())
}

fn of_zoned_drive(draft: &Draft, _: &str) -> Verdict {
    if is_zoned_drive(draft) {
        // Refused already.
        Verdict::Fine
    } else {
        Verdict::Ignored("has no effect without zonemode=zbd".to_owned())
    }
}

/// Whether fio takes this for a distribution.
fn distribution(text: &str) -> Result<(), Problem> {
    const KINDS: [&str; 6] = ["random", "zipf", "pareto", "normal", "zoned", "zoned_abs"];
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    match kind {
        "random" => Ok(()),
        "zipf" => check_parameter(rest, "theta", "another number than 1", |n| {
            !(1.0..=1.0).contains(&n)
        }),
        "pareto" => check_parameter(rest, "the power", "more than 0 and less than 1", |n| {
            n > 0.0 && n < 1.0
        }),
        "normal" => check_parameter(rest, "the deviation", "0 to less than 100", |n| {
            (0.0..100.0).contains(&n)
        }),
        "zoned" | "zoned_abs" => zoned(rest, kind == "zoned"),
        other => Err(one_of(other, &KINDS)),
    }
}

/// Checks `parameter:center` of a distribution, where both may be missing.
fn check_parameter(
    text: &str,
    what: &str,
    range: &str,
    is_in_range: fn(f64) -> bool,
) -> Result<(), Problem> {
    let mut parts = text.split(':');
    let first = parts.next().filter(|part| !part.is_empty());
    if let Some(part) = first
        && !is_in_range(finite_number(part)?)
    {
        let message = format!("{what} is `{}`; expected {range}", shown(part));
        return Err(Problem::new(message));
    }
    if let Some(part) = parts.next()
        && !(0.0..=1.0).contains(&finite_number(part)?)
    {
        let message = format!("the center is `{}`; expected 0 to 1", shown(part));
        return Err(Problem::new(message));
    }
    Ok(())
}

fn finite_number(text: &str) -> Result<f64, Problem> {
    let number: Option<f64> = text.parse().ok().filter(|n: &f64| n.is_finite());
    number.ok_or_else(|| Problem::new(format!("`{}` is not a number", shown(text))))
}

/// `access/size:access/size`, where the accesses add up to 100 %.
fn zoned(text: &str, in_percent: bool) -> Result<(), Problem> {
    for list in text.split(',') {
        let (mut access, mut size) = (0_u32, 0_u32);
        for part in list.split(':') {
            let Some((share, whole)) = part.split_once('/') else {
                let message = format!("`{}` is not a zone; expected access/size", shown(part));
                return Err(Problem::new(message));
            };
            access += u32::from(percent(share)?);
            if in_percent && !whole.is_empty() {
                size += u32::from(percent(whole.trim_end_matches('%'))?);
            }
        }
        if access != 100 {
            let message = format!(
                "the accesses of `{}` add up to {access} %, not 100",
                shown(list)
            );
            return Err(Problem::new(message));
        }
        if size > 100 {
            let message = format!("the sizes of `{}` add up to {size} %", shown(list));
            return Err(Problem::new(message));
        }
    }
    Ok(())
}
